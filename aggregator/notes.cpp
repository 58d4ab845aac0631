// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/notes.hpp"

#include <algorithm>
#include <cstddef>

namespace clusterprof::aggregator {

using shard::NoteCode;

std::vector<bool> present_ranks(const shard::ShardData& data) {
  std::vector<bool> present(std::min(data.run.world_size, shard::kMaxWorldSize));
  for (const shard::Rank& rank : data.ranks)
    if (rank.rank >= 0 && static_cast<std::size_t>(rank.rank) < present.size())
      present[static_cast<std::size_t>(rank.rank)] = true;
  return present;
}

bool is_of_all_shards(NoteCode code) {
  switch (code) {
    case NoteCode::kMissingRanks:
    case NoteCode::kDifferentRuns:
    case NoteCode::kRepeatedRanks:
    case NoteCode::kClocksApart:
    case NoteCode::kRanksWithoutEvents:
      return true;
    default:
      return false;
  }
}

bool has_note(const shard::ShardData& data, NoteCode code) {
  const std::vector<shard::Note>& notes = data.run.notes;
  return std::any_of(notes.begin(), notes.end(), [&](const shard::Note& note) { return note.code == code; });
}

}  // namespace clusterprof::aggregator
