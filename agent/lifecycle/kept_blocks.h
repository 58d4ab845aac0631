// SPDX-License-Identifier: BSD-3-Clause
// The table of recorded blocks that live, in shared memory. Lock-free, any thread, async-signal-safe.
#pragma once

#include "agent/memory_api.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// `replaced`: what was known of that address, with kReplaced.
Keeping keep_block(wire::SegmentHeader* segment, const KeptBlock& block, KeptBlock& replaced) noexcept;

bool has_block(wire::SegmentHeader* segment, std::uint64_t address) noexcept;  // changes nothing

// False: there is none at this address.
bool take_block(wire::SegmentHeader* segment, std::uint64_t address, KeptBlock& block) noexcept;

void reset_kept_blocks() noexcept;  // for an empty table

}  // namespace clusterprof::agent
