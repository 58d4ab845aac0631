// SPDX-License-Identifier: BSD-3-Clause
// What the process has used of processors, memory and input and output.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Async-signal-safe.
void refresh_usage(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
