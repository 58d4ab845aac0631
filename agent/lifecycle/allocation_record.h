// SPDX-License-Identifier: BSD-3-Clause
// Counts recorded allocations by call path, keeps the blocks that live, and tells the collector of each
// change: the functions of MemoryRecorder (agent/memory_api.h).
#pragma once

#include "agent/memory_api.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

Keeping record_allocated(const SampledBlock& block, const void* caller) noexcept;
bool record_take(const void* address, KeptBlock& block) noexcept;
void record_put_back(const KeptBlock& block) noexcept;
void record_freed(const KeptBlock& block) noexcept;
// As the allocation was asked for: whether inside MPI is left out.
wire::MemoryDomain domain_of_block(const KeptBlock& block) noexcept;
void record_copied(std::uint64_t bytes, std::uint64_t calls, const void* caller) noexcept;

// Null: allocations are not recorded now. Whether this process is the segment's is not asked.
wire::SegmentHeader* segment_for_allocations() noexcept;

void begin_record_of_allocations() noexcept;  // in a new segment
void end_record_of_allocations(wire::SegmentHeader* segment) noexcept;

// What this thread, one of the agent's own, allocates does not count.
void leave_out_own_allocations() noexcept;

}  // namespace clusterprof::agent
