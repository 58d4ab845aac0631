// SPDX-License-Identifier: BSD-3-Clause
// OpenMP: parallel regions by line, efficiencies, and where main threads are while their other threads have
// nothing to do. Definitions: docs/metrics.md, "OpenMP".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/shard/openmp_sums.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// Of more ranks than that, those whose threads did something else than work for longest; by rank.
void keep_costly(std::vector<OpenMpRegionRank>& ranks, std::size_t most);

// Of what threads of teams had, outside MPI: as in OpenMp.
struct OpenMpParts {
  double work_s = 0, imbalance_s = 0, schedule_s = 0, serialization_s = 0;
  void add(const OpenMpParts& other) {
    work_s += other.work_s;
    imbalance_s += other.imbalance_s;
    schedule_s += other.schedule_s;
    serialization_s += other.serialization_s;
  }
  [[nodiscard]] OpenMpEfficiency efficiency() const;
};

// Of a rank, in the whole run or in a part of it. `threads`: OpenMpRank::threads, of which smaller teams left
// some without work for `unused_ns`. `serial_ns`: of the main thread, outside of regions and MPI.
OpenMpParts openmp_parts(const shard::OmpSums& sums, std::uint32_t threads, std::uint64_t unused_ns,
                         std::uint64_t serial_ns);
// `recorded_ns`, `mpi_ns`: of the main thread, that which is in regions included.
std::uint64_t openmp_serial_ns(const shard::OmpSums& sums, std::uint64_t recorded_ns, std::uint64_t mpi_ns);

class OpenMpTime {
 public:
  OpenMpTime(const shard::ShardData& head, const CallPaths& paths);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.serial_ns_, self.paths_.size());
    table(self.lost_ns_, self.paths_.size());
    table(self.native_ns_, self.paths_.size());
    table(self.native_of_rank_ns_, self.of_rank_.size());
  }

  // Fills in Analysis::openmp. Needs Analysis::efficiency.
  void finish(const RankOrder& ranks, Analysis& analysis) const;
  // Fills in OpenMp::windows (openmp_windows.cpp). Needs Analysis::openmp and windows.
  void find_windows(Analysis& analysis) const;
  // By path: what was outside of parallel regions on it, or in those that begin there. Empty: there are none.
  [[nodiscard]] std::vector<OpenMpParts> parts() const;

 private:
  // What the tables say of one rank.
  struct Rank {
    const shard::OmpRank* of = nullptr;  // null: it has used no OpenMP
    std::uint32_t threads = 0;           // OpenMpRank::threads
    shard::OmpSums sums;
    std::uint64_t unused_ns = 0;  // of threads that smaller teams left without work
    std::uint64_t serial_ns = 0;  // of the main thread, outside of regions and MPI
    std::uint64_t mpi_ns = 0;     // of the main thread, outside of regions
    [[nodiscard]] bool has_teams() const { return of != nullptr && threads != 0; }
    [[nodiscard]] OpenMpParts parts() const { return openmp_parts(sums, threads, unused_ns, serial_ns); }
  };

  void read_ranks();
  [[nodiscard]] std::vector<OpenMpRegionRow> regions(const RankOrder& ranks) const;
  [[nodiscard]] std::vector<OpenMpSerialRow> serial() const;
  [[nodiscard]] std::vector<OpenMpRank> ranks(const RankOrder& ranks) const;
  void find_efficiency(OpenMp& openmp) const;

  const shard::ShardData& head_;
  const CallPaths& paths_;
  std::vector<Rank> of_rank_;    // by row of the head's ranks
  std::vector<bool> in_region_;  // by path: it is that of a region, or below one
  std::vector<std::uint64_t> serial_ns_, lost_ns_, native_ns_;  // by path: OpenMpSerialRow
  std::vector<std::uint64_t> native_of_rank_ns_;                // by row of the head's ranks: native_ns_
};

}  // namespace clusterprof::report
