// SPDX-License-Identifier: BSD-3-Clause
// Waiting in calls that had not returned when they were last seen (ShardData::calls_under_way). They have no
// events.
#pragma once

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::waits {

// Adds to wait_states, root_causes and mpi_wait_ns of the ranks. A receive or probe waits for its sender, a
// send that does not return for its receiver, a collective operation for those of its ranks that have not
// entered it. A rank that is waited for and waits itself passes the blame on. In a cycle each rank is to
// blame for the one behind it.
void add_unfinished_waits(shard::ShardData& merged);

}  // namespace clusterprof::aggregator::waits
