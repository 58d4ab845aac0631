// SPDX-License-Identifier: BSD-3-Clause
// The notes that a merge adds to those of the shards.
#pragma once

#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// For each rank of the job: whether the run has a record of it. Empty when the job's size is not known.
std::vector<bool> present_ranks(const shard::ShardData& data);

// Whether a note comes from a merge that looked at all shards together. When a profile stands for its shards
// in a later merge, such a note must not be passed on: it may no longer be true.
bool is_of_all_shards(shard::NoteCode code);
bool has_note(const shard::ShardData& data, shard::NoteCode code);

// Does for data merged by other means what merge_run does at its end: looks for lost and missing ranks, sets
// run.complete, adds the notes about them, and sorts all notes.
void note_missing_ranks(shard::ShardData& data);

// If nodes are running: as of when the oldest of their data are.
void note_snapshot(shard::ShardData& data);

}  // namespace clusterprof::aggregator
