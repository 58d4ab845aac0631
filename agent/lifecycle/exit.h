// SPDX-License-Identifier: BSD-3-Clause
// Records how the process ended.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Takes the calling thread's last sample, when the thread dies or ends the process. context: a ucontext_t.
// Only the first call in the process has an effect.
void sample_last(void* context) noexcept;

void watch_exit() noexcept;

// The process ends with this status or by this signal. Only the first call counts, and of the later ones the
// first with a signal: the process has not come to its exit. May be called in a signal handler.
void record_end(std::uint32_t exit_flags, int status, std::uint32_t fatal_signal) noexcept;
void reset_end() noexcept;  // in the child of a fork

// For a process whose recording has ended, and for a child of one. Makes no system call.
void keep_segment_for_end(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
