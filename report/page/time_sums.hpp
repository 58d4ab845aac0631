// SPDX-License-Identifier: BSD-3-Clause
// Adds up the times that a page shows. Several threads read nodes; each has its own sums, which are united at
// the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "formats/profile/node_times.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/page/path_choice.hpp"
#include "report/page/rank_groups.hpp"

namespace clusterprof::report {

// The functions and kinds of time that the time of a call path counts for. The same for all ranks.
struct TimeCharges {
  // row_function: by path, the index of its function, if that function has a time per row of the heat map and
  // is not on an ancestor of the path; else kNone.
  TimeCharges(const CallPaths& paths, const PathSlots& slots, bool off_cpu,
              std::span<const std::uint32_t> row_function);

  struct Charge {
    std::uint32_t slot = 0;
    std::uint32_t row_functions = 0;  // the first of `functions` that it counts for; 0: none
    bool is_work = true;              // even of a helper thread
  };
  // The functions that a path counts for form a linked list from the innermost outwards.
  struct RowFunction {
    std::uint32_t function = 0;
    std::uint32_t outer = 0;  // index into row_functions; 0: none
  };
  std::vector<Charge> charges;             // by path and category
  std::vector<RowFunction> row_functions;  // the first is unused
  std::vector<OffCpu> off_cpu;             // by path; empty: not known
  std::size_t slots = 0;
};

// A rank among those of a page.
struct PageRank {
  std::uint32_t position = 0;  // among all ranks, by their numbers
  std::uint32_t row = 0;       // of the heat map
  bool sampled = false;        // without samples all that is known is MPI
};

class TimeSums {
 public:
  using CategoryTimes = std::array<std::uint64_t, shard::kCategories>;
  struct Sum {
    CategoryTimes self_ns{};
    std::uint64_t helper_idle_ns = 0;
  };

  // functions, rows: of the heat map.
  TimeSums(const TimeCharges& charges, std::size_t functions, std::size_t rows);

  // Adds one node, or some ranks of it; each rank once. ranks: by row of the head's ranks. `groups` is shared
  // with other threads and only used under `lock`. off_cpu_ns: positions x kOffCpuKinds; only the entries of
  // the node's ranks are touched.
  void add(const profile::NodeTimes& times, std::span<const PageRank> ranks, GroupTimes& groups,
           std::mutex& lock, std::span<std::uint64_t> off_cpu_ns);
  void unite(const TimeSums& other);

  [[nodiscard]] const std::vector<Sum>& by_slot() const { return sums_; }
  // rows x functions: total without idle helper threads.
  [[nodiscard]] const std::vector<std::uint64_t>& row_function_ns() const { return row_function_ns_; }

 private:
  struct Run {
    CategoryTimes main_ns{}, helper_ns{};
    unsigned categories = 0;  // bits of those that have time
  };
  // Leaves the run empty.
  void add_run(std::uint32_t path, Run& run, std::uint32_t row, GroupTimes::Times& group);
  void add_to_functions(std::uint32_t row_functions, std::uint32_t row, std::uint64_t ns);
  void sort(GroupTimes::Times& times);

  const TimeCharges& charges_;
  std::size_t functions_;
  std::vector<Sum> sums_;
  std::vector<std::uint64_t> row_function_ns_;
  GroupTimes::Times by_slot_;              // while a group's times are sorted; else all zero
  std::vector<std::uint64_t> slot_used_;   // bits of by_slot_
  std::vector<GroupTimes::Times> groups_;  // of the node at hand
};

}  // namespace clusterprof::report
