// SPDX-License-Identifier: BSD-3-Clause
// Finds messages that were sent and that nobody received.
#pragma once

#include "aggregator/waits/trace.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::waits {

// Sets unmatched_messages and wait_analysis.unreceived_messages. Call this after match_events(). A message
// counts only if nothing of what its receiver got can be missing: both ranks have called MPI_Finalize and
// have all their events, and no receive of that communicator, sender and tag was still open.
void find_unmatched(const Trace& trace, shard::ShardData& merged);

}  // namespace clusterprof::aggregator::waits
