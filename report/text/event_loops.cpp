// SPDX-License-Identifier: BSD-3-Clause
// The section on event loops: how long each waited, ran and was blocked, and which lines blocked it.
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
#include "report/text/tree.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kThreadColumns = 16;

std::string thread_cell(const EventLoopRow& row) {
  const std::string name = row.thread.empty() ? "thread" : printable(row.thread);
  return fmt::format("{} {}", shorten_middle(name, kThreadColumns), row.tid);
}

struct Blocking {
  const EventLoopRow* loop;
  const LoopBlockRow* block;
};

void print_blocks(Page& page, const std::vector<Blocking>& blocks, const ShortPaths& paths,
                  const ResourceOptions& options) {
  if (blocks.empty()) return;
  title(page, "Blocked by");
  const std::size_t shown = rows_shown(blocks.size(), options);
  const TimeScale scale(blocks.front().block->time_s);
  print_table(page,
              {{fmt::format("time [{}]", scale.unit())},
               {"turns"},
               {"longest"},
               {"rank"},
               {"run by the loop", Align::kLeft},
               {"line", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const LoopBlockRow& block = *blocks[i].block;
                  table.row({scale(block.time_s), std::to_string(block.count), seconds(block.longest_s),
                             std::to_string(blocks[i].loop->rank),
                             block.task.empty() ? "-" : shorten_middle(printable(block.task), 24),
                             room == 0 ? "" : place_cell(block.place, paths, room)});
                }
              });
  note_the_rest(page, shown, blocks.size());
}

std::string coroutine_cell(const TaskRow& row, const ShortPaths& paths, std::size_t room) {
  if (row.coroutine.empty()) return "others";
  FunctionRow function;
  function.name = row.coroutine, function.file = row.file, function.line = row.line;
  function.kind = shard::FrameKind::kPython;
  return describe(function, paths, room);
}

void print_tasks(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  title(page, "Tasks");
  const std::size_t shown = rows_shown(a.tasks.size(), options);
  const TimeScale scale(a.tasks.front().time_s);
  print_table(page,
              {{fmt::format("time [{}]", scale.unit())},
               {"cpu"},
               {"rank"},
               {"name", Align::kLeft},
               {"coroutine", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const TaskRow& row = a.tasks[i];
                  table.row({scale(row.time_s), scale(row.cpu_s), std::to_string(row.rank),
                             row.name.empty() ? "-" : shorten_middle(printable(row.name), 24),
                             room == 0 ? "" : coroutine_cell(row, paths, room)});
                }
              });
  note_the_rest(page, shown, a.tasks.size());
  title(page, "Tasks below those that await them");
  print_tree(page, a.task_tree, a.tasks_s, paths, {options.rows, options.full});
}

void print_loops(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  std::vector<const EventLoopRow*> loops;
  std::vector<Blocking> blocks;
  for (const EventLoopRow& row : a.event_loops) {
    loops.push_back(&row);
    for (const LoopBlockRow& block : row.blocks) blocks.push_back({&row, &block});
  }
  std::stable_sort(loops.begin(), loops.end(),
                   [](const EventLoopRow* x, const EventLoopRow* y) { return x->blocked_s > y->blocked_s; });
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Blocking& x, const Blocking& y) { return x.block->time_s > y.block->time_s; });
  const std::size_t shown = rows_shown(loops.size(), options);
  print_table(page,
              {{"blocked"},
               {"awaited"},
               {"longest"},
               {"turns"},
               {"running"},
               {"idle"},
               {"rank"},
               {"kind", Align::kLeft},
               {"thread", Align::kLeft}},
              [&](Table& table, std::size_t) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const EventLoopRow& row = *loops[i];
                  table.row({seconds(row.blocked_s), seconds(row.awaited_s), seconds(row.longest_s),
                             std::to_string(row.turns), seconds(row.busy_s), seconds(row.idle_s),
                             std::to_string(row.rank), name_of(row.kind), thread_cell(row)});
                }
              });
  note_the_rest(page, shown, loops.size());
  page.line("  awaited: of the blocked time, while something was ready that had to wait", Style::kDim);
  print_blocks(page, blocks, paths, options);
}

}  // namespace

void print_event_loops(Page& page, const Analysis& a, const ShortPaths& paths,
                       const ResourceOptions& options) {
  page.section("Event loops",
               fmt::format("blocked: in turns of {} or more",
                           seconds(static_cast<double>(shard::EventLoop::kBlockedTurnNs) / 1e9)));
  if (!a.event_loops.empty()) print_loops(page, a, paths, options);
  if (!a.tasks.empty() && !a.task_tree.empty()) print_tasks(page, a, paths, options);
}

}  // namespace clusterprof::report::text
