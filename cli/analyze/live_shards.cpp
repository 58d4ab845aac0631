// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/live_shards.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "aggregator/merger.hpp"
#include "aggregator/run_directory.hpp"
#include "aggregator/shard_files.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/analysis/run_state.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using shard::ShardData;
using std::chrono::milliseconds;

constexpr milliseconds kShardLookInterval{50};
// More than the nodes need to see a request twice, and to write a shard.
constexpr std::chrono::seconds kShardPatience{12};

}  // namespace

ShardData only_stacks(ShardData data) {
  ShardData kept;
  kept.run = std::move(data.run);
  kept.strings = std::move(data.strings);
  kept.frames = std::move(data.frames);
  kept.paths = std::move(data.paths);
  kept.nodes = std::move(data.nodes);
  kept.ranks = std::move(data.ranks);
  kept.calls_under_way = std::move(data.calls_under_way);
  kept.pending_requests = std::move(data.pending_requests);
  kept.collective_counts = std::move(data.collective_counts);
  kept.communicators = std::move(data.communicators);
  kept.threads = std::move(data.threads);
  kept.processes = std::move(data.processes);
  kept.failures = std::move(data.failures);
  return kept;
}

Result<ShardData> read_stacks(const fs::path& run, const std::string& name) {
  const Result<std::vector<fs::path>> shards = aggregator::await_shards(run);
  if (!shards) return shards.error();
  if (shards.value().empty()) {
    Result<profile::ProfileReader> profile = open_profile(run, nullptr);
    if (!profile) return profile.error();
    const Result<const ShardData*> head = profile.value().head();
    if (!head) return head.error();
    return only_stacks(*head.value());
  }
  aggregator::Merger merger;
  bool any = false;
  for (const fs::path& path : shards.value()) {
    Result<ShardData> data = shard::read_shard_head(path);
    if (!data) {
      complain(kOk, data.error().message);
      continue;
    }
    merger.add(only_stacks(std::move(data).value()));
    any = true;
  }
  if (!any) return Error{name + ": none of its shards can be read"};
  return merger.finish();
}

Result<LiveNodes> look_at_live_nodes(const fs::path& run) {
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards) return shards.error();
  aggregator::Merger merger;
  for (const fs::path& path : shards.value()) {
    const Result<ShardData> data = shard::read_shard_summary(path);
    if (!data) return data.error();
    merger.add(data.value());
  }
  const ShardData data = merger.finish();
  report::Analysis nodes;
  report::describe_nodes(data, nodes);
  nodes.run.snapshot_utc_ns = report::snapshot_utc_ns(data);
  report::find_run_state(nodes);
  LiveNodes live;
  live.state = nodes.run.state;
  for (const report::NodeInfo& node : nodes.nodes)
    if (node.state == report::RunState::kRunning) live.nodes.push_back(node.name);
  // Nodes that keep their checkpoints to themselves.
  for (const shard::Note& note : aggregator::notes_on_shards_left(run))
    if (std::find(live.nodes.begin(), live.nodes.end(), note.node) == live.nodes.end())
      live.nodes.push_back(note.node);
  if (!live.nodes.empty() && live.state == report::RunState::kEnded) live.state = report::RunState::kRunning;
  return live;
}

Result<WrittenShards> have_shards_written(const fs::path& run, const std::vector<std::string>& nodes) {
  const Result<std::uint64_t> asked = request_write(run.string());
  if (!asked) return asked.error();
  WrittenShards written;
  written.patience = kShardPatience + std::chrono::duration_cast<std::chrono::seconds>(
                                          2 * std::chrono::nanoseconds(watch_interval_ns(nodes.size())));
  const auto end = std::chrono::steady_clock::now() + written.patience;
  for (;;) {
    written.silent = nodes;
    for (const WriteAnswer& answer : read_write_answers(run.string()))
      if (answer.number >= asked.value()) std::erase(written.silent, answer.node);
    if (written.silent.empty() || std::chrono::steady_clock::now() >= end) return written;
    std::this_thread::sleep_for(kShardLookInterval);
  }
}

}  // namespace clusterprof::cli
