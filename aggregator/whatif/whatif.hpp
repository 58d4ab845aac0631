// SPDX-License-Identifier: BSD-3-Clause
// Predicts how long a run would have taken with changes: replays its events with other costs; of a run whose
// events are a sample, those of the stretches of time that have all; or, of a program without MPI, adds up
// sampled times. Formulas: docs/whatif.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/whatif/change.hpp"
#include "aggregator/whatif/processors.hpp"
#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::whatif {

// If a replay without changes differs from the recorded run by a larger share, it predicts nothing.
inline constexpr double kMostReplayError = 0.01;

// Time of one rank on a call path; of waits summed over ranks, at an MPI call site.
struct TimeRow {
  std::int32_t rank = -1;  // -1: all
  std::string name;        // of the innermost function, or the MPI function
  std::string caller;      // of an MPI function; else empty
  std::string file;        // of the caller, or of the function; empty: not known
  std::uint32_t line = 0;  // there; 0 not known
  shard::FrameKind kind = shard::FrameKind::kNative;
  double time_s = 0;
};

struct Outcome {
  double elapsed_s = 0;
  // Means of all ranks outside MPI, the most of one rank, and time in MPI for other ranks, summed over ranks.
  double useful_mean_s = 0, useful_max_s = 0, wait_s = 0;
  // mean / elapsed = load_balance × communication; MPI_Init and MPI_Finalize are in elapsed here.
  double parallel = 0, load_balance = 0, communication = 0;
  std::vector<TimeRow> waits;     // by call site, most first
  std::vector<TimeRow> critical;  // the critical path by rank and function, most first
  std::vector<NodeUse> nodes;     // of a replay
  double limited_s = 0;           // of elapsed_s: because a node's processors do not work faster
  double calls_on_path = 0;       // on the critical path, that may wait for other ranks
  // Where stretches stand for the run: how long each takes, of what it was long; and how far ranks are apart
  // at their ends, of the elapsed time.
  std::vector<double> of_stretches;
  double apart_s = 0;
};

// What was replayed of a run whose events are a sample.
struct ReplayedStretches {
  std::size_t count = 0;
  double time_s = 0;  // of all together
};

struct Prediction {
  Outcome outcome;
  double error_s = 0;  // half the width of a 95 % interval
};

// Takes the shards of one run, then predicts. Not thread-safe. With two `threads` or more, two replays run at
// a time, which needs twice the memory.
class WhatIf {
 public:
  explicit WhatIf(std::size_t threads = 1);
  ~WhatIf();
  WhatIf(const WhatIf&) = delete;
  WhatIf& operator=(const WhatIf&) = delete;

  // Valid shards, as read_shard leaves them, in any order.
  void add(shard::ShardData shard);
  // After the last shard. Error: the run cannot be replayed (kNotFound), and why.
  Result<void> prepare();

  [[nodiscard]] std::size_t threads() const;
  // As recorded, by the clock of the replay: nodes' clocks are adjusted to each other.
  [[nodiscard]] double elapsed_s() const;
  [[nodiscard]] const Outcome& replayed() const;                     // without changes
  [[nodiscard]] bool is_from_sums() const;                           // there is no MPI to be replayed
  [[nodiscard]] std::optional<ReplayedStretches> stretches() const;  // none: the run as a whole

  // How often predict() replays the run: again without the time that ranks had no processor, if there is any.
  [[nodiscard]] std::size_t replays_per_prediction() const;
  // Error: a change names what the run does not have (kNotFound).
  Result<Prediction> predict(const std::vector<Change>& changes) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clusterprof::aggregator::whatif
