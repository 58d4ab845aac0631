// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/location_numbers.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/path_time.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

// What all threads waited for outside MPI, by kind and line.
class OffCpuTime {
 public:
  OffCpuTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.sums_, self.waits_.size());
  }

  // Fills in Analysis::off_cpu. Needs the number of samples.
  void finish(const PathTime& time, const RankOrder& ranks, Analysis& analysis) const;

 private:
  struct Sum {
    std::uint64_t time_ns = 0, main_thread_ns = 0;
    double rank_s = 0;  // the most of one rank
    std::uint32_t position = kNoPosition;
    friend void unite(Sum& into, const Sum& from) {
      into.time_ns += from.time_ns;
      into.main_thread_ns += from.main_thread_ns;
      if (from.position == kNoPosition) return;
      if (into.position == kNoPosition || from.rank_s > into.rank_s ||
          (from.rank_s == into.rank_s && from.position < into.position))
        into.rank_s = from.rank_s, into.position = from.position;
    }
  };
  struct RankTotals {
    std::uint64_t main_ns = 0, helper_ns = 0;
  };
  // By wait: blocked time by the library function that was called, "" where none was.
  using CalledTime = std::vector<std::map<std::string, std::uint64_t>>;
  [[nodiscard]] CalledTime called_time(const PathTime& time) const;

  const CallPaths& paths_;
  const LocationNumbers& places_;
  bool cpu_clock_;
  std::vector<std::uint32_t> wait_of_;                   // by path, of its blocked time
  std::vector<std::pair<std::uint32_t, OffCpu>> waits_;  // place, kind
  std::vector<Sum> sums_;                                // of waits_

  // Of the rank at hand; 0 between ranks.
  std::vector<RankTotals> rank_totals_;  // of waits_
  std::vector<std::uint32_t> touched_;
};

}  // namespace clusterprof::report
