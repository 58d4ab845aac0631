// SPDX-License-Identifier: BSD-3-Clause
// The section on processes: those that are alike are one row.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/words/unrecorded.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kProgramColumns = 28;

// Where there is little room, the reason is what matters.
std::string not_recorded(shard::Unrecorded unrecorded, std::size_t room) {
  const std::string_view why = words::unrecorded_phrase(shard::unrecorded_name(unrecorded));
  const std::string whole = fmt::format("not recorded: {}", why);
  return columns(whole) <= room ? whole : shorten(why, room);
}

// The table above has the reason, too.
std::string command_cell(const ProcessRow& row, std::size_t room) {
  std::string command = printable(command_line(row.command));
  if (row.count != 1) command = fmt::format("{} x {}", row.count, command);
  if (row.unrecorded == shard::Unrecorded::kNo) return shorten_middle(command, room);
  const std::string whole = fmt::format("{} ({})", command, not_recorded(row.unrecorded, std::string::npos));
  return columns(whole) <= room ? whole : shorten_middle(command, room);
}

void print_each(Page& page, const Analysis& a, const ResourceOptions& options) {
  title(page, "One by one");
  const std::size_t shown = rows_shown(a.processes.size(), options);
  print_table(
      page,
      {{"rank"},
       {"pid"},
       {"parent"},
       {"how", Align::kLeft},
       {"start"},
       {"end"},
       {"cpu"},
       {"exit", Align::kLeft},
       {"command", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const ProcessRow& row = a.processes[i];
          std::string ending = "-";
          if (row.runs) ending = "running";
          if (row.exit_status) ending = std::to_string(*row.exit_status);
          if (row.exit_signal) ending = signal_name(*row.exit_signal);
          table.row({std::to_string(row.rank), std::to_string(row.pid), std::to_string(row.parent_pid),
                     kProcessHowNames[static_cast<std::size_t>(row.how)], seconds(row.start_s),
                     row.runs ? "-" : seconds(row.start_s + row.elapsed_s),
                     row.cpu_s ? seconds(*row.cpu_s) : "-", ending,
                     room == 0 ? "" : command_cell(row, room)});
        }
      });
  note_the_rest(page, shown, a.processes.size());
}

}  // namespace

bool has_child_processes(const Analysis& a) {
  return std::any_of(a.process_groups.begin(), a.process_groups.end(),
                     [](const ProcessGroup& group) { return group.how != ProcessHow::kRank; });
}

void print_processes(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  std::vector<const ProcessGroup*> groups;
  double longest = 0, children_s = 0;
  std::uint64_t children = 0;
  for (const ProcessGroup& group : a.process_groups) {
    if (group.how == ProcessHow::kRank) continue;
    groups.push_back(&group);
    longest = std::max(longest, group.cpu_s);
    children_s += group.cpu_s;
    children += group.count;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const ProcessGroup* x, const ProcessGroup* y) { return x->cpu_s > y->cpu_s; });
  const TimeScale scale(longest);
  page.section("Processes", fmt::format("{} that ranks made, CPU time {}; in {}", children,
                                        seconds(children_s), scale.unit()));
  const std::size_t shown = rows_shown(groups.size(), options);
  const auto print = [&](const char* last, const auto& cell) {
    print_table(page,
                {{"cpu"},
                 {"min"},
                 {"mean"},
                 {"max"},
                 {"rank"},
                 {"how", Align::kLeft},
                 {"processes", Align::kLeft},
                 {last, Align::kLeft}},
                [&](Table& table, std::size_t room) {
                  for (std::size_t i = 0; i < shown; ++i) {
                    const ProcessGroup& group = *groups[i];
                    const auto time = [&](double time_s) {
                      return group.measured == 0 ? "-" : scale(time_s);
                    };
                    table.row({time(group.cpu_s), time(group.cpu_min_s), time(group.cpu_mean_s),
                               time(group.cpu_max_s), std::to_string(group.rank),
                               kProcessHowNames[static_cast<std::size_t>(group.how)],
                               counted_name(group.count, group.program, kProgramColumns),
                               room == 0 ? "" : cell(group, room)});
                  }
                });
  };
  print("mostly in", [&](const ProcessGroup& group, std::size_t room) {
    return group.unrecorded == shard::Unrecorded::kNo ? place_cell(group.top, paths, room)
                                                      : not_recorded(group.unrecorded, room);
  });
  note_the_rest(page, shown, groups.size());
  page.line("  cpu: of all of them; min, mean, max: of one of them", Style::kDim);
  if (!options.full) return;
  title(page, "Made by");
  print("line", [&](const ProcessGroup& group, std::size_t room) {
    return place_cell(group.created_by, paths, room);
  });
  print_each(page, a, options);
}

}  // namespace clusterprof::report::text
