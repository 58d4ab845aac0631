// SPDX-License-Identifier: BSD-3-Clause
// How far a merge is, for people.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "aggregator/run_directory.hpp"

namespace clusterprof::cli {

// What to write to stderr, and when. On a terminal one line that is written again and again and is gone in
// the end; elsewhere a line for every tenth of the work. Nothing at all for what is done soon.
class MergeBar {
 public:
  using Clock = std::chrono::steady_clock;
  struct Style {
    bool terminal = false;  // the cursor can be moved
    bool colour = false;
    std::size_t columns = 80;
  };
  MergeBar(const Style& style, Clock::time_point start)
      : style_(style), start_(start), shown_(start), phase_start_(start) {}

  [[nodiscard]] std::string update(const aggregator::MergeProgress& progress, Clock::time_point now);
  [[nodiscard]] std::string finish();

 private:
  Style style_;
  Clock::time_point start_, shown_;  // shown: when something was written last
  bool visible_ = false;
  int tenths_ = 0;  // said so far
  // What is done now, and when and at which share that began.
  std::optional<aggregator::MergeProgress::Phase> phase_;
  Clock::time_point phase_start_;
  double phase_share_ = 0;
};

// The same on this process's stderr.
class MergeBarOnStderr {
 public:
  explicit MergeBarOnStderr(bool quiet);
  ~MergeBarOnStderr() { finish(); }
  MergeBarOnStderr(const MergeBarOnStderr&) = delete;
  MergeBarOnStderr& operator=(const MergeBarOnStderr&) = delete;

  void update(const aggregator::MergeProgress& progress);
  void finish();  // before anything else is printed

 private:
  bool quiet_;
  MergeBar bar_;
};

}  // namespace clusterprof::cli
