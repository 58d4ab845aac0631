// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/location_numbers.hpp"
#include "report/analysis/openmp.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/path_time.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// "epoch/step"
std::string region_name(const RegionRow& region);

// How the ranks' time in regions differs; sums are PathTime's and LimitTime's.
class RegionTime {
 public:
  RegionTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.sums_, self.parent_.size());
  }

  // Analysis::regions but for their verdict. The analysis has all of the ranks and the counters.
  void finish(const PathTime& time, const LimitTime& limits, const PathCounts& counts,
              const OpenMpTime& openmp, const RankOrder& ranks, Analysis& analysis) const;

 private:
  struct Sum {
    std::uint64_t useful_ns = 0, ranks = 0;
    double max_useful_s = 0, longest_s = 0, least_startup_s = 0;
    std::uint32_t position = kNoPosition;  // of the rank with max_useful_s
    friend void unite(Sum& into, const Sum& from) {
      if (from.ranks == 0) return;
      if (into.ranks == 0 || from.max_useful_s > into.max_useful_s ||
          (from.max_useful_s == into.max_useful_s && from.position < into.position))
        into.max_useful_s = from.max_useful_s, into.position = from.position;
      into.longest_s = std::max(into.longest_s, from.longest_s);
      into.least_startup_s =
          into.ranks == 0 ? from.least_startup_s : std::min(into.least_startup_s, from.least_startup_s);
      into.useful_ns += from.useful_ns;
      into.ranks += from.ranks;
    }
  };
  struct RankTotals {
    std::uint64_t main_ns = 0, helper_ns = 0, mpi_ns = 0;  // the first two outside MPI
    std::uint64_t runnable_ns = 0;                         // of main_ns: without a processor
    std::uint64_t startup_ns = 0;  // of mpi_ns: MPI_Init, MPI_Finalize of the main thread
  };

  void sum_instances(const RankOrder& ranks, std::vector<RegionRow>& rows) const;
  void sum_time(const PathTime& time, const LimitTime& limits, std::vector<RegionRow>& rows) const;
  void sum_counts(const PathCounts& counts, std::vector<RegionRow>& rows) const;
  void sum_memory(std::vector<RegionRow>& rows) const;
  void sum_openmp(const OpenMpTime& openmp, std::vector<RegionRow>& rows) const;

  const shard::ShardData& head_;
  const CallPaths& paths_;
  const LocationNumbers& places_;
  bool cpu_clock_;
  // Regions are numbered from 1 on, parents first; 0: outside all of them.
  std::vector<std::uint32_t> of_path_;  // the innermost one
  std::vector<bool> is_startup_;        // by path: MPI_Init and the like
  std::vector<std::uint32_t> parent_;   // by region
  std::vector<std::vector<std::string>> names_;
  std::vector<std::string> domains_;
  std::vector<std::uint32_t> first_path_;  // by region
  std::vector<Sum> sums_;                  // by region

  // Of the rank at hand; 0 between ranks.
  std::vector<RankTotals> rank_totals_;
  TouchedTree touched_{0};
};

}  // namespace clusterprof::report
