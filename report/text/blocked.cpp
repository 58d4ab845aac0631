// SPDX-License-Identifier: BSD-3-Clause
// The section on time blocked outside MPI.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kPlaceColumns = 44;

void print_mutexes(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (a.mutexes.empty()) return;
  title(page, "For mutexes that other threads had");
  const std::size_t shown = rows_shown(a.mutexes.size(), options);
  const TimeScale scale(a.mutexes.front().wait_s);
  print_table(
      page,
      {{fmt::format("all [{}]", scale.unit())}, {"@rank"}, {"line", Align::kLeft}, {"held in", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const MutexRow& row = a.mutexes[i];
          const std::string holder =
              row.holders.empty() ? "-" : place_cell(row.holders.front().place, paths, kPlaceColumns);
          table.row({scale(row.wait_s), std::to_string(row.spread.max_rank),
                     place_cell(row.place, paths, kPlaceColumns),
                     room == 0 ? "" : shorten_middle(holder, room)});
        }
      });
  note_the_rest(page, shown, a.mutexes.size());
}

void print_locks(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (a.locks.empty()) return;
  title(page, "By lock");
  const std::size_t shown = rows_shown(a.locks.size(), options);
  const TimeScale scale(a.locks.front().wait_s);
  print_table(page,
              {{fmt::format("all [{}]", scale.unit())},
               {"waits"},
               {"longest", Align::kRight, true},
               {"lock", Align::kLeft},
               {"held or ended in", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const LockRow& row = a.locks[i];
                  const std::string holder =
                      row.holders.empty() ? "-" : place_cell(row.holders.front().place, paths, kPlaceColumns);
                  table.row({scale(row.wait_s), count_cell(row.waits), seconds(row.longest_s),
                             shorten_middle(lock_label(row), kPlaceColumns),
                             room == 0 ? "" : shorten_middle(holder, room)});
                }
              });
  note_the_rest(page, shown, a.locks.size());
}

}  // namespace

void print_off_cpu(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  if (!a.off_cpu) return;
  const std::vector<OffCpuRow>& rows = *a.off_cpu;
  double main_s = 0;
  std::array<double, kOffCpuKinds> kinds{};
  std::vector<const OffCpuRow*> order;
  for (const OffCpuRow& row : rows) {
    main_s += row.main_thread_s;
    kinds[static_cast<std::size_t>(row.kind)] += row.main_thread_s;
    if (options.full || row.main_thread_s > 0) order.push_back(&row);
  }
  // Main threads first: pools of idle helpers would hide them.
  std::stable_sort(order.begin(), order.end(), [](const OffCpuRow* x, const OffCpuRow* y) {
    return x->main_thread_s > y->main_thread_s;
  });
  const double longest = rows.empty() ? 0 : rows.front().time_s;
  const TimeScale scale(longest);
  page.section("Blocked outside MPI",
               fmt::format("in {}; main threads {}, {} of rank time", scale.unit(), seconds(main_s),
                           percent(share_of(main_s, a.rank_seconds))));
  std::vector<std::pair<double, std::size_t>> by_kind;
  for (std::size_t k = 0; k < kOffCpuKinds; ++k)
    if (kinds[k] > 0) by_kind.emplace_back(-kinds[k], k);
  std::sort(by_kind.begin(), by_kind.end());
  std::string text;
  for (const auto& [minus_s, k] : by_kind)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kOffCpuNames[k],
                        percent(share_of(-minus_s, a.rank_seconds)));
  if (!text.empty()) page.paragraph({"  main threads  "}, text);
  const std::size_t shown = rows_shown(order.size(), options);
  print_table(page, {{"main"}, {"%"}, {"all"}, {"@rank"}, {"for", Align::kLeft}, {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const OffCpuRow& row = *order[i];
                  table.row({scale(row.main_thread_s), share_cell(row.main_thread_s, a.rank_seconds),
                             scale(row.time_s), std::to_string(row.max_rank),
                             kOffCpuNames[static_cast<std::size_t>(row.kind)],
                             room == 0 ? ""
                                       : with_called(place_of(row.function, row.frame_kind, row.file,
                                                              row.line, paths, room),
                                                     row.called, room)});
                }
              });
  note_the_rest(page, shown, order.size());
  page.line("  main: of main threads, %: of their time; all: of all threads", Style::kDim);
  if (options.full) {
    print_mutexes(page, a, paths, options);
    print_locks(page, a, paths, options);
  }
}

}  // namespace clusterprof::report::text
