// SPDX-License-Identifier: BSD-3-Clause
// The process's use of processors, memory, and input and output.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// When a process begins to be recorded, in the child of a fork, too.
void begin_usage() noexcept;

// Of a process that was attached to: what it has used until now is not counted. At most once at a time.
void count_usage_from_now() noexcept;

// Made by a fork of a program that waits for its children.
[[nodiscard]] bool may_leave_io_to_parent(const wire::SegmentHeader& segment) noexcept;

// Async-signal-safe. At the end of a process, input and output may be left to the account of its parent.
void refresh_usage(wire::SegmentHeader* segment) noexcept;
void refresh_usage_at_end(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
