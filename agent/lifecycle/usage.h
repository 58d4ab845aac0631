// SPDX-License-Identifier: BSD-3-Clause
// The process's use of processors, memory, and input and output.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Async-signal-safe.
void refresh_usage(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
