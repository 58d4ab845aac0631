// SPDX-License-Identifier: BSD-3-Clause
// Recording of this process: the segment and everything that belongs to it.
#pragma once

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// The segment and everything that hangs on it, for a new process (start and fork).
// `parents`: in the child of a fork, the segment of its parent, else null. The child makes no call of the
// loader, some of whose locks another thread of the parent may have held, unless the parent had `one_thread`.
bool open_process(const wire::SegmentHeader* parents, bool one_thread) noexcept;

// The table of call paths; of path_table_bytes(). Null before there is one.
const void* path_table_memory() noexcept;

}  // namespace clusterprof::agent
