// SPDX-License-Identifier: BSD-3-Clause
// The shards of a run that may be running.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::cli {

// What a shard, or a profile, has for places, calls and verdicts; all else would only have to be united.
shard::ShardData only_stacks(shard::ShardData data);

// What report_stacks() and standstill_ns() need of all shards, or of the profile where there are none. Of a
// run that began some seconds ago, waits for the first one.
// `name`: of the run, for messages. A shard that cannot be read is complained about and left out.
Result<shard::ShardData> read_stacks(const std::filesystem::path& run, const std::string& name);

struct LiveNodes {
  report::RunState state = report::RunState::kEnded;
  std::vector<std::string> nodes;  // that run
};
Result<LiveNodes> look_at_live_nodes(const std::filesystem::path& run);

// Has the collectors of these nodes write their shards now, and waits until they have, or for a bounded time.
struct WrittenShards {
  std::vector<std::string> silent;  // nodes that have not answered within that time
  std::chrono::seconds patience{};
};
Result<WrittenShards> have_shards_written(const std::filesystem::path& run,
                                          const std::vector<std::string>& nodes);

}  // namespace clusterprof::cli
