// SPDX-License-Identifier: BSD-3-Clause
// Memory from the kernel itself, and not from malloc.
#pragma once

#include <cstdint>

namespace clusterprof::agent {

// New memory, from the kernel itself; of `file` and shared, or private. Null when there is none.
void* map_memory(std::uint64_t bytes, int file = -1) noexcept;
void unmap_memory(void* memory, std::uint64_t bytes) noexcept;

// What is mapped from now on is locked in memory, as far as the program asked for it (memory_lock.cpp).
void set_new_memory_locked(bool locked) noexcept;
bool new_memory_is_locked() noexcept;

}  // namespace clusterprof::agent
