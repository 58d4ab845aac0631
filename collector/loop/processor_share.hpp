// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <chrono>

namespace clusterprof::collector {

// Keeps the collector to a share of one processor (--max-cpu): says how long it has to wait before it looks
// at the rings again. What it did not use in the last kMemory it may use at once, because checkpoints come in
// bursts.
class ProcessorShare {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr std::chrono::seconds kMemory{10};
  // However much it has used, programs come and go meanwhile.
  static constexpr std::chrono::seconds kMostWait{10};

  // share: 0.05 is 5 % of one processor; 0: all that it needs.
  explicit ProcessorShare(double share) : share_(share), credit_ns_(share * in_ns(kMemory)) {}

  // Call it after each look. now: since any fixed time; used: CPU time of the collector so far.
  Duration wait_after(Duration now, Duration used) {
    if (share_ <= 0) return {};
    if (is_first_) {
      is_first_ = false;
    } else {
      credit_ns_ += share_ * in_ns(now - last_) - in_ns(used - last_used_);
      credit_ns_ = std::min(credit_ns_, share_ * in_ns(kMemory));
    }
    last_ = now;
    last_used_ = used;
    if (credit_ns_ >= 0) return {};
    return std::min<Duration>(kMostWait, Duration(static_cast<Duration::rep>(-credit_ns_ / share_)));
  }

 private:
  static double in_ns(Duration duration) { return static_cast<double>(duration.count()); }

  double share_;
  double credit_ns_;
  Duration last_{}, last_used_{};
  bool is_first_ = true;
};

}  // namespace clusterprof::collector
