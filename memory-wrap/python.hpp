// SPDX-License-Identifier: BSD-3-Clause
// CPython's allocator of small objects (pymalloc), which takes them from pools that malloc does not see.
#pragma once

#include "agent/memory_api.h"

namespace clusterprof::memory_wrap {

// MemoryWrap::hook_python.
bool hook_python(void* handle, agent::ObjectRecording how) noexcept;

}  // namespace clusterprof::memory_wrap
