// SPDX-License-Identifier: BSD-3-Clause
// The worlds this process knows processes of: its own, the one that spawned it, those that it has spawned.
// Traffic and events speak of ranks in the run: the first world's are those of its MPI_COMM_WORLD, rank r of
// a spawned one is FIRST + r. formats/wire/spawned_world.h says how everybody learns FIRST.
#pragma once

#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/world_numbers.hpp"

namespace clusterprof::mpi_wrap {

// The run's rank of rank 0 of this process's world: 0 unless it was spawned by a recorded process. To be
// asked for the first time before MPI_Init, which may change what the environment says of the job.
std::int32_t first_rank() noexcept;

// MPI_Init has returned. Takes the group of this process's world, `size` processes.
void start_worlds(MPI_Group own, std::int32_t size) noexcept;

// Gives back what the library would miss at MPI_Finalize.
void end_worlds() noexcept;

// Processes of `group`, which is taken, have those ranks in the run; what the map holds is taken as well.
void add_world(MPI_Group group, RankMap& ranks) noexcept;

// Ranks in the run of the members with the given numbers in the group, kUnknownRank for those of worlds that
// are not known. `scratch` is for as many numbers.
bool find_run_ranks(MPI_Group group, std::int32_t count, const std::int32_t* members, std::int32_t* found,
                    std::int32_t* scratch) noexcept;

// The callers that spawned this process's world, in order. False when this is not known.
bool read_own_callers(RankMap& callers) noexcept;

// Numbers for what this process spawns (world_numbers.hpp).
NewWorld make_world(const SpawnCall& call, std::int32_t size) noexcept;

// What the launcher has left for children to be recorded; null: they are not to be.
struct SpawnCommand {
  const char* worlds_directory;
  const char* launcher;
  const char* const* options;  // the last one is incomplete, see wire::kSpawnVariable
  int count;                   // of options
};
const SpawnCommand* spawn_command() noexcept;

}  // namespace clusterprof::mpi_wrap
