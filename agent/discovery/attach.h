// SPDX-License-Identifier: BSD-3-Clause
// Finds the Python interpreter of this process and publishes it for signal handlers
// (sigsafe/python_runtime.h).
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Finds an interpreter in this process (executable or libpython, however loaded), chooses the
// layout of its version and publishes it for the handler; sets python_state, python_version and
// python_note of the segment. Cheap when nothing changed; called at start and whenever
// modules changed. Not from a handler.
// Returns whether there is more to find out, which takes some milliseconds: at the next call.
bool python_attach(wire::SegmentHeader* segment) noexcept;

// Tells `segment` what is known already, without a call of the loader: in the child of a fork.
void python_report(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
