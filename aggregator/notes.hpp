// SPDX-License-Identifier: BSD-3-Clause
// The notes that a merge adds to those of the shards. A profile that stands for its shards in a further merge
// must not hand them on: they may no longer be true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

inline constexpr const char* kDifferentRunsNote = "the shards are of different runs";
std::string repeated_rank_note(std::int32_t rank);
std::string damaged_shard_note(std::string_view shard);
std::string incomplete_shard_note(std::string_view shard);
std::string missing_events_note(std::size_t ranks);
std::string clocks_apart_note(std::size_t nodes);

// Into its place, once.
void add_note(shard::ShardData& data, std::string note);

// By rank of the job, whether the run has a record of it; none when the job's size is not known.
std::vector<bool> present_ranks(const shard::ShardData& data);

// Whether a merge made the note by looking at all shards together.
bool is_of_all_shards(std::string_view note);
bool is_of_incomplete_shard(std::string_view note);
bool is_of_repeated_rank(std::string_view note);

}  // namespace clusterprof::aggregator
