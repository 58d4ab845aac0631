// SPDX-License-Identifier: BSD-3-Clause
#include "collector/node/spawned_worlds.hpp"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>

#include "formats/wire/spawned_world.h"

namespace clusterprof::collector {
namespace {

using shard::NoteCode;

std::optional<NoteCode> note_on(wire::SpawnObstacle why) {
  switch (why) {
    case wire::SpawnObstacle::kLauncher:
      return NoteCode::kSpawnedWithoutLauncher;
    case wire::SpawnObstacle::kInfo:
      return NoteCode::kSpawnedWithInfo;
    case wire::SpawnObstacle::kCommand:
      return NoteCode::kSpawnedCommandNotFound;
    case wire::SpawnObstacle::kNumbers:
      return NoteCode::kSpawnedWithoutNumbers;
    default:
      return std::nullopt;
  }
}

}  // namespace

// Reads all worlds every time, because ranks may have given back the numbers of the last ones.
std::vector<NodeState::SpawnedWorld> read_spawned_worlds(const std::filesystem::path& run_directory) {
  const std::filesystem::path directory = run_directory / wire::kWorldsDirectory;
  wire::SpawnedWorld world{};
  std::vector<NodeState::SpawnedWorld> worlds;
  while (wire::read_spawned_world(directory.c_str(), static_cast<int>(worlds.size()) + 1, world))
    worlds.push_back({world.first, world.size});
  return worlds;
}

std::vector<shard::Note> read_spawn_notes(const std::filesystem::path& run_directory) {
  std::vector<shard::Note> notes;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run_directory / wire::kWorldsDirectory, error), end;
       !error && it != end; it.increment(error)) {
    std::int32_t rank = -1;
    unsigned obstacle = 0;
    if (std::sscanf(it->path().filename().c_str(), wire::kSpawnNoteFormat, &rank, &obstacle) != 2) continue;
    const std::optional<NoteCode> code = note_on(static_cast<wire::SpawnObstacle>(obstacle));
    if (code && rank >= 0 && rank < wire::kMaxRunRanks)
      notes.push_back(shard::note_of_ranks(*code, {rank, rank}));
  }
  return notes;
}

}  // namespace clusterprof::collector
