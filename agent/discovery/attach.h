// SPDX-License-Identifier: BSD-3-Clause
// Finds the Python interpreter of this process and publishes it for signal handlers
// (sigsafe/python_runtime.h).
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Finds an interpreter in this process (executable or libpython, however it was loaded), chooses the layout
// of its version and publishes it for the signal handler. Sets python_state, python_version and python_note
// of the segment. Cheap if nothing has changed. Called at start and whenever modules have changed. Not for
// signal handlers. Returns whether there is more to find out; the next call does that and takes some
// milliseconds.
bool python_attach(wire::SegmentHeader* segment) noexcept;

// The interpreter that python_attach has found, on the same thread. False: it has found none.
struct FoundPython {
  void* handle;  // as for dlsym
  std::uint32_t version_hex;
  bool is_known;  // CPython of a version that we know, and with a GIL
};
bool python_found(FoundPython& python) noexcept;

// Writes what is known already to `segment`, without a call of the loader: for the child of a fork.
void python_report(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
