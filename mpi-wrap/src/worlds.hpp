// SPDX-License-Identifier: BSD-3-Clause
// The worlds whose processes this process knows: its own, its parent's, and those that it has spawned.
// Traffic and events use ranks in the run. For the first world these are the ranks in MPI_COMM_WORLD; rank r
// of a spawned world is FIRST + r. formats/wire/spawned_world.h says how processes learn FIRST.
#pragma once

#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/world_numbers.hpp"

namespace clusterprof::mpi_wrap {

// The run's rank of rank 0 of this process's world: 0 unless a recorded process spawned it. Must be called
// for the first time before MPI_Init, which may change the job's environment variables.
std::int32_t first_rank() noexcept;

// After MPI_Init. Takes over the group of this process's world, which has `size` processes.
void start_worlds(MPI_Group own, std::int32_t size) noexcept;

// Frees the library's objects that are still held here, before MPI_Finalize, and before the end of the
// session that they are from. No ranks are known then, until start_worlds is called again.
void end_worlds() noexcept;

// Whether the group has the processes of this process's world, in the same order.
bool is_own_world(MPI_Group group) noexcept;

// The processes of `group` have those ranks in the run. Takes over the group and the contents of the map.
void add_world(MPI_Group group, RankMap& ranks) noexcept;

// Ranks in the run of the group's members with the given numbers; kUnknownRank for members of unknown worlds.
// `scratch` has room for as many numbers.
bool find_run_ranks(MPI_Group group, std::int32_t count, const std::int32_t* members, std::int32_t* found,
                    std::int32_t* scratch) noexcept;

// The callers that spawned this process's world, in order. False if they are not known.
bool read_own_callers(RankMap& callers) noexcept;

// Takes numbers for what this process spawns (world_numbers.hpp).
NewWorld make_world(const SpawnCall& call, std::int32_t size) noexcept;

// What the launcher left in the environment so that children are recorded. Null: they are not to be recorded.
struct SpawnCommand {
  const char* worlds_directory;
  const char* launcher;
  const char* const* options;  // the last one is incomplete, see wire::kSpawnVariable
  int count;                   // of options
};
const SpawnCommand* spawn_command() noexcept;

}  // namespace clusterprof::mpi_wrap
