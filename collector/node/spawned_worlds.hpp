// SPDX-License-Identifier: BSD-3-Clause
// What ranks have written into the run directory about worlds that they made by MPI_Comm_spawn
// (formats/wire/spawned_world.h).
#pragma once

#include <filesystem>
#include <vector>

#include "collector/node/node_state.hpp"
#include "formats/shard/note.hpp"

namespace clusterprof::collector {

[[nodiscard]] std::vector<NodeState::SpawnedWorld> read_spawned_worlds(
    const std::filesystem::path& run_directory);

// Why processes that ranks have spawned are not recorded.
[[nodiscard]] std::vector<shard::Note> read_spawn_notes(const std::filesystem::path& run_directory);

}  // namespace clusterprof::collector
