// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace clusterprof::collector {

// How long the collector waits between two looks at the rings: short enough that no ring fills up, long
// enough that it hardly disturbs the ranks.
class PollInterval {
 public:
  static constexpr std::chrono::milliseconds kMin{5}, kMax{300};
  static constexpr std::chrono::milliseconds kMaxIfLight{1000};  // for light recordings
  // The first looks come at least this often, because it is not known yet what the program does.
  static constexpr std::chrono::milliseconds kMaxAtFirst{100};
  static constexpr double kAimedFill = 0.35;  // of the fullest ring at each look

  explicit PollInterval(std::uint32_t rate_hz, bool light = false) : max_(light ? kMaxIfLight : kMax) {
    // In this time, samples of 1 KiB each fill half of a ring.
    const double half_full_ms = 64'000.0 / std::max<std::uint32_t>(rate_hz, 1);
    value_ = std::clamp(std::chrono::milliseconds(static_cast<long>(std::min(half_full_ms, 1e6))), kMin,
                        kMaxAtFirst);
  }

  [[nodiscard]] std::chrono::milliseconds get() const { return value_; }

  // Call this after each look. `fullest`: how full the fullest ring was, 0 to 1.
  void after_poll(double fullest) {
    using std::chrono::milliseconds;
    if (fullest > kAimedFill)
      value_ = std::max(kMin, std::chrono::duration_cast<milliseconds>(value_ * (kAimedFill / fullest)));
    else if (fullest < kAimedFill / 3)
      value_ = std::min(max_, value_ + value_ / 8 + milliseconds(1));
  }

 private:
  std::chrono::milliseconds value_, max_;
};

}  // namespace clusterprof::collector
