// SPDX-License-Identifier: BSD-3-Clause
// When a process began, as far as it is believed: no time of the process lies before that. Times are of the
// monotonic clock, in nanoseconds. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace clusterprof::collector {

class ProcessStart {
 public:
  explicit ProcessStart(std::uint64_t told_ns) : start_ns_(told_ns) {}

  // Decides, the first time it is called, whether to believe what the process told: it began neither after
  // `now_ns` nor before `earliest_ns`, where that is known. A process that is not believed began now.
  void check(std::optional<std::uint64_t> earliest_ns, std::uint64_t now_ns) {
    if (checked_) return;
    checked_ = true;
    refused_ = (earliest_ns && start_ns_ < *earliest_ns) || start_ns_ > now_ns;
    if (refused_) start_ns_ = now_ns;
  }

  // When it began, but not after `now_ns`.
  [[nodiscard]] std::uint64_t not_after(std::uint64_t now_ns) const noexcept {
    return std::min(start_ns_, now_ns);
  }
  // The process told a time that cannot be.
  [[nodiscard]] bool was_refused() const noexcept { return refused_; }

 private:
  std::uint64_t start_ns_;
  bool checked_ = false, refused_ = false;
};

// How far ahead of ours a process's clock readings may be: it may have read the clock after we did.
inline constexpr std::uint64_t kClockToleranceNs = 1'000'000'000;

}  // namespace clusterprof::collector
