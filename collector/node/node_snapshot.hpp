// SPDX-License-Identifier: BSD-3-Clause
// A copy of everything that is known about the node at one instant. A shard is built from it. Plain data:
// NodeState makes it, and another thread may build the shard while the node goes on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/charge/live_times.hpp"
#include "collector/charge/path_times.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/memory/memory_ledger.hpp"
#include "collector/mpi/event_log.hpp"
#include "collector/os/settings.hpp"
#include "collector/process/process_report.hpp"
#include "collector/stacks/raw_store.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// Columns of a rank's series that come from the operating system, and columns of the node's series.
enum RankColumn : std::uint32_t {
  kCpuUser = 0,
  kCpuSystem,
  kMinorFaults,
  kMajorFaults,
  kVoluntarySwitches,
  kInvoluntarySwitches,
  kRss,  // a level
  kReadBytes,
  kWriteBytes,
  kRankColumns
};
inline constexpr std::uint32_t kRankLevels = 1u << kRss;
enum NodeColumn : std::uint32_t {
  kCpuBusy = 0,
  kMemoryUsed,  // a level
  kNetworkReceived,
  kNetworkSent,
  kDiskRead,
  kDiskWritten,
  kNodeColumns
};
inline constexpr std::uint32_t kNodeLevels = 1u << kMemoryUsed;

// One rank as it goes into a shard, with paths that are still raw.
struct RankSnapshot {
  shard::Rank rank;  // `node` is 0
  ProcessReport report;
  std::shared_ptr<const EventLog> events;  // those that go into the shard; may be null
  SeriesBlock series{kRankColumns, kRankLevels};
  std::string affinity, numa_nodes;
  std::string command;                          // base/command_text.hpp; empty: not known
  std::optional<std::uint32_t> last_path;       // of a rank that is lost or failed
  std::optional<shard::Failure> failure;        // of a rank that has failed; `rank` is 0
  std::vector<shard::Process> processes;        // `rank` is 0
  std::vector<shard::Thread> threads;           // likewise
  std::vector<shard::RecordingWindow> windows;  // likewise
  std::uint64_t rss_bytes = 0;                  // now; 0: not known
  // With --memory.
  std::optional<shard::MemoryRank> memory;  // `rank` is 0
  std::vector<MemoryLedger::Row> held_rows;
  SeriesBlock held{1, 1};
};

struct NodeSnapshot {
  shard::Run run;
  std::shared_ptr<const SettingsSource> settings;  // null: none are looked for
  shard::Node node;
  std::vector<RankSnapshot> ranks;  // by rank number
  RawTables tables;
  TimeGrid grid;
  SeriesBlock series{kNodeColumns, kNodeLevels};
  PathTimes::Cells path_times;
  SeriesBlock held{1, 1};                      // with --memory
  std::vector<MemoryLedger::Cell> held_cells;  // in the bins of path_times

  // Of NodeState::live_snapshot() only, which leaves out what live files do not have.
  std::vector<LiveTimes::Row> live_times;
  std::uint64_t watch = 0;  // as in shard::LiveState, like these two
  std::uint64_t memory_used_bytes = 0, memory_limit_bytes = 0;
};

}  // namespace clusterprof::collector
