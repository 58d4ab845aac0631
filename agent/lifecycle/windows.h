// SPDX-License-Identifier: BSD-3-Clause
// Windows of recording that are opened and closed from outside (docs/design/0019-standby.md). With --standby
// nothing is recorded outside of them, with --mode light less than inside.
#pragma once

#include "agent/sigsafe/process_state.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Prepares a new segment. The child of a fork goes on as its parent was.
void begin_windows(wire::SegmentHeader* segment, bool forked) noexcept;

inline bool has_windows(const wire::SegmentHeader* segment) noexcept {
  return segment->outside_windows != wire::OutsideWindows::kAll;
}

// For the watcher: whether the collector wants a window to be opened or closed, and doing so.
bool wants_window_change(const wire::SegmentHeader* segment) noexcept;
bool wants_window(const wire::SegmentHeader* segment) noexcept;
void change_window(wire::SegmentHeader* segment) noexcept;

// For a thread whose record has just been published: a window may have been opened since it looked.
void tick_in_window(ThreadRecord& record) noexcept;

// For a thread that gives its record back after an exec that has failed: does what the watcher could not do
// for it since `phase` (ProcessState::record_phase).
void catch_up_window(ThreadRecord& record, std::uint32_t phase) noexcept;

}  // namespace clusterprof::agent
