// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "formats/shard/shard_data.hpp"

namespace clusterprof::synth {

// Removes the strings, frames and call paths that nothing in `data` refers to, and renumbers the others: a
// collector knows only the call paths of its own ranks.
void leave_out_unused(shard::ShardData& data);

}  // namespace clusterprof::synth
