// SPDX-License-Identifier: BSD-3-Clause
// Connects the agent with memory-wrap (agent/memory_api.h), which is there with --memory.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Of the largest segment, halved `step` times.
struct MemoryCapacities {
  std::uint32_t sites, blocks, rings;
  std::uint64_t path_bytes;
};
MemoryCapacities memory_capacities(unsigned step) noexcept;

// Before the first segment is made. Does nothing without --memory, or without memory-wrap.
void prepare_allocations() noexcept;

// The segment is that of this process from now on. `forked`: what the parent has allocated is not recorded.
void begin_allocations(wire::SegmentHeader* segment, bool forked) noexcept;

// Nothing is recorded in this process: memory-wrap lets everything pass.
void leave_allocations_alone() noexcept;

// The interpreter may have been found since the last call.
void watch_python_allocator() noexcept;

// Finds out what is not seen: object files that call another malloc, what they have in their data, an
// interpreter whose allocators were replaced. When modules have changed, and at the end. Takes the loader's
// lock.
void look_for_unseen_memory(wire::SegmentHeader* segment) noexcept;

}  // namespace clusterprof::agent
