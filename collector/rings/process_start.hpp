// SPDX-License-Identifier: BSD-3-Clause
// When a process started, checked for plausibility: no time of the process may be earlier. Times are in
// nanoseconds of the monotonic clock. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace clusterprof::collector {

class ProcessStart {
 public:
  explicit ProcessStart(std::uint64_t told_ns) : start_ns_(told_ns) {}

  // The first call decides whether the time that the process told is accepted: it must not be after `now_ns`
  // or, if known, before `earliest_ns`. Otherwise the process counts as started now.
  void check(std::optional<std::uint64_t> earliest_ns, std::uint64_t now_ns) {
    if (checked_) return;
    checked_ = true;
    refused_ = (earliest_ns && start_ns_ < *earliest_ns) || start_ns_ > now_ns;
    if (refused_) start_ns_ = now_ns;
  }

  // The start, but at most `now_ns`.
  [[nodiscard]] std::uint64_t not_after(std::uint64_t now_ns) const noexcept {
    return std::min(start_ns_, now_ns);
  }
  // The main thread is recorded from then on; the time before is the agent's own. Only the first call counts.
  void begin_recording(std::uint64_t begin_ns) noexcept {
    if (recorded_since_ns_ == 0) recorded_since_ns_ = begin_ns;
  }
  // When recording began, but at most `now_ns`: the start as long as there is no main thread.
  [[nodiscard]] std::uint64_t recorded_not_after(std::uint64_t now_ns) const noexcept {
    return std::min(std::max(start_ns_, recorded_since_ns_), now_ns);
  }
  // Whether the process told an impossible time.
  [[nodiscard]] bool was_refused() const noexcept { return refused_; }

 private:
  std::uint64_t start_ns_;
  std::uint64_t recorded_since_ns_ = 0;
  bool checked_ = false, refused_ = false;
};

// A process may read the clock after we did, so its readings may be this much newer than ours.
inline constexpr std::uint64_t kClockToleranceNs = 1'000'000'000;

}  // namespace clusterprof::collector
