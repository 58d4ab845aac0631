// SPDX-License-Identifier: BSD-3-Clause
// Memory directly from the kernel, not from malloc.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// Maps new memory: shared memory of `file`, or private memory. Null if there is none.
void* map_memory(std::uint64_t bytes, int file = -1) noexcept;
void unmap_memory(void* memory, std::uint64_t bytes) noexcept;

// Whether memory mapped from now on is locked, as far as the program asked for it (memory_lock.cpp).
void set_new_memory_locked(bool locked) noexcept;
bool new_memory_is_locked() noexcept;

}  // namespace clusterprof::agent
