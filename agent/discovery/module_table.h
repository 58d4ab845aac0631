// SPDX-License-Identifier: BSD-3-Clause
// Finds the object files that are mapped in this process, publishes them for signal handlers
// (sigsafe/modules.h), and describes them to the collector.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Checks whether modules were loaded or unloaded, and publishes a new table if so. Describes new modules to
// the collector (ModuleEntry with path and build-id, vdso included) in `segment` (may be null) and advances
// its module_epoch. Takes the loader's lock: never call it from a handler, or while another thread could be
// forking (the caller holds the agent's fork lock). Returns true if something changed.
bool module_table_refresh(wire::SegmentHeader* segment) noexcept;

// Writes all modules to a new segment.
void module_table_describe_all(wire::SegmentHeader* segment) noexcept;

// In the child of a fork: copies the parent's description of the modules that are known here. Does not call
// the loader.
void module_table_copy(const wire::SegmentHeader* parents, wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
