// SPDX-License-Identifier: BSD-3-Clause
// The section on OpenMP: efficiencies, parallel regions with what their threads wait for, and what one thread
// does while the others have nothing to do.
#include "report/words/openmp.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/text/waiting.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

std::string share_or_none(const std::optional<double>& share) { return share ? percent(*share) : "-"; }
std::string factor(const std::optional<double>& value) { return value ? fmt::format("{:.2f}", *value) : "-"; }

// "4", "4/8" where more were asked for
std::string threads_cell(const OpenMpRegionRow& row) {
  return row.threads_asked > row.threads ? fmt::format("{}/{}", row.threads, row.threads_asked)
                                         : std::to_string(row.threads);
}

class OpenMpSection {
 public:
  OpenMpSection(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options)
      : page_(page),
        openmp_(*a.openmp),
        has_times_(a.timeline.has_value()),
        paths_(paths),
        options_(options) {}

  void print() {
    const OpenMpEfficiency& e = openmp_.efficiency;
    page_.section("OpenMP", fmt::format("{}: load balance {}, scheduling {}, serialization {}",
                                        share_or_none(e.parallel), share_or_none(e.load_balance),
                                        share_or_none(e.scheduling), share_or_none(e.serialization)));
    regions();
    if (options_.full) constructs();
    serial();
    if (options_.full) over_time();
    for (const std::string& remark : words::openmp_remarks(openmp_)) page_.line("  " + remark, Style::kDim);
  }

 private:
  void regions() {
    if (openmp_.regions.empty()) return;
    const std::size_t shown = rows_shown(openmp_.regions.size(), options_);
    const TimeScale scale(openmp_.regions.front().thread_s);
    constexpr std::size_t kOneByOne = 3, kBegin = 4;
    const std::vector<bool> columns = print_table(
        page_,
        {{fmt::format("all threads [{}]", scale.unit())},
         {"work"},
         {"wait"},
         {"one by one", Align::kRight, true},
         {"begin", Align::kRight, true},
         {"imbalance"},
         {"count"},
         {"each", Align::kRight, true},
         {"threads"},
         {"region", Align::kLeft}},
        [&](Table& table, std::size_t room) {
          for (std::size_t i = 0; i < shown; ++i) {
            const OpenMpRegionRow& row = openmp_.regions[i];
            const double each_s = row.count != 0 ? row.time_s / static_cast<double>(row.count) : 0;
            const std::string nested = row.level != 0 ? fmt::format("[{}] ", row.level) : "";
            table.row(
                {scale(row.thread_s), scale(row.work_s), scale(row.wait_s), scale(row.serial_s),
                 scale(row.schedule_s), factor(row.imbalance), count_cell(row.count), seconds(each_s),
                 threads_cell(row),
                 room <= nested.size() ? "" : nested + place_cell(row.place, paths_, room - nested.size())});
          }
        });
    note_the_rest(page_, shown, openmp_.regions.size());
    page_.line(std::string("  wait: at the end and inside") +
                   (columns[kOneByOne] ? "; one by one: of it, where one thread works" : ""),
               Style::kDim);
    if (columns[kBegin]) page_.line("  begin: until threads begin, and for parts of loops", Style::kDim);
    page_.line("  imbalance: the thread with most work, by the mean", Style::kDim);
  }

  void constructs() {
    std::vector<const OpenMpConstructRow*> rows;
    for (const OpenMpRegionRow& region : openmp_.regions)
      for (const OpenMpConstructRow& construct : region.constructs) rows.push_back(&construct);
    if (rows.empty()) return;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto* a, const auto* b) { return a->wait_s > b->wait_s; });
    title(page_, "Inside regions");
    const std::size_t shown = rows_shown(rows.size(), options_);
    const TimeScale scale(rows.front()->wait_s);
    print_table(page_,
                {{fmt::format("wait [{}]", scale.unit())},
                 {"all threads"},
                 {"count"},
                 {"chunks", Align::kRight, true},
                 {"kind", Align::kLeft},
                 {"line", Align::kLeft}},
                [&](Table& table, std::size_t room) {
                  for (std::size_t i = 0; i < shown; ++i) {
                    const OpenMpConstructRow& row = *rows[i];
                    table.row({scale(row.wait_s), seconds(row.time_s), count_cell(row.count),
                               row.chunks != 0 ? count_cell(row.chunks) : "-",
                               construct_label(row.kind, row.schedules),
                               room == 0 ? "" : place_cell(row.place, paths_, room)});
                  }
                });
    note_the_rest(page_, shown, rows.size());
  }

  void serial() {
    if (openmp_.serial.empty() || openmp_.serial.front().lost_s <= 0) return;
    title(page_, "Outside regions, while the other threads have nothing to do");
    const std::size_t shown = rows_shown(openmp_.serial.size(), options_);
    const TimeScale scale(openmp_.serial.front().lost_s);
    print_table(page_,
                {{fmt::format("lost [{}]", scale.unit())}, {"time"}, {"native"}, {"line", Align::kLeft}},
                [&](Table& table, std::size_t room) {
                  for (std::size_t i = 0; i < shown; ++i) {
                    const OpenMpSerialRow& row = openmp_.serial[i];
                    table.row({scale(row.lost_s), seconds(row.time_s), seconds(row.native_s),
                               room == 0 ? "" : place_cell(row.place, paths_, room)});
                  }
                });
    note_the_rest(page_, shown, openmp_.serial.size());
  }

  void over_time() {
    if (openmp_.windows.empty()) {
      if (has_times_) page_.line("  over time: not recorded", Style::kDim);
      return;
    }
    std::vector<TimeLine> lines;
    const auto line = [&](std::string_view name, auto&& value) {
      TimeLine& made = lines.emplace_back();
      made.name = name;
      for (const OpenMpWindow& window : openmp_.windows) made.shares.push_back(value(window));
    };
    if (openmp_.hybrid_mpi) line("hybrid", [](const OpenMpWindow& w) { return w.hybrid_parallel; });
    line("OpenMP", [](const OpenMpWindow& w) { return w.efficiency.parallel; });
    line("  load balance", [](const OpenMpWindow& w) { return w.efficiency.load_balance; });
    line("  scheduling", [](const OpenMpWindow& w) { return w.efficiency.scheduling; });
    line("  serialization", [](const OpenMpWindow& w) { return w.efficiency.serialization; });
    print_time_lines(page_, spans_of(openmp_.windows), lines, openmp_.hybrid_mpi.has_value(),
                     options_.unicode);
  }

  Page& page_;
  const OpenMp& openmp_;
  bool has_times_;  // of other things
  const ShortPaths& paths_;
  const ResourceOptions& options_;
};

}  // namespace

void print_openmp(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  OpenMpSection(page, a, paths, options).print();
}

}  // namespace clusterprof::report::text
