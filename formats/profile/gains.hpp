// SPDX-License-Identifier: BSD-3-Clause
// What changes of the program would gain, as predicted when the run was merged: docs/whatif.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace clusterprof::profile {

struct PredictedGain {
  std::string change;          // as `clusterprof whatif --change` takes it
  std::string file, function;  // that it is about; empty: none
  std::uint32_t line = 0;      // 0: none
  std::int32_t rank = -1;      // -1: none
  // gain_s is below 0 where the run would take longer. error_s: half the width of a 95 % interval.
  double predicted_s = 0, gain_s = 0, error_s = 0;
  friend bool operator==(const PredictedGain&, const PredictedGain&) = default;
};

// A change that was to be tried, but that nothing can be predicted of.
struct RefusedChange {
  std::string change, reason;
  friend bool operator==(const RefusedChange&, const RefusedChange&) = default;
};

struct Gains {
  bool from_sums = false;                   // of a program without MPI: sums of sampled times; else by replay
  std::string refused;                      // why nothing was predicted; empty: it was
  double elapsed_s = 0, replayed_s = 0;     // as recorded, and replayed without changes
  // Of a run whose events are a sample: how many stretches of time were replayed, and how long they are
  // together; 0: the run as a whole.
  std::uint32_t stretches = 0;
  double stretches_s = 0;
  std::uint32_t candidates = 0, tried = 0;  // how many changes there were, and how many of them were predicted
  std::vector<PredictedGain> rows;          // of those that were; largest gain first
  std::vector<RefusedChange> refused_changes;  // in the order of the candidates
  friend bool operator==(const Gains&, const Gains&) = default;
};

}  // namespace clusterprof::profile
