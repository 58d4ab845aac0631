// SPDX-License-Identifier: BSD-3-Clause
// Where all threads of a run are, or were last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/hang.hpp"

namespace clusterprof::report {

// A prefix of call paths. The interpreter's own frames, and those of the run time around main(), are left
// out.
struct StackNode {
  std::uint32_t parent = 0;  // index, smaller than its own; 0, the root, stands for no frame
  SourceLocation place;
};

// Threads that are at the same place.
struct StackClass {
  std::uint32_t node = 0;           // index into Stacks::nodes
  std::vector<std::int32_t> ranks;  // ascending
  std::uint64_t threads = 0;
  std::string op;                   // the MPI function that they are in; empty: none
  std::optional<double> unmoved_s;  // the shortest; empty: not known of one of them, or it moves
};

struct Stacks {
  std::vector<StackNode> nodes{StackNode{}};
  std::vector<StackClass> classes;  // of the fewest ranks first, then of the lowest rank
  std::uint64_t ranks = 0, threads = 0;

  // The outermost frame first.
  [[nodiscard]] std::vector<const SourceLocation*> frames(std::uint32_t node) const;
};

// Linear in threads and their call paths.
Stacks find_stacks(const shard::ShardData& data, const CallPaths& paths);

// What `clusterprof stacks` shows. `run`: of the analysis, run, nodes, ranks, places, calls under
// way, hang and failure only.
struct StacksReport {
  Analysis run;
  Stacks stacks;
};
// The run's state is left to find_run_state().
StacksReport report_stacks(const shard::ShardData& data, FrameMode frames);

}  // namespace clusterprof::report
