// SPDX-License-Identifier: BSD-3-Clause
// The section on threads: those that are alike are one row.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
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

constexpr std::size_t kNameColumns = 28;
// Of the time of their rank: threads that do less only wait for something.
constexpr double kWorthSaying = 0.01;

const char* kind_name(const ThreadGroup& group) { return shard::thread_kind_name(group.kind); }

bool is_worth_saying(const Analysis& a, const ThreadGroup& group) {
  if (group.kind == shard::ThreadKind::kMain || group.cpu_s <= 0) return false;
  const auto rank =
      std::lower_bound(a.ranks.begin(), a.ranks.end(), group.rank,
                       [](const RankInfo& info, std::int32_t number) { return info.rank < number; });
  return rank == a.ranks.end() || group.cpu_s >= kWorthSaying * rank->elapsed_s;
}

}  // namespace

bool has_busy_threads(const Analysis& a) {
  return std::any_of(a.thread_groups.begin(), a.thread_groups.end(),
                     [&](const ThreadGroup& group) { return is_worth_saying(a, group); });
}

void print_threads(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  std::set<std::int32_t> shown_ranks;  // that have one
  for (const ThreadGroup& group : a.thread_groups)
    if (options.full || is_worth_saying(a, group)) shown_ranks.insert(group.rank);
  std::vector<const ThreadGroup*> groups;
  double longest = 0, all_s = 0;
  std::uint64_t threads = 0;
  for (const ThreadGroup& group : a.thread_groups) {
    all_s += group.cpu_s;
    threads += group.count;
    const bool is_of_such =
        group.kind == shard::ThreadKind::kMain || is_worth_saying(a, group) || options.full;
    if (!shown_ranks.contains(group.rank) || !is_of_such) continue;
    groups.push_back(&group);
    longest = std::max(longest, group.cpu_s);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ThreadGroup* x, const ThreadGroup* y) { return x->cpu_s > y->cpu_s; });
  const TimeScale scale(longest);
  page.section("Threads",
               fmt::format("{} threads, CPU time {}; in {}", threads, seconds(all_s), scale.unit()));
  const std::size_t shown = rows_shown(groups.size(), options);
  print_table(page,
              {{"cpu"},
               {"min"},
               {"mean"},
               {"max"},
               {"rank"},
               {"kind", Align::kLeft},
               {"threads", Align::kLeft},
               {"mostly in", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const ThreadGroup& group = *groups[i];
                  table.row({scale(group.cpu_s), scale(group.cpu_min_s), scale(group.cpu_mean_s),
                             scale(group.cpu_max_s), std::to_string(group.rank), kind_name(group),
                             counted_name(group.count, group.name, kNameColumns),
                             room == 0 ? "" : place_cell(group.top, paths, room)});
                }
              });
  note_the_rest(page, shown, groups.size());
  page.line("  cpu: of all of them; min, mean, max: of one of them", Style::kDim);
}

}  // namespace clusterprof::report::text
