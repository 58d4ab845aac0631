// SPDX-License-Identifier: BSD-3-Clause
// The windows in which a process was recorded, as its segment tells them
// (wire::SegmentHeader::window_begin_ns). They open and close at most about once a second, so that looking
// several times a second misses none. Times are in nanoseconds of the monotonic clock. One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collector/rings/process_start.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

struct RecordedWindow {
  std::uint64_t begin_ns = 0, end_ns = 0;
  friend bool operator==(const RecordedWindow&, const RecordedWindow&) = default;
};

class RecordedWindows {
 public:
  static constexpr std::size_t kMost = 4096;  // a process that says more is damaged: the last two become one

  explicit RecordedWindows(const wire::SegmentHeader& header) : outside_(header.outside_windows) {}

  // Nothing is recorded outside of the windows.
  [[nodiscard]] bool leaves_gaps() const noexcept { return outside_ == wire::OutsideWindows::kNothing; }
  [[nodiscard]] bool are_possible() const noexcept {
    return outside_ == wire::OutsideWindows::kNothing || outside_ == wire::OutsideWindows::kLight;
  }

  void look(const wire::SegmentHeader& header, const ProcessStart& start, std::uint64_t now_ns) {
    if (!are_possible()) return;
    // The end first: if a window is opened meanwhile, the one before has its end.
    const std::uint64_t end_ns = header.window_end_ns.load(std::memory_order_acquire);
    const std::uint64_t begin_ns = header.window_begin_ns.load(std::memory_order_acquire);
    if (is_open_ && end_ns > windows_.back().begin_ns) close(std::min(end_ns, now_ns));
    if (begin_ns == 0 || begin_ns == latest_begin_ns_) return;
    latest_begin_ns_ = begin_ns;
    if (is_open_) close(std::min(begin_ns, now_ns));
    const std::uint64_t earliest_ns = windows_.empty() ? start.not_after(now_ns) : windows_.back().end_ns;
    std::uint64_t begin = std::clamp(begin_ns, earliest_ns, std::max(earliest_ns, now_ns));
    if (windows_.size() == kMost) {
      begin = windows_.back().begin_ns;
      windows_.pop_back();
    }
    windows_.push_back({begin, 0});
    is_open_ = true;
    if (end_ns > begin_ns) close(std::min(end_ns, now_ns));
  }

  // As of now: a window that is open ends now.
  [[nodiscard]] std::vector<RecordedWindow> windows(std::uint64_t now_ns) const {
    std::vector<RecordedWindow> result = windows_;
    if (is_open_) result.back().end_ns = std::max(result.back().begin_ns, now_ns);
    return result;
  }
  // How much of this time was recorded.
  [[nodiscard]] std::uint64_t recorded_ns(std::uint64_t from_ns, std::uint64_t to_ns) const {
    if (from_ns >= to_ns) return 0;
    if (!leaves_gaps()) return to_ns - from_ns;
    std::uint64_t sum_ns = 0;
    for (const RecordedWindow& window : windows_) {
      const std::uint64_t end_ns = window.end_ns == 0 ? to_ns : window.end_ns;
      const std::uint64_t begin = std::max(window.begin_ns, from_ns), end = std::min(end_ns, to_ns);
      if (begin < end) sum_ns += end - begin;
    }
    return sum_ns;
  }
  [[nodiscard]] bool is_recorded(std::uint64_t time_ns) const {
    if (!leaves_gaps()) return true;
    const auto latest = std::find_if(windows_.rbegin(), windows_.rend(), [&](const RecordedWindow& window) {
      return window.begin_ns <= time_ns;
    });
    return latest != windows_.rend() && (latest->end_ns == 0 || time_ns < latest->end_ns);
  }

 private:
  void close(std::uint64_t end_ns) {
    windows_.back().end_ns = std::max(end_ns, windows_.back().begin_ns + 1);  // 0 stands for open
    is_open_ = false;
  }

  wire::OutsideWindows outside_;
  std::vector<RecordedWindow> windows_;  // in order
  std::uint64_t latest_begin_ns_ = 0;    // as the process told it
  bool is_open_ = false;
};

}  // namespace clusterprof::collector
