// SPDX-License-Identifier: BSD-3-Clause
// The recording of this process: its segment and everything that belongs to it.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Opens the segment and everything that depends on it for a new process (at start and after a fork).
// `parents`: in the child of a fork the segment of its parent, else null. The child does not call the loader,
// since another thread of the parent may have held its locks, unless the parent had `one_thread`.
bool open_process(const wire::SegmentHeader* parents, bool one_thread) noexcept;

// For a process that is let go, once nobody reads it any more.
void drop_path_table() noexcept;

// The table of call paths, of path_table_bytes() bytes. Null before it exists.
const void* path_table_memory() noexcept;

}  // namespace clusterprof::agent
