// SPDX-License-Identifier: BSD-3-Clause
// Threads, those that are alike as one line, which opens; below them event loops and the lines that blocked
// them, parallel regions of OpenMP with what is inside, and asyncio's tasks, by name and below those that
// await them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

constexpr std::size_t kRank = 6, kKind = 8;
constexpr std::size_t kLoopTime = 10;

// Columns before the names.
constexpr std::size_t kThreadNumbers = 4 * kNumber + kRank + kKind;
constexpr std::size_t kLoopNumbers = 5 * kLoopTime + kRank;
constexpr std::size_t kRegionNumbers = 4 * kLoopTime + 2 * kNumber;
constexpr std::size_t kLockNumbers = 2 * kLoopTime + kNumber;

class ThreadsView final : public View {
 public:
  explicit ThreadsView(const Run& run) : run_(run) {}

  std::string title() const override { return "Threads"; }
  std::string keys() const override { return "Right Left open and close  Enter the line"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    list_threads(filter);
    list_loops(filter);
    list_regions(filter);
    list_locks(filter);
    list_tasks(filter);
  }
  std::size_t size() const override { return items_.size(); }
  bool selectable(std::size_t item) const override { return items_[item].kind != Item::Kind::kText; }

  Spans heading(std::size_t columns) const override {
    static_cast<void>(columns);
    return {{cell(fmt::format("cpu {}", scale_.unit())) + cell("min") + cell("mean") + cell("max") +
                 cell("rank", kRank) + pad_right("kind", kKind) + "threads, mostly in",
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const Item& at = items_[item];
    const Analysis& a = run_.analysis;
    switch (at.kind) {
      case Item::Kind::kGroup:
        return group_spans(at.index, columns);
      case Item::Kind::kThread:
        return thread_spans(a.threads[at.index], columns);
      case Item::Kind::kLoop:
        return loop_spans(at.index, columns);
      case Item::Kind::kBlock:
        return block_spans(a.event_loops[at.index].blocks[at.part], columns);
      case Item::Kind::kRegion:
        return region_spans(at.index, columns);
      case Item::Kind::kConstruct:
        return construct_spans(a.openmp->regions[at.index].constructs[at.part], columns);
      case Item::Kind::kLock:
        return lock_spans(a.locks[at.index], columns);
      case Item::Kind::kTask:
        return task_spans(a.tasks[at.index], columns);
      case Item::Kind::kAwaited:
        return awaited_spans(at, columns);
      case Item::Kind::kText:
        break;
    }
    return at.text;
  }

  ViewRequest open(std::size_t item) override {
    const Item& at = items_[item];
    const Analysis& a = run_.analysis;
    const SourceLocation* place = nullptr;
    if (at.kind == Item::Kind::kTask) return source_of(a.tasks[at.index].file, a.tasks[at.index].line);
    if (at.kind == Item::Kind::kAwaited)
      return source_of(a.task_tree[at.index].file, a.task_tree[at.index].line);
    if (at.kind == Item::Kind::kGroup) place = &a.thread_groups[at.index].top;
    if (at.kind == Item::Kind::kThread) place = &a.threads[at.index].top;
    if (at.kind == Item::Kind::kRegion) place = &a.openmp->regions[at.index].place;
    if (at.kind == Item::Kind::kConstruct) place = &a.openmp->regions[at.index].constructs[at.part].place;
    if (at.kind == Item::Kind::kLock && !a.locks[at.index].holders.empty())
      place = &a.locks[at.index].holders.front().place;
    const std::size_t block = at.kind == Item::Kind::kBlock ? at.part : 0;  // of a loop: the largest
    if (at.kind == Item::Kind::kLoop || at.kind == Item::Kind::kBlock)
      if (block < a.event_loops[at.index].blocks.size()) place = &a.event_loops[at.index].blocks[block].place;
    return place != nullptr ? source_of(place->file, place->line) : ViewRequest{};
  }
  bool right(std::size_t& item) override {
    const Item& at = items_[item];
    if (at.kind == Item::Kind::kGroup) return open_groups_.insert(at.index).second;
    if (at.kind == Item::Kind::kLoop) return open_loops_.insert(at.index).second;
    if (at.kind == Item::Kind::kRegion) return open_regions_.insert(at.index).second;
    return false;
  }
  bool left(std::size_t& item) override {
    const auto goes_up_from = [&](Item::Kind kind) { return items_[item].kind == kind && item > 0; };
    while (goes_up_from(Item::Kind::kThread) || goes_up_from(Item::Kind::kBlock) ||
           goes_up_from(Item::Kind::kConstruct))
      --item;
    const Item& at = items_[item];
    if (at.kind == Item::Kind::kGroup) return open_groups_.erase(at.index) != 0;
    if (at.kind == Item::Kind::kLoop) return open_loops_.erase(at.index) != 0;
    if (at.kind == Item::Kind::kRegion) return open_regions_.erase(at.index) != 0;
    return false;
  }

 private:
  struct Item {
    enum class Kind { kGroup, kThread, kText, kLoop, kBlock, kRegion, kConstruct, kLock, kTask, kAwaited };
    Kind kind = Kind::kText;
    std::uint32_t index = 0;  // into the table of the kind; kBlock: of its loop; kConstruct: of its region
    std::size_t part = 0;     // kBlock, kConstruct; kAwaited: its depth in the tree
    Spans text;               // kText
  };

  static ViewRequest source_of(const std::string& file, std::uint32_t line) {
    if (file.empty() || line == 0) return {};
    return {ViewRequest::Kind::kSource, 0, file, line, {}};
  }

  static const char* kind_name(const ThreadGroup& group) { return shard::thread_kind_name(group.kind); }

  void list_threads(std::string_view filter) {
    const Analysis& a = run_.analysis;
    std::vector<std::uint32_t> groups;
    double most_s = 0;
    for (std::uint32_t i = 0; i < a.thread_groups.size(); ++i) {
      const ThreadGroup& group = a.thread_groups[i];
      if (!run_.is_chosen(group.rank)) continue;
      if (!matches(printable(group.name), filter) && !matches(kind_name(group), filter)) continue;
      groups.push_back(i);
      most_s = std::max(most_s, group.cpu_s);
    }
    std::stable_sort(groups.begin(), groups.end(), [&](std::uint32_t x, std::uint32_t y) {
      return a.thread_groups[x].cpu_s > a.thread_groups[y].cpu_s;
    });
    scale_ = TimeScale(most_s);
    for (const std::uint32_t group : groups) {
      items_.push_back({Item::Kind::kGroup, group, 0, {}});
      if (!open_groups_.contains(group)) continue;
      for (std::uint32_t row = 0; row < a.threads.size(); ++row)
        if (a.threads[row].group == group) items_.push_back({Item::Kind::kThread, row, 0, {}});
    }
  }

  void add_text(Spans spans) { items_.push_back({Item::Kind::kText, 0, 0, std::move(spans)}); }

  void list_tasks(std::string_view filter) {
    const Analysis& a = run_.analysis;
    std::vector<Item> tasks;
    for (std::uint32_t i = 0; i < a.tasks.size(); ++i) {
      const TaskRow& task = a.tasks[i];
      if (!run_.is_chosen(task.rank)) continue;
      if (matches(printable(task.name), filter) || matches(printable(task.coroutine), filter))
        tasks.push_back({Item::Kind::kTask, i, 0, {}});
    }
    if (tasks.empty()) return;
    task_scale_ = TimeScale(a.tasks_s);
    add_text({});
    add_text({{"Tasks", Style::kTitle}});
    add_text({{cell(fmt::format("time {}", task_scale_.unit()), kLoopTime) + cell("cpu", kLoopTime) +
                   cell("rank", kRank) + "name, coroutine",
               Style::kDim}});
    items_.insert(items_.end(), tasks.begin(), tasks.end());
    add_text({});
    add_text({{"Tasks below those that await them", Style::kTitle}, {"  all ranks", Style::kDim}});
    add_text({{cell("total", kLoopTime) + cell("self", kLoopTime) + "  function", Style::kDim}});
    std::vector<std::size_t> depth(a.task_tree.size());
    for (std::uint32_t i = 0; i < a.task_tree.size(); ++i) {
      const std::uint32_t parent = a.task_tree[i].parent;
      if (parent != shard::kNone) depth[i] = depth[parent] + 1;
      items_.push_back({Item::Kind::kAwaited, i, depth[i], {}});
    }
  }

  void list_loops(std::string_view filter) {
    const Analysis& a = run_.analysis;
    std::vector<std::uint32_t> loops;
    for (std::uint32_t i = 0; i < a.event_loops.size(); ++i) {
      const EventLoopRow& loop = a.event_loops[i];
      if (!run_.is_chosen(loop.rank)) continue;
      if (matches(printable(loop.thread), filter) || matches(name_of(loop.kind), filter)) loops.push_back(i);
    }
    if (loops.empty()) return;
    std::stable_sort(loops.begin(), loops.end(), [&](std::uint32_t x, std::uint32_t y) {
      return a.event_loops[x].blocked_s > a.event_loops[y].blocked_s;
    });
    add_text({});
    const double least_s = static_cast<double>(shard::EventLoop::kBlockedTurnNs) / 1e9;
    add_text({{"Event loops", Style::kTitle},
              {fmt::format("  blocked: in turns of {} or more", seconds(least_s)), Style::kDim}});
    add_text({{cell("blocked", kLoopTime) + cell("awaited", kLoopTime) + cell("longest", kLoopTime) +
                   cell("running", kLoopTime) + cell("idle", kLoopTime) + cell("rank", kRank) +
                   "thread, mostly blocked by",
               Style::kDim}});
    for (const std::uint32_t loop : loops) {
      items_.push_back({Item::Kind::kLoop, loop, 0, {}});
      if (!open_loops_.contains(loop)) continue;
      for (std::size_t block = 0; block < a.event_loops[loop].blocks.size(); ++block)
        items_.push_back({Item::Kind::kBlock, loop, block, {}});
    }
  }

  void list_regions(std::string_view filter) {
    const std::optional<OpenMp>& openmp = run_.analysis.openmp;
    if (!openmp) return;
    std::vector<std::uint32_t> regions;
    for (std::uint32_t i = 0; i < openmp->regions.size(); ++i)
      if (matches(printable(openmp->regions[i].place.function), filter)) regions.push_back(i);
    if (regions.empty()) return;
    add_text({});
    add_text({{"Parallel regions", Style::kTitle}, {run_.group ? "  of all ranks" : "", Style::kDim}});
    add_text({{cell("threads", kLoopTime) + cell("work", kLoopTime) + cell("wait", kLoopTime) +
                   cell("each", kLoopTime) + cell("imbal.") + cell("team") + "region",
               Style::kDim}});
    for (const std::uint32_t region : regions) {
      items_.push_back({Item::Kind::kRegion, region, 0, {}});
      if (!open_regions_.contains(region)) continue;
      for (std::size_t part = 0; part < openmp->regions[region].constructs.size(); ++part)
        items_.push_back({Item::Kind::kConstruct, region, part, {}});
    }
  }

  void list_locks(std::string_view filter) {
    const Analysis& a = run_.analysis;
    std::vector<Item> locks;
    for (std::uint32_t i = 0; i < a.locks.size(); ++i)
      if (matches(lock_label(a.locks[i]), filter)) locks.push_back({Item::Kind::kLock, i, 0, {}});
    if (locks.empty()) return;
    add_text({});
    add_text({{"Locks that threads waited for", Style::kTitle},
              {run_.group ? "  of all ranks" : "", Style::kDim}});
    add_text({{cell("wait", kLoopTime) + cell("longest", kLoopTime) + cell("waits") + "lock, held or ended in",
               Style::kDim}});
    items_.insert(items_.end(), locks.begin(), locks.end());
  }

  // `name`, and after it the place as far as there is room.
  Spans name_and(const std::string& name, const SourceLocation& place, std::size_t room) const {
    Spans spans{{shorten(name, room)}};
    const std::size_t left = room - std::min(room, format::columns(name));
    if (left > 12 && !(place.function.empty() && place.file.empty()))
      spans.push_back({"  " + describe(place, run_.names, left - 2), Style::kDim});
    return spans;
  }

  Spans group_spans(std::uint32_t index, std::size_t columns) const {
    const ThreadGroup& group = run_.analysis.thread_groups[index];
    const std::string name = counted_name(group.count, group.name);
    Spans spans{{time_cell(scale_, group.cpu_s) + time_cell(scale_, group.cpu_min_s) +
                 time_cell(scale_, group.cpu_mean_s) + time_cell(scale_, group.cpu_max_s) +
                 cell(std::to_string(group.rank), kRank) + pad_right(kind_name(group), kKind)}};
    append(spans, name_and((open_groups_.contains(index) ? "- " : "+ ") + name, group.top,
                           rest_of(columns, kThreadNumbers)));
    return spans;
  }

  Spans thread_spans(const ThreadRow& row, std::size_t columns) const {
    const std::string name =
        row.count > 1
            ? fmt::format("    {} that ended", row.count)
            : fmt::format("    {} tid {}  {:.3f} s to {}", printable(row.name), row.tid, row.start_s,
                          row.runs ? "now" : fmt::format("{:.3f} s", row.start_s + row.elapsed_s));
    Spans spans{{time_cell(scale_, row.cpu_s) + std::string(kThreadNumbers - kNumber, ' ')}};
    append(spans, name_and(name, row.top, rest_of(columns, kThreadNumbers)));
    return spans;
  }

  Spans loop_spans(std::uint32_t index, std::size_t columns) const {
    const EventLoopRow& loop = run_.analysis.event_loops[index];
    const auto time = [](double time_s) { return cell(seconds(time_s), kLoopTime); };
    const std::string name =
        fmt::format("{}{} {} ({})", open_loops_.contains(index) ? "- " : "+ ",
                    loop.thread.empty() ? "thread" : printable(loop.thread), loop.tid, name_of(loop.kind));
    Spans spans{{time(loop.blocked_s) + time(loop.awaited_s) + time(loop.longest_s) + time(loop.busy_s) +
                 time(loop.idle_s) + cell(std::to_string(loop.rank), kRank)}};
    append(spans, name_and(name, loop.blocks.empty() ? SourceLocation{} : loop.blocks.front().place,
                           rest_of(columns, kLoopNumbers)));
    return spans;
  }

  Spans block_spans(const LoopBlockRow& block, std::size_t columns) const {
    const auto time = [](double time_s) { return cell(seconds(time_s), kLoopTime); };
    Spans spans{{time(block.time_s) + time(block.awaited_s) + time(block.longest_s) +
                 std::string(2 * kLoopTime + kRank, ' ')}};
    const std::string name =
        fmt::format("    {} turns of {}", block.count, block.task.empty() ? "?" : printable(block.task));
    append(spans, name_and(name, block.place, rest_of(columns, kLoopNumbers)));
    return spans;
  }

  Spans region_spans(std::uint32_t index, std::size_t columns) const {
    const OpenMpRegionRow& row = run_.analysis.openmp->regions[index];
    const auto time = [](double time_s) { return cell(seconds(time_s), kLoopTime); };
    const double each_s = row.count != 0 ? row.time_s / static_cast<double>(row.count) : 0;
    Spans spans{{time(row.thread_s) + time(row.work_s) + time(row.wait_s) + time(each_s) +
                 cell(row.imbalance ? fmt::format("{:.2f}", *row.imbalance) : "-") +
                 cell(std::to_string(row.threads))}};
    append(spans, name_and(fmt::format("{}{} x", open_regions_.contains(index) ? "- " : "+ ", row.count),
                           row.place, rest_of(columns, kRegionNumbers)));
    return spans;
  }

  Spans lock_spans(const LockRow& row, std::size_t columns) const {
    Spans spans{{cell(seconds(row.wait_s), kLoopTime) + cell(seconds(row.longest_s), kLoopTime) +
                 cell(std::to_string(row.waits))}};
    append(spans,
           name_and(lock_label(row), row.holders.empty() ? SourceLocation{} : row.holders.front().place,
                    rest_of(columns, kLockNumbers)));
    return spans;
  }

  Spans construct_spans(const OpenMpConstructRow& row, std::size_t columns) const {
    const auto time = [](double time_s) { return cell(seconds(time_s), kLoopTime); };
    Spans spans{{time(row.time_s) + time(row.time_s - row.wait_s) + time(row.wait_s) +
                 std::string(kLoopTime + 2 * kNumber, ' ')}};
    append(spans, name_and("    " + construct_label(row.kind, row.schedules), row.place,
                           rest_of(columns, kRegionNumbers)));
    return spans;
  }

  Spans task_spans(const TaskRow& task, std::size_t columns) const {
    Spans spans{{cell(task_scale_(task.time_s), kLoopTime) + cell(task_scale_(task.cpu_s), kLoopTime) +
                 cell(std::to_string(task.rank), kRank)}};
    SourceLocation place;
    place.function = task.coroutine, place.file = task.file, place.line = task.line;
    place.kind = shard::FrameKind::kPython;
    append(spans, name_and(task.name.empty() ? "-" : printable(task.name), place,
                           rest_of(columns, 2 * kLoopTime + kRank)));
    return spans;
  }

  Spans awaited_spans(const Item& at, std::size_t columns) const {
    const CallTreeRow& row = run_.analysis.task_tree[at.index];
    constexpr std::size_t kMostIndent = 24;
    const std::size_t indent = 2 + std::min(at.part, kMostIndent);
    const std::size_t used = 2 * kLoopTime + indent;
    FunctionRow function;
    function.name = row.name, function.file = row.file, function.module = row.module;
    function.line = row.line, function.kind = row.kind;
    return {{cell(task_scale_(row.total_s), kLoopTime) + cell(task_scale_(row.self_s), kLoopTime) +
             std::string(indent, ' ') + describe(function, run_.names, rest_of(columns, used))}};
  }

  const Run& run_;
  std::vector<Item> items_;
  std::set<std::uint32_t> open_groups_, open_loops_, open_regions_;
  TimeScale scale_{1}, task_scale_{1};
};

}  // namespace

std::unique_ptr<View> threads_view(const Run& run) { return std::make_unique<ThreadsView>(run); }

}  // namespace clusterprof::report::tui
