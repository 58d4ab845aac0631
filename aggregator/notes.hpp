// SPDX-License-Identifier: BSD-3-Clause
// The notes that a merge adds to those of the shards.
#pragma once

#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// By rank of the job, whether the run has a record of it; none when the job's size is not known.
std::vector<bool> present_ranks(const shard::ShardData& data);

// Whether a merge made the note by looking at all shards together. A profile that stands for its shards in a
// further merge must not hand it on: it may no longer be true.
bool is_of_all_shards(shard::NoteCode code);
bool has_note(const shard::ShardData& data, shard::NoteCode code);

// What merge_run adds to the united data, for data merged by other means: completes
// run.complete and the notes by looking for lost and missing ranks, and sorts the notes.
void note_missing_ranks(shard::ShardData& data);

}  // namespace clusterprof::aggregator
