// SPDX-License-Identifier: BSD-3-Clause
// Builds a shard from a snapshot: gives names to raw frames, and joins frames that have become equal.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/names/symbolize.hpp"
#include "collector/node/node_state.hpp"
#include "formats/shard/live_state.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// Remembers the names that it has found for the next shard. One thread at a time, not necessarily the one
// that feeds the NodeState. All snapshots must come from the same NodeState.
class ShardBuilder {
 public:
  enum class LinesOf : std::uint8_t {
    kStacksNow,  // where threads and calls are when the snapshot is taken
    kAnything,
  };
  // Whether more debug information may be read, after `spent` CPU time was used for it. Called repeatedly.
  using MayReadLines = std::function<bool(LinesOf, std::chrono::nanoseconds spent)>;

  // Fills everything except Node::collector_cpu_ns, collector_max_rss_bytes and the settings. Native frames
  // whose debug information may not be read get their name from the symbol table, and no line and no inlined
  // calls.
  shard::ShardData build(
      const NodeSnapshot& snapshot, const MayReadLines& may_read_lines = [](auto, auto) { return true; });
  // The same of NodeState::live_snapshot(), but for sequence and the node's collector. Names only the call
  // paths that it has.
  shard::LiveState build_live(const NodeSnapshot& snapshot, const MayReadLines& may_read_lines);

 private:
  struct Interned;  // the tables of one shard

  void open_modules(const RawTables& tables);
  // Looks up the lines of where threads and calls are now, before anything else uses up the time for it.
  void read_lines_now(const NodeSnapshot& snapshot, const MayReadLines& may_read_lines);
  // By raw node: its path, and 0 for those that are not wanted; empty: all are. Whose child is wanted is
  // wanted, too.
  std::vector<std::uint32_t> add_paths(const RawTables& tables, const std::vector<bool>& wanted,
                                       const MayReadLines& may_read_lines, Interned& shard);

  void add_frames(std::uint32_t frame, const RawTables& tables, const MayReadLines& may_read_lines,
                  Interned& shard, std::uint32_t& path);
  void add_native_frames(const RawFrame& raw, const RawFrame* body, const RawTables& tables,
                         const MayReadLines& may_read_lines, Interned& shard, std::uint32_t& path);
  [[nodiscard]] bool may_be_in_region(std::uint32_t frame, const RawTables& tables);
  static void name_as_origin(std::string_view origin, Interned& shard, std::uint32_t path,
                             shard::Frame& frame);
  void place_region(std::uint32_t forward, const RawTables& tables, const MayReadLines& may_read_lines,
                    Interned& shard, shard::Frame& region);
  static shard::Frame named_frame(const RawFrame& raw, const RawTables& tables,
                                  shard::PathInterner& interner);

  using Communicators = std::map<std::uint64_t, std::uint32_t>;  // identity -> row

  // All tables of one rank. path_of, here and below: raw node -> path.
  void add_rank(const RankSnapshot& from, const std::vector<std::uint32_t>& path_of,
                Communicators& communicators, Interned& shard, shard::ShardData& data);
  static void add_values(const ProcessReport& report, std::uint32_t rank,
                         const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_counters(const ProcessReport& report, std::uint32_t rank,
                           const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_mpi_calls(const ProcessReport& report, std::uint32_t rank,
                            const std::vector<std::uint32_t>& path_of, Communicators& communicators,
                            shard::ShardData& data);
  static void add_loops(const ProcessReport& report, std::uint32_t rank,
                        const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_openmp(const ProcessReport& report, std::uint32_t rank,
                         const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_tasks(const ProcessReport& report, std::uint32_t rank,
                        const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_events(const EventLog& events, std::uint32_t rank,
                         const std::vector<std::uint32_t>& path_of, Communicators& communicators,
                         Interned& shard, shard::ShardData& data);

  // Tables of all ranks.
  void add_io(const NodeSnapshot& snapshot, const std::vector<std::uint32_t>& path_of,
              shard::ShardData& data);
  static void find_small_regions(const NodeSnapshot& snapshot, Interned& shard);
  static void add_regions(const ProcessReport& report, std::uint32_t rank,
                          const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  void add_mutex_waits(const ProcessReport& report, std::uint32_t rank,
                       const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_thread_spans(const ProcessReport& report, std::uint32_t rank,
                               const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_accesses(const ProcessReport& report, std::uint32_t rank,
                           const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_memory(const RankSnapshot& from, std::uint32_t rank,
                         const std::vector<std::uint32_t>& path_of, shard::ShardData& data);
  static void add_labelled_memory(const ProcessReport& report, std::uint32_t rank, shard::ShardData& data);
  static void add_path_series(const NodeSnapshot& snapshot, const std::vector<std::uint32_t>& path_of,
                              shard::ShardData& data);
  static void add_series(const NodeSnapshot& snapshot, Interned& shard, shard::ShardData& data);
  // Traffic, sizes of messages and counters that were not available: sums over the ranks.
  static void add_node_totals(const NodeSnapshot& snapshot, Interned& shard, shard::ShardData& data);

  Symbolizer symbolizer_;
  std::vector<Symbolizer::ModuleHandle> modules_;  // RawTables::modules -> handle
  std::vector<std::string> file_systems_;          // by RawTables::files
};

// For threads that take turns.
struct SharedShardBuilder {
  std::mutex mutex;
  ShardBuilder builder;
};

}  // namespace clusterprof::collector
