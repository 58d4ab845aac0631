// SPDX-License-Identifier: BSD-3-Clause
// Finds the thread slots of a process that are or were in use. Looks again once a second, and when the
// process reports a new thread. Only the thread that polls the process may call this.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/rings/segment_view.hpp"

namespace clusterprof::collector {

class ThreadSlots {
 public:
  // It must outlive this.
  explicit ThreadSlots(const SegmentView& segment) : segment_(segment) {}

  // Numbers of slots, < layout().thread_slots, as of now (monotonic clock).
  const std::vector<std::uint32_t>& find(std::uint64_t now_ns);
  // What find() returned last.
  [[nodiscard]] const std::vector<std::uint32_t>& found() const noexcept { return slots_; }
  // Makes the next find() look at all slots.
  void look_again() noexcept { next_search_ns_ = 0; }

 private:
  const SegmentView& segment_;
  std::vector<std::uint32_t> slots_;
  std::uint64_t threads_seen_ = 0;
  std::uint64_t next_search_ns_ = 0;
  int searches_left_ = 0;  // because threads_seen changed
};

}  // namespace clusterprof::collector
