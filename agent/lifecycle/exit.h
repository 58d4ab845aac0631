// SPDX-License-Identifier: BSD-3-Clause
// How the process ended.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// The calling thread's last sample: where it dies, or ends the process. context: a ucontext_t. Only the first
// call of the process does it.
void sample_last(void* context) noexcept;

void watch_exit() noexcept;

// The process ends with this status, or by this signal. Only the first call counts.
void record_end(std::uint32_t exit_flags, int status, std::uint32_t fatal_signal) noexcept;
void reset_end() noexcept;  // in the child of a fork

// Of a process whose recording has ended, and of the child of one: makes no system call.
void keep_segment_for_end(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
