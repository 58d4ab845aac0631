// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/stacks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/choose_failure.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/hang_search.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

class StackSearch {
 public:
  StackSearch(const shard::ShardData& data, const CallPaths& paths) : data_(data), paths_(paths) {}

  Stacks find() {
    std::map<std::tuple<std::uint32_t, std::int32_t>, const shard::CallUnderWay*>
        calls;  // by rank and thread
    for (const shard::CallUnderWay& call : data_.calls_under_way)
      if (call.path < paths_.size()) calls.insert_or_assign({call.rank, call.tid}, &call);
    std::set<std::uint32_t> ranks;
    for (const shard::Thread& thread : data_.threads) {
      if (thread.rank >= data_.ranks.size() || thread.last_path >= paths_.size()) continue;
      if (!was_alive(thread, data_.ranks[thread.rank])) continue;
      const auto call = calls.find({thread.rank, thread.tid});
      const bool in_call = call != calls.end();
      add(thread.rank, in_call ? call->second->path : thread.last_path, thread.count,
          in_call ? call->second->lasted_ns : thread.unmoved_ns);
      if (in_call) calls.erase(call);
      ranks.insert(thread.rank);
    }
    // Of threads that have no row of their own.
    for (const auto& [thread, call] : calls) {
      if (call->rank >= data_.ranks.size()) continue;
      add(call->rank, call->path, 1, call->lasted_ns);
      ranks.insert(call->rank);
    }
    stacks_.ranks = ranks.size();
    for (StackClass& row : stacks_.classes) {
      std::sort(row.ranks.begin(), row.ranks.end());
      row.ranks.erase(std::unique(row.ranks.begin(), row.ranks.end()), row.ranks.end());
    }
    std::stable_sort(
        stacks_.classes.begin(), stacks_.classes.end(), [](const StackClass& x, const StackClass& y) {
          return std::pair(x.ranks.size(), x.ranks.front()) < std::pair(y.ranks.size(), y.ranks.front());
        });
    return std::move(stacks_);
  }

 private:
  [[nodiscard]] bool is_shown(std::uint32_t path, bool is_last) const {
    const shard::Frame* const frame = paths_.frame(path);
    if (frame == nullptr) return false;
    if (is_last || paths_.frames() == FrameMode::kAll || frame->kind != shard::FrameKind::kNative)
      return true;
    return paths_.owner(path) != Owner::kInterpreter && !is_runtime_module(paths_.text(frame->module));
  }

  std::uint32_t node_of(std::uint32_t path, bool is_last) {
    std::vector<std::uint32_t> shown;  // the innermost first
    for (; path != 0; path = paths_.parent(path), is_last = false)
      if (is_shown(path, is_last)) shown.push_back(path);
    std::uint32_t node = 0;
    for (auto at = shown.rbegin(); at != shown.rend(); ++at) {
      const shard::Frame& frame = *paths_.frame(*at);
      const std::tuple key(node, frame.kind, frame.name, frame.file, frame.module, frame.line);
      const auto [found, is_new] =
          children_.try_emplace(key, static_cast<std::uint32_t>(stacks_.nodes.size()));
      if (is_new) {
        SourceLocation place = place_of(paths_, *at);
        if (frame.kind == shard::FrameKind::kMpi) place.op = place.function;
        stacks_.nodes.push_back({node, std::move(place)});
      }
      node = found->second;
    }
    return node;
  }

  void add(std::uint32_t rank, std::uint32_t path, std::uint64_t threads, std::uint64_t unmoved_ns) {
    const auto [known, is_new_path] = node_of_path_.try_emplace(path, 0);
    if (is_new_path) known->second = node_of(path, true);
    const auto [found, is_new] = class_of_node_.try_emplace(known->second, stacks_.classes.size());
    if (is_new) {
      StackClass& made = stacks_.classes.emplace_back();
      made.node = known->second;
      made.op = stacks_.nodes[made.node].place.op;
      made.unmoved_s = to_seconds(unmoved_ns);
    }
    StackClass& row = stacks_.classes[found->second];
    row.ranks.push_back(data_.ranks[rank].rank);
    row.threads += threads;
    stacks_.threads += threads;
    if (row.unmoved_s) row.unmoved_s = std::min(*row.unmoved_s, to_seconds(unmoved_ns));
    if (unmoved_ns == 0) row.unmoved_s.reset();
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  Stacks stacks_;
  std::unordered_map<std::uint32_t, std::uint32_t> node_of_path_;
  std::unordered_map<std::uint32_t, std::size_t> class_of_node_;
  std::map<
      std::tuple<std::uint32_t, shard::FrameKind, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>,
      std::uint32_t>
      children_;
};

}  // namespace

std::vector<const SourceLocation*> Stacks::frames(std::uint32_t node) const {
  std::vector<const SourceLocation*> all;
  for (; node != 0; node = nodes[node].parent) all.push_back(&nodes[node].place);
  std::reverse(all.begin(), all.end());
  return all;
}

Stacks find_stacks(const shard::ShardData& data, const CallPaths& paths) {
  return StackSearch(data, paths).find();
}

StacksReport report_stacks(const shard::ShardData& data, FrameMode frames) {
  const CallPaths paths(data, frames);
  StacksReport report;
  report.run.run = describe_run(data);
  describe_ranks(data, RankOrder(data), report.run);
  report.stacks = find_stacks(data, paths);
  list_calls_under_way(data, paths, report.run);
  find_last_seen(paths, report.run);
  report.run.hang = find_hang(data, paths);
  report.run.failure = choose_failure(data, paths, report.run);
  for (const StackNode& node : report.stacks.nodes) report.run.places.push_back(node.place);
  return report;
}

}  // namespace clusterprof::report
