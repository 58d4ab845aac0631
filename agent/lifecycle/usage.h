// SPDX-License-Identifier: BSD-3-Clause
// The process's use of processors, memory, and input and output.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Of a process that was attached to: what it has used until now is not counted. At most once at a time.
void count_usage_from_now() noexcept;

// Async-signal-safe.
void refresh_usage(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
