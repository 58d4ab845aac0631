// SPDX-License-Identifier: BSD-3-Clause
// Which waits for events are those of event loops, and which lines blocked these.
// docs/design/0018-event-loops.md has the reasons.
#include "report/analysis/event_loops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/frame_owner.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::EventLoop;
using shard::FrameKind;
using shard::LoopBlock;

// Of loops without Python's frames. A main thread that has waited less often waited for something in
// particular. Threads of libraries (PMIx, UCX, gRPC, name servers) do nothing but wait for events, too: what
// a loop of the program's is shows in what it does besides.
constexpr std::uint64_t kFewestTurns = 100, kFewestHelperTurns = 1000;
constexpr double kBusyHelper = 0.10;  // of its time
constexpr std::size_t kMostLines = 50;

// Libraries whose progress is made in such loops, on any thread.
constexpr std::array<std::string_view, 6> kProgress = {"libpmix", "libucs",    "libuct",
                                                       "libucp",  "libfabric", "libprrte"};

// The frames of a path below which an event loop of Python's runs: where it begins, and the first function
// that is not its own. 0: none.
struct LoopFrames {
  LoopKind kind = LoopKind::kEpoll;
  std::uint32_t loop = 0, task = 0;
};

bool is_uvloop(const CallPaths& paths, const shard::Frame& frame) {
  return frame.kind == FrameKind::kNative && paths.text(frame.module).find("/uvloop/") != std::string::npos;
}

bool is_asyncio_loop(const CallPaths& paths, const shard::Frame& frame) {
  if (frame.kind != FrameKind::kPython) return false;
  const std::string_view name = paths.text(frame.name);
  return std::string_view(paths.text(frame.file)).ends_with("asyncio/base_events.py") &&
         (name.ends_with("run_forever") || name.ends_with("_run_once"));
}

LoopFrames loop_frames(const CallPaths& paths, std::uint32_t path) {
  std::vector<std::uint32_t> frames;  // the innermost first
  for (; path != 0; path = paths.parent(path)) frames.push_back(path);
  LoopFrames found;
  for (auto each = frames.rbegin(); each != frames.rend(); ++each) {
    const shard::Frame* const frame = paths.frame(*each);
    if (frame == nullptr) continue;
    const bool uvloop = is_uvloop(paths, *frame);
    if (uvloop || (found.loop == 0 && is_asyncio_loop(paths, *frame))) {
      found.kind = uvloop ? LoopKind::kUvloop : LoopKind::kAsyncio;
      if (found.loop == 0) found.loop = *each;
      if (uvloop) continue;
    }
    // The interpreter's own frames and those of C tasks are in between.
    const bool is_of_asyncio =
        paths.owner(*each) != Owner::kOwn && paths.text(frame->file).find("/asyncio/") != std::string::npos;
    if (found.loop != 0 && frame->kind == FrameKind::kPython && !is_of_asyncio) {
      found.task = *each;
      break;
    }
  }
  return found;
}

bool is_of_progress(const CallPaths& paths, std::uint32_t path) {
  for (; path != 0; path = paths.parent(path)) {
    const shard::Frame* const frame = paths.frame(path);
    if (frame == nullptr || frame->kind != FrameKind::kNative) continue;
    const std::string& module = paths.text(frame->module);
    if (is_mpi_module(module)) return true;
    for (const std::string_view name : kProgress)
      if (module.find("/" + std::string(name)) != std::string::npos) return true;
  }
  return false;
}

// The user's line below the loop, or the function that the loop has called.
SourceLocation place_in_loop(const CallPaths& paths, std::uint32_t path, const LoopFrames& frames) {
  const std::uint32_t place = paths.place(path);
  if (frames.loop == 0) return place_of_path(paths, path);
  bool is_below = false;
  for (std::uint32_t at = path; at != 0 && at != frames.loop && !is_below; at = paths.parent(at))
    is_below = at == place;
  if (is_below) return place_of_path(paths, path);
  return place_of(paths, frames.task != 0 ? frames.task : frames.loop);
}

// What is known of a path. Many turns have the same ones.
struct PathInfo {
  LoopFrames frames;
  SourceLocation place;
  std::string task;
};

class PathInfos {
 public:
  explicit PathInfos(const CallPaths& paths) : paths_(paths) {}

  const PathInfo& of(std::uint32_t path) {
    const auto [found, is_new] = known_.try_emplace(path);
    PathInfo& info = found->second;
    if (!is_new) return info;
    info.frames = loop_frames(paths_, path);
    info.place = place_in_loop(paths_, path, info.frames);
    if (info.frames.task != 0) info.task = paths_.text(paths_.frame(info.frames.task)->name);
    return info;
  }

 private:
  const CallPaths& paths_;
  std::unordered_map<std::uint32_t, PathInfo> known_;
};

auto loop_of(const EventLoop& row) {
  return std::tuple(row.rank, row.pid, row.tid, row.start_utc_ns, row.number);
}
auto loop_of(const LoopBlock& row) {
  return std::tuple(row.rank, row.pid, row.tid, row.start_utc_ns, row.number);
}

// A loop and its blocked turns, while it is read.
class LoopReader {
 public:
  LoopReader(const shard::ShardData& data, const CallPaths& paths, PathInfos& infos, const EventLoop& loop)
      : data_(data), paths_(paths), infos_(infos), loop_(loop) {
    row_.rank = data.ranks[loop.rank].rank;
    row_.pid = loop.pid;
    row_.tid = loop.tid;
    row_.main_thread = loop.main_thread != 0;
    row_.thread = loop.thread;
    row_.turns = loop.turns;
    row_.idle_s = to_seconds(loop.idle_ns);
    row_.lengths = loop.lengths;
    row_.kind = infos.of(loop.path).frames.kind;
  }

  // The parts of all turns, together by turn.
  void add(const std::vector<const LoopBlock*>& blocks) {
    for (const LoopBlock* const block : blocks)
      row_.kind = std::max(row_.kind, infos_.of(block->path).frames.kind);
    for (std::size_t first = 0, end = 0; first < blocks.size(); first = end) {
      while (end < blocks.size() && blocks[end]->begin_utc_ns == blocks[first]->begin_utc_ns) ++end;
      add_turn(std::span(blocks).subspan(first, end - first));
    }
  }

  // False: it is not the program's.
  bool finish(EventLoopRow& row) {
    if (row_.kind == LoopKind::kEpoll) {
      const double busy_ns = static_cast<double>(loop_.busy_ns), idle_ns = static_cast<double>(loop_.idle_ns);
      const bool is_own = row_.main_thread ? loop_.turns >= kFewestTurns
                                           : loop_.turns >= kFewestHelperTurns &&
                                                 busy_ns >= kBusyHelper * (busy_ns + idle_ns);
      if (!is_own || is_of_progress(paths_, loop_.path)) return false;
    }
    row_.busy_s = to_seconds(loop_.busy_ns - std::min(loop_.busy_ns, outside_ns_));
    row_.blocked = loop_.blocked - std::min(loop_.blocked, no_turns_);
    row_.blocked_s = to_seconds(loop_.blocked_ns - std::min(loop_.blocked_ns, no_blocks_ns_));
    if (row_.longest_s == 0 && row_.blocked != 0) {  // its turns are not there
      row_.longest_s = to_seconds(loop_.longest_ns);
      row_.longest_at_s = since_start(loop_.longest_utc_ns);
    }
    for (auto& [key, block] : lines_) {
      const auto& called = called_.at(key);
      block.place.called = std::max_element(called.begin(), called.end(), [](const auto& a, const auto& b) {
                             return a.second < b.second;
                           })->first;
      row_.blocks.push_back(std::move(block));
    }
    std::stable_sort(row_.blocks.begin(), row_.blocks.end(),
                     [](const LoopBlockRow& a, const LoopBlockRow& b) { return a.time_s > b.time_s; });
    if (row_.blocks.size() > kMostLines) row_.blocks.resize(kMostLines);
    row = std::move(row_);
    return true;
  }

 private:
  using Key = std::tuple<std::string, std::uint32_t, std::string>;  // of a line

  [[nodiscard]] double since_start(std::int64_t utc_ns) const {
    return static_cast<double>(utc_ns - data_.run.start_utc_ns) / 1e9;
  }

  void add_turn(std::span<const LoopBlock* const> parts) {
    const LoopBlock& turn = *parts.front();
    const bool python = row_.kind != LoopKind::kEpoll;
    const bool open = (turn.flags & LoopBlock::kOpen) != 0;
    std::map<Key, std::uint64_t> times;
    std::uint64_t outside_ns = 0;
    for (const LoopBlock* const part : parts) {
      const PathInfo& info = infos_.of(part->path);
      // The loop had stopped, or nothing says whether a loop of C goes on.
      if ((python && part->path != 0 && info.frames.loop == 0) || (!python && open)) {
        outside_ns += part->wall_ns;
        continue;
      }
      const Key key{info.place.file, info.place.line, info.place.function};
      times[key] += part->wall_ns;
      called_[key][info.place.called] += part->wall_ns;
      const auto [line, is_new] = lines_.try_emplace(key);
      if (!is_new) continue;
      line->second.place = info.place;
      line->second.task = info.task;
    }
    const std::uint64_t length_ns = turn.turn_ns - std::min(turn.turn_ns, outside_ns);
    outside_ns_ += outside_ns;
    if (length_ns < EventLoop::kBlockedTurnNs) {
      no_blocks_ns_ += turn.turn_ns;
      ++no_turns_;
      std::erase_if(lines_, [](const auto& line) { return line.second.time_s == 0; });
      return;
    }
    no_blocks_ns_ += outside_ns;
    const bool awaited = (turn.flags & LoopBlock::kAwaited) != 0;
    const auto most = std::max_element(times.begin(), times.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    for (auto time = times.begin(); time != times.end(); ++time) {
      LoopBlockRow& line = lines_.at(time->first);
      const double seconds = to_seconds(time->second);
      line.time_s += seconds;
      if (awaited) line.awaited_s += seconds;
      if (time == most) ++line.count;
      line.longest_s = std::max(line.longest_s, seconds);
    }
    if (awaited) row_.awaited_s += to_seconds(length_ns);
    if (to_seconds(length_ns) > row_.longest_s) {
      row_.longest_s = to_seconds(length_ns);
      row_.longest_at_s = since_start(turn.begin_utc_ns);
    }
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  PathInfos& infos_;
  const EventLoop& loop_;
  EventLoopRow row_;
  std::map<Key, LoopBlockRow> lines_;
  std::map<Key, std::map<std::string, std::uint64_t>> called_;  // time by what the line called
  // Of turns in part or as a whole: the loop had stopped; and how many turns are none for that reason.
  std::uint64_t outside_ns_ = 0, no_blocks_ns_ = 0, no_turns_ = 0;
};

}  // namespace

bool is_loop_wait(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame* const frame = paths.frame(path);
  if (frame == nullptr || frame->kind != FrameKind::kKernel ||
      !std::string_view(paths.text(frame->name)).starts_with("epoll_"))
    return false;
  const LoopFrames frames = loop_frames(paths, path);
  if (frames.loop == 0) return false;
  // A callback may wait for events of its own. The loop's wait is below its own frames and those of
  // selectors.
  if (frames.task == 0 ||
      std::string_view(paths.text(paths.frame(frames.task)->file)).ends_with("/selectors.py"))
    return true;
  // The program may have a selector of its own. A loop calls nothing else itself: a handle calls callbacks.
  for (std::uint32_t at = paths.parent(frames.task); at != 0; at = paths.parent(at)) {
    const shard::Frame* const caller = paths.frame(at);
    if (caller != nullptr && caller->kind == FrameKind::kPython)
      return std::string_view(paths.text(caller->name)).ends_with("_run_once");
  }
  return false;
}

void list_event_loops(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  std::map<decltype(loop_of(std::declval<EventLoop>())), std::vector<const LoopBlock*>> blocks;
  for (const LoopBlock& block : data.loop_blocks)
    if (block.path < paths.size()) blocks[loop_of(block)].push_back(&block);
  PathInfos infos(paths);
  for (const EventLoop& loop : data.event_loops) {
    if (loop.rank >= data.ranks.size() || loop.path >= paths.size()) continue;
    LoopReader reader(data, paths, infos, loop);
    if (const auto found = blocks.find(loop_of(loop)); found != blocks.end()) reader.add(found->second);
    EventLoopRow row;
    if (reader.finish(row)) analysis.event_loops.push_back(std::move(row));
  }
  std::stable_sort(analysis.event_loops.begin(), analysis.event_loops.end(),
                   [](const EventLoopRow& a, const EventLoopRow& b) {
                     return std::tuple(a.rank, -a.blocked_s, a.pid, a.tid) <
                            std::tuple(b.rank, -b.blocked_s, b.pid, b.tid);
                   });
}

}  // namespace clusterprof::report
