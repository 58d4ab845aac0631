// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/calls_under_way.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "formats/shard/open_operations.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::CallUnderWay;
using shard::OpenOperations;

PendingPeer peer_of(std::int32_t rank) {
  if (rank == CallUnderWay::kAnyRank) return {{}, true};
  return {rank < 0 ? std::nullopt : std::optional(rank), false};
}

bool is_in_mpi(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame* const leaf = paths.frame(path);
  return leaf != nullptr && leaf->kind == shard::FrameKind::kMpi;
}

// The path of the innermost user's line above the end of this path, else of a library's line; 0: there is
// neither.
std::uint32_t shown_path(const CallPaths& paths, std::uint32_t path) {
  return is_in_mpi(paths, path) ? paths.mpi_caller(path) : paths.place(path);
}

// Finds the call path from the texts of its frames.
class PathSearch {
 public:
  explicit PathSearch(const CallPaths& paths) : paths_(paths) {
    for (std::uint32_t path = 1; path < paths.size(); ++path) children_.emplace(paths.parent(path), path);
  }
  // 0: there is none.
  [[nodiscard]] std::uint32_t find(const std::vector<SourceLocation>& frames) const {
    std::uint32_t at = 0;
    for (const SourceLocation& frame : frames) {
      const auto [first, last] = children_.equal_range(at);
      const auto next = std::find_if(first, last, [&](const auto& child) { return is(frame, child.second); });
      if (next == last) return 0;
      at = next->second;
    }
    return at;
  }

 private:
  [[nodiscard]] bool is(const SourceLocation& place, std::uint32_t path) const {
    const shard::Frame* const frame = paths_.frame(path);
    return frame != nullptr && frame->kind == place.kind && frame->line == place.line &&
           paths_.text(frame->name) == place.function && paths_.text(frame->file) == place.file &&
           paths_.text(frame->module) == place.module;
  }
  const CallPaths& paths_;
  std::unordered_multimap<std::uint32_t, std::uint32_t> children_;
};

bool is_below_user_code(const CallPaths& paths, std::uint32_t path) {
  const std::uint32_t shown = shown_path(paths, path);
  return shown != 0 && paths.owner(shown) == Owner::kOwn;
}

// For frames that are not a call path of the profile.
SourceLocation last_line(const std::vector<SourceLocation>& frames) {
  SourceLocation place;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (place.function.empty()) place = *frame;
    if (frame->line != 0 && !is_runtime_module(frame->module)) return *frame;
  }
  return place;
}

}  // namespace

// As everywhere else: the user's line, followed by the library function that it called, or by the MPI call.
SourceLocation place_of_path(const CallPaths& paths, std::uint32_t path) {
  const shard::Frame* const leaf = paths.frame(path);
  if (leaf == nullptr) return {};
  const bool in_mpi = is_in_mpi(paths, path);
  const std::uint32_t shown = shown_path(paths, path);
  SourceLocation place;
  if (shown != 0)
    place = place_of(paths, shown);
  else if (!in_mpi)
    place = place_of(paths, path);
  if (in_mpi)
    place.op = paths.text(leaf->name);
  else if (paths.called(path) != 0)
    place.called = paths.library_name(paths.called(path));
  return place;
}

std::vector<SourceLocation> frames_of(const CallPaths& paths, std::uint32_t path) {
  std::vector<SourceLocation> frames;
  for (; path != 0; path = paths.parent(path))
    if (paths.frame(path) != nullptr) frames.push_back(place_of(paths, path));
  std::reverse(frames.begin(), frames.end());
  return frames;
}

void find_last_seen(const CallPaths& paths, Analysis& analysis) {
  std::optional<PathSearch> search;
  for (RankInfo& rank : analysis.ranks) {
    if (rank.last_call_path.empty()) continue;
    if (!search) search.emplace(paths);
    const std::uint32_t path = search->find(rank.last_call_path);
    rank.last_seen = path != 0 ? place_of_path(paths, path) : last_line(rank.last_call_path);
    // A program that ends by itself does so in libc or in the interpreter, where nobody would look for the
    // reason.
    const bool ended_by_itself = !rank.exit_signal && rank.exit_status.value_or(0) != 0;
    const bool is_known =
        path != 0 ? is_below_user_code(paths, path) : !is_runtime_module(rank.last_seen.module);
    if (ended_by_itself && !is_known) rank.last_seen = {};
  }
}

void list_calls_under_way(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  if (data.calls_under_way.empty()) return;
  const OpenOperations open(data);
  std::unordered_map<std::uint32_t, std::uint32_t> index_of_path;
  const auto number = [&](std::uint32_t row) { return data.ranks[row].rank; };
  for (const CallUnderWay& call : data.calls_under_way) {
    if (call.path >= paths.size() || call.rank >= data.ranks.size() ||
        (call.communicator != shard::kNone && call.communicator >= data.communicators.size()))
      continue;
    CallUnderWayRow& row = analysis.calls_under_way.emplace_back();
    row.place = place_of_path(paths, call.path);
    const shard::Rank& rank = data.ranks[call.rank];
    row.rank = rank.rank;
    row.tid = call.tid;
    row.main_thread = call.main_thread;
    row.ended = (rank.flags & (shard::kExitStatusKnown | shard::kExitSignalKnown)) != 0;
    row.age_s = to_seconds(call.lasted_ns);
    if (call.communicator != shard::kNone) {
      row.communicator = data.communicators[call.communicator].name;
      row.communicator_size = data.communicators[call.communicator].size;
    }
    row.peer = peer_of(call.peer);
    row.any_tag = call.tag == CallUnderWay::kAnyTag;
    if (call.tag >= 0) row.tag = call.tag;
    if (call.root >= 0) row.root = call.root;
    row.requests = call.requests;
    for (const shard::PendingRequest& request : open.pending(call))
      row.pending.push_back({request.kind, peer_of(request.peer)});
    const auto wait_for = [&](std::optional<std::int32_t> peer) {
      const auto known = std::find(row.waits_for.begin(), row.waits_for.end(), peer.value_or(row.rank));
      if (peer && *peer != row.rank && known == row.waits_for.end()) row.waits_for.push_back(*peer);
    };
    if (OpenOperations::is_collective(call)) {
      row.sequence = call.sequence;
      const OpenOperations::Absent& absent = open.absent(call);
      for (const std::uint32_t other : absent.ranks) wait_for(number(other));
      row.waits_for_count = absent.all.value_or(row.waits_for.size());
    } else {
      wait_for(row.peer.rank);
      for (const PendingRow& request : row.pending) wait_for(request.peer.rank);
    }
    row.waits_for_count = std::max<std::uint64_t>(row.waits_for_count, row.waits_for.size());
    std::sort(row.waits_for.begin(), row.waits_for.end());
    const auto [known, is_new] = index_of_path.try_emplace(
        call.path, static_cast<std::uint32_t>(analysis.call_paths_under_way.size()));
    if (is_new) analysis.call_paths_under_way.push_back(frames_of(paths, call.path));
    row.call_path = known->second;
  }
  std::stable_sort(analysis.calls_under_way.begin(), analysis.calls_under_way.end(),
                   [](const CallUnderWayRow& x, const CallUnderWayRow& y) {
                     return std::tuple(x.rank, !x.main_thread) < std::tuple(y.rank, !y.main_thread);
                   });
}

std::span<const CallUnderWayRow> calls_under_way_of(const Analysis& analysis, std::int32_t rank) {
  return std::ranges::equal_range(analysis.calls_under_way, rank, {}, &CallUnderWayRow::rank);
}

const CallUnderWayRow* mpi_call_at_end(const Analysis& analysis, std::int32_t rank) {
  for (const CallUnderWayRow& row : calls_under_way_of(analysis, rank))
    if (row.main_thread && row.ended && row.place.op.starts_with("MPI_")) return &row;
  return nullptr;
}

}  // namespace clusterprof::report
