// SPDX-License-Identifier: BSD-3-Clause
// The links in the run directory that give spawned worlds their ranks (formats/wire/spawned_world.h).
// `worlds` is always RUN/.worlds. Any thread of any process of the run.
#pragma once

#include <cstdint>

#include "formats/wire/spawned_world.h"
#include "mpi-wrap/src/rank_map.hpp"

namespace clusterprof::mpi_wrap {

// Identifies a call that spawns. All callers derive the same identification without a message, from their
// communicator and the number of communicators derived from it before.
struct SpawnCall {
  std::uint64_t identity;
  std::uint32_t position;
  const RankMap* callers;  // ranks in the run
};

struct NewWorld {
  int number;  // 0: none
  std::int32_t first;
};

// For the root, before the call: takes the next numbers for `size` processes. own: the number of the root's
// world; if it is 0, the first world has `first_size` processes. Returns no world if the directory cannot be
// written or locked, or does not contain the root's own world.
NewWorld make_world(const char* worlds, int own, std::int32_t first_size, const SpawnCall& call,
                    std::int32_t size) noexcept;

// The call has failed and no process has these numbers. They can be reused, unless later ones were already
// taken.
void withdraw_world(const char* worlds, const SpawnCall& call, const NewWorld& made) noexcept;

// There is no world for this call. A world that was made for an earlier call of the same name is not its
// world either.
void forget_call(const char* worlds, const SpawnCall& call) noexcept;

// For the other callers, after the call.
NewWorld find_world(const char* worlds, const SpawnCall& call) noexcept;

// Reads which ranks spawned that world.
bool read_callers(const char* worlds, int number, RankMap& callers) noexcept;

// Leaves a note for the collector. There is one note for each rank and obstacle.
void note_unrecorded(const char* worlds, std::int32_t rank, wire::SpawnObstacle obstacle) noexcept;

}  // namespace clusterprof::mpi_wrap
