// SPDX-License-Identifier: BSD-3-Clause
// Records memory that the program has from the kernel, with --memory. May be called wherever the program may
// call mmap. errno is preserved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "agent/memory_api.h"

namespace clusterprof::agent {

// The program has mapped memory; flags and descriptor as for mmap.
void note_mapping(const void* caller, const void* address, std::size_t bytes, int protection, int flags,
                  int descriptor) noexcept;

// This process has made the file behind the descriptor, or given it its size. So memory of it that is shared
// is this process's.
void note_own_file(int descriptor) noexcept;

// As in MemoryRecorder (agent/memory_api.h).
void record_mapped(const void* address, std::uint64_t bytes, wire::MemoryDomain domain,
                   const void* caller) noexcept;
void record_unmapped(const void* address, std::uint64_t bytes) noexcept;
void record_attached(int segment, const void* address, const void* caller) noexcept;
void record_moves(const void* address, std::uint64_t bytes, MovingMappings& moving) noexcept;
void record_moved(const MovingMappings& moving, const void* to, std::uint64_t bytes,
                  const void* caller) noexcept;

void forget_mappings() noexcept;  // in the child of a fork

}  // namespace clusterprof::agent
