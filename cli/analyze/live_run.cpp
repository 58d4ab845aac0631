// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/live_run.hpp"

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "aggregator/live_difference.hpp"
#include "aggregator/merger.hpp"
#include "aggregator/shard_files.hpp"
#include "cli/analyze/live_shards.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/analysis/run_state.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using shard::LiveState;
using shard::ShardData;

// A node that has not told anything new for so long has ended, is lost, or cannot write. Its shard may know
// more.
constexpr std::chrono::seconds kSilent{4};
constexpr std::chrono::seconds kListInterval{5};  // for nodes that write their first shard
constexpr std::int64_t kWindow_ns = std::chrono::nanoseconds(LiveRun::kWindow).count();
// A state that is written at this moment is whole soon.
constexpr int kTries = 3;

std::int64_t as_of(const ShardData& data) { return data.nodes.empty() ? 0 : data.nodes.front().as_of_utc_ns; }

// Until when a shard knows what its node did.
std::int64_t last_known(const ShardData& data) {
  if (as_of(data) != 0 || data.nodes.empty()) return as_of(data);
  return data.nodes.front().start_utc_ns + static_cast<std::int64_t>(data.nodes.front().elapsed_ns);
}

// What is needed to compare it with later ones.
LiveState for_later(LiveState state) {
  ShardData kept;
  kept.nodes = std::move(state.data.nodes);
  kept.ranks = std::move(state.data.ranks);
  kept.paths = std::move(state.data.paths);
  state.data = std::move(kept);
  return state;
}

}  // namespace

Result<void> LiveRun::watch() {
  has_watched_ = true;
  return write_watch(run_.string(), static_cast<std::uint64_t>(unix_now_ns()));
}

void LiveRun::end_watch() {
  if (std::exchange(has_watched_, false)) clusterprof::end_watch(run_.string());
}

bool LiveRun::is_fresh(const Node& node) const { return Clock::now() - node.changed < kSilent; }

void LiveRun::read_live() {
  const std::vector<std::string> names = live_nodes(run_.string());
  // A node removes its file when it has ended.
  std::erase_if(
      nodes_, [&](const auto& node) { return !std::binary_search(names.begin(), names.end(), node.first); });
  for (const std::string& name : names) {
    for (int tries = 0; tries < kTries; ++tries) {
      const auto bytes = clusterprof::read_live(run_.string(), name);
      Result<LiveState> state = bytes ? shard::decode_live(*bytes) : Result<LiveState>(Error{});
      if (!state) {
        if (state.error().kind != ErrorKind::kDamaged) break;
        continue;
      }
      Node& node = nodes_[name];
      std::deque<LiveState>& states = node.states;  // never empty from here on
      if (!states.empty() && states.back().sequence == state.value().sequence &&
          as_of(states.back().data) == as_of(state.value().data))
        break;
      if (!states.empty()) states.back() = for_later(std::move(states.back()));
      states.push_back(std::move(state).value());
      node.changed = Clock::now();
      const std::int64_t newest = as_of(states.back().data);
      while (states.size() > 2 && newest - as_of(states.front().data) > kWindow_ns) states.pop_front();
      // The first one that somebody else's watching has left behind.
      while (states.size() > 1 && newest - as_of(states.front().data) > 2 * kWindow_ns) states.pop_front();
      break;
    }
  }
}

// Of nodes that tell what they do, nobody needs the shard.
bool LiveRun::needs(const Shard& shard) const {
  const auto node = nodes_.find(shard.node);
  return shard.node.empty() || node == nodes_.end() || !is_fresh(node->second);
}

Result<void> LiveRun::read_shards() {
  if (Clock::now() >= list_again_) {
    const Result<std::vector<fs::path>> paths = aggregator::list_shards(run_);
    if (!paths) return paths.error();
    list_again_ = Clock::now() + kListInterval;
    for (const fs::path& path : paths.value()) shards_.try_emplace(path);
  }
  for (auto& [path, shard] : shards_) {
    if (!needs(shard)) continue;
    std::error_code error;
    const auto modified = fs::last_write_time(path, error);
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error || (!shard.node.empty() && shard.modified == modified && shard.bytes == bytes)) continue;
    Result<ShardData> data = shard::read_shard_head(path);
    if (!data || data.value().nodes.empty()) continue;  // it is being replaced, or damaged: as it was
    shard = {modified, bytes, data.value().nodes.front().name, only_stacks(std::move(data).value())};
  }
  if (!shards_.empty() || !nodes_.empty() || profile_) return {};
  std::error_code error;
  if (!fs::exists(run_ / aggregator::kProfileName, error)) return {};
  Result<profile::ProfileReader> profile = open_profile(run_, nullptr);
  if (!profile) return profile.error();
  const Result<const ShardData*> head = profile.value().head();
  if (!head) return head.error();
  profile_ = only_stacks(*head.value());
  return {};
}

Result<report::Top> LiveRun::look() {
  read_live();
  if (const Result<void> read = read_shards(); !read) return read.error();

  report::TopInput input;
  aggregator::Merger merger;
  bool any = false;
  knows_all_ = true;
  std::set<std::string> told;  // nodes whose own state is newer than their shard
  const auto add = [&](const ShardData& data, const ShardData* before, bool whole) {
    if (before != nullptr || whole) {
      std::vector<shard::Rank> since = aggregator::ranks_since(data, before);
      input.since.insert(input.since.end(), since.begin(), since.end());
    } else {
      knows_all_ = false;
    }
    merger.add(data);
    any = true;
  };
  for (const auto& [name, node] : nodes_) {
    const LiveState& now = node.states.back();
    const auto is_newer = [&, &of = name](const auto& entry) {
      return entry.second.node == of && last_known(entry.second.data) > as_of(now.data);
    };
    if (std::any_of(shards_.begin(), shards_.end(), is_newer)) continue;
    told.insert(name);
    const LiveState* const before = node.states.size() > 1 ? &node.states.front() : nullptr;
    add(now.data, before != nullptr ? &before->data : nullptr, false);
    if (before != nullptr)
      for (const aggregator::PathTime& time : aggregator::times_since(now, *before))
        input.times.push_back({time.path, time.category, time.wall_ns});
    for (std::size_t row = 0; row < now.rss_bytes.size(); ++row)
      if (now.rss_bytes[row] != 0) input.rss_bytes[now.data.ranks[row].rank] = now.rss_bytes[row];
    if (now.memory_limit_bytes != 0) input.memory[name] = {now.memory_used_bytes, now.memory_limit_bytes};
  }
  // Of a node that has ended, the whole run is what is known.
  for (const auto& [path, shard] : shards_) {
    if (shard.node.empty()) continue;
    const bool has_ended = as_of(shard.data) == 0;
    if (has_ended || !told.contains(shard.node)) add(shard.data, nullptr, has_ended);
  }
  if (profile_) add(*profile_, nullptr, true);
  if (!any) return Error{name_ + ": " + aggregator::nothing_found(run_), ErrorKind::kNotFound};
  input.data = merger.finish();
  report::Top top = report::find_top(input, chosen_view().frames);
  report::find_run_state(top.run);
  return top;
}

}  // namespace clusterprof::cli
