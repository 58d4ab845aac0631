// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/notes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace clusterprof::aggregator {
namespace {

constexpr std::string_view kRepeated = " was recorded more than once; the most complete record was kept";
constexpr std::string_view kNoRecord = " missing: no shard has a record of ";
constexpr std::string_view kStillRan = " is incomplete: it was written while ranks of its node still ran";
constexpr std::string_view kNoEvents = "waiting was analysed without ";
constexpr std::string_view kClocks =
    " could not be compared with the others': waiting between them is not known";

}  // namespace

std::string repeated_rank_note(std::int32_t rank) {
  return "rank " + std::to_string(rank) + std::string(kRepeated);
}

std::string damaged_shard_note(std::string_view shard) {
  return std::string(shard) + " is damaged and was left out";
}

std::string incomplete_shard_note(std::string_view shard) {
  return std::string(shard) + std::string(kStillRan);
}

std::string missing_events_note(std::size_t ranks) {
  return std::string(kNoEvents) + std::to_string(ranks) +
         (ranks == 1 ? " rank that has" : " ranks that have") + " no MPI events";
}

std::string clocks_apart_note(std::size_t nodes) {
  return "the clocks of " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") + std::string(kClocks);
}

void add_note(shard::ShardData& data, std::string note) {
  std::vector<std::string>& notes = data.run.notes;
  const auto place = std::lower_bound(notes.begin(), notes.end(), note);
  if (place == notes.end() || *place != note) notes.insert(place, std::move(note));
}

std::vector<bool> present_ranks(const shard::ShardData& data) {
  std::vector<bool> present(std::min(data.run.world_size, shard::kMaxWorldSize));
  for (const shard::Rank& rank : data.ranks)
    if (rank.rank >= 0 && static_cast<std::size_t>(rank.rank) < present.size())
      present[static_cast<std::size_t>(rank.rank)] = true;
  return present;
}

bool is_of_incomplete_shard(std::string_view note) { return note.ends_with(kStillRan); }

bool is_of_repeated_rank(std::string_view note) { return note.ends_with(kRepeated); }

bool is_of_all_shards(std::string_view note) {
  return note == kDifferentRunsNote || is_of_repeated_rank(note) || note.starts_with(kNoEvents) ||
         note.ends_with(kClocks) || note.find(kNoRecord) != std::string_view::npos;
}

}  // namespace clusterprof::aggregator
