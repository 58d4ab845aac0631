// SPDX-License-Identifier: BSD-3-Clause
// What ranks do now: `clusterprof top`. Times are of the last seconds, places and calls of the last look.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// What it is computed from.
struct TopInput {
  shard::ShardData data;           // of all nodes, united; what LiveState::data has
  std::vector<shard::Rank> since;  // ranks with what they did in the last seconds; others: not known
  struct PathTime {
    shard::PathId path;  // one that data has not counts for nothing
    shard::Category category = shard::Category::kNative;
    std::uint64_t wall_ns = 0;
  };
  std::vector<PathTime> times;  // of all nodes in that time; paths may occur several times
  std::map<std::int32_t, std::uint64_t> rss_bytes;  // by rank
  struct Memory {
    std::uint64_t used_bytes = 0, limit_bytes = 0;
  };
  std::map<std::string, Memory> memory;  // of the job, by node; without a limit: none
};

// Rows of ranks are those of Analysis::ranks.
struct TopRank {
  Seconds window_s;                    // recorded in the last seconds; empty: nothing is known of these
  OptionalCategorySeconds category_s;  // parts of it
  SourceLocation place;                // where its main thread is, and the MPI function that it is in
  Seconds op_s;                        // for how long
  Seconds unmoved_s;                   // that its main thread has been there; empty: it moves, or not known
  std::optional<std::uint64_t> rss_bytes;
  std::uint32_t stack = shard::kNone;  // of its main thread, in Top::stacks; kNone: not known
};
// Of Analysis::nodes. Sums over its ranks, as far as they are known.
struct TopNode {
  double window_s = 0;
  OptionalCategorySeconds category_s;
  std::optional<std::uint64_t> rss_bytes, memory_used_bytes, memory_limit_bytes;
  std::size_t still = 0;  // ranks that have not moved for kStill_ns
};

struct Top {
  Analysis run;  // as StacksReport::run
  std::vector<TopRank> ranks;
  std::vector<TopNode> nodes;
  // By self_s, largest first; names, places, self_s and total_s only. Wall time of main threads, and running
  // time of others.
  std::vector<FunctionRow> functions;
  std::vector<LineRow> lines;
  double sampled_s = 0;  // what their shares are of
  // The longest of a rank of a node that is running, or of all once none is; empty: nothing is known of the
  // last seconds.
  Seconds window_s;
  // Functions that main threads are in, however far out: names and places only. A stack is those of a call
  // path, by index.
  std::vector<FunctionRow> entered;
  std::vector<std::vector<std::uint32_t>> stacks;
};

// Linear in ranks, threads, calls and call paths. The run's state is left to find_run_state().
Top find_top(const TopInput& input, FrameMode frames);

}  // namespace clusterprof::report
