// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/notes.hpp"

#include <algorithm>
#include <cstddef>

namespace clusterprof::aggregator {
namespace {

// Missing ranks. Only their first ranges are kept, so that the number of notes stays small however many are
// missing.
struct Absent {
  std::vector<shard::RankRange> ranges;
  std::size_t count = 0;
};
Absent absent_from(const std::vector<bool>& present) {
  constexpr std::size_t kMaxRanges = 24;
  Absent absent;
  for (std::size_t i = 0; i < present.size(); ++i) {
    if (present[i]) continue;
    const std::size_t first = i;
    while (i + 1 < present.size() && !present[i + 1]) ++i;
    absent.count += i - first + 1;
    if (absent.ranges.size() < kMaxRanges)
      absent.ranges.push_back({static_cast<std::int32_t>(first), static_cast<std::int32_t>(i)});
  }
  return absent;
}

}  // namespace

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
    case NoteCode::kWrongDate:
    case NoteCode::kRanksWithoutEvents:
    case NoteCode::kShardLeftOnNode:
    case NoteCode::kSnapshot:
      return true;
    default:
      return false;
  }
}

bool has_note(const shard::ShardData& data, NoteCode code) {
  const std::vector<shard::Note>& notes = data.run.notes;
  return std::any_of(notes.begin(), notes.end(), [&](const shard::Note& note) { return note.code == code; });
}

void note_snapshot(shard::ShardData& data) {
  constexpr std::int64_t kSecond_ns = 1'000'000'000;
  std::int64_t oldest_ns = 0;
  for (const shard::Node& node : data.nodes)
    if (node.as_of_utc_ns > 0 && (oldest_ns == 0 || node.as_of_utc_ns < oldest_ns))
      oldest_ns = node.as_of_utc_ns;
  const auto utc_s = static_cast<std::uint64_t>(oldest_ns / kSecond_ns);
  if (utc_s != 0) data.run.notes.push_back(note_of_run(NoteCode::kSnapshot, utc_s));
}

void note_missing_ranks(shard::ShardData& data) {
  const auto is_lost = [](const shard::Rank& rank) { return (rank.flags & shard::kLost) != 0; };
  if (std::any_of(data.ranks.begin(), data.ranks.end(), is_lost)) data.run.complete = false;
  const Absent absent = absent_from(present_ranks(data));
  if (absent.count == 0) return unite(data.run.notes);
  data.run.complete = false;
  for (const shard::RankRange& range : absent.ranges)
    data.run.notes.push_back(note_of_ranks(shard::NoteCode::kMissingRanks, range, absent.count));
  unite(data.run.notes);
}

}  // namespace clusterprof::aggregator
