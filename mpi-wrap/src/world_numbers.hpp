// SPDX-License-Identifier: BSD-3-Clause
// The links in the run directory by which spawned worlds get their ranks (formats/wire/spawned_world.h).
// `worlds` is RUN/.worlds throughout. Any thread of any process of the run.
#pragma once

#include <cstdint>

#include "formats/wire/spawned_world.h"
#include "mpi-wrap/src/rank_map.hpp"

namespace clusterprof::mpi_wrap {

// A call that spawns, as its callers name it without a message: their communicator, and how many were derived
// from it before.
struct SpawnCall {
  std::uint64_t identity;
  std::uint32_t position;
  const RankMap* callers;  // ranks in the run
};

struct NewWorld {
  int number;  // 0: none
  std::int32_t first;
};

// For the root, before the call: the next numbers, for `size` processes. own: the number of its world; where
// that is 0, the first world has `first_size` processes. None when the directory cannot be written or locked,
// or does not know the root's own world.
NewWorld make_world(const char* worlds, int own, std::int32_t first_size, const SpawnCall& call,
                    std::int32_t size) noexcept;

// The call has failed: nobody bears these numbers. They are given to others, unless later ones are already.
void withdraw_world(const char* worlds, const SpawnCall& call, const NewWorld& made) noexcept;

// There is no world for this call, nor is one that was made for an earlier call of the same name.
void forget_call(const char* worlds, const SpawnCall& call) noexcept;

// For the other callers, after the call.
NewWorld find_world(const char* worlds, const SpawnCall& call) noexcept;

// Who spawned that world.
bool read_callers(const char* worlds, int number, RankMap& callers) noexcept;

// For the collector. One note is kept for each rank and obstacle.
void note_unrecorded(const char* worlds, std::int32_t rank, wire::SpawnObstacle obstacle) noexcept;

}  // namespace clusterprof::mpi_wrap
