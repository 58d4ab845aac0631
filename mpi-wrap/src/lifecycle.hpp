// SPDX-License-Identifier: BSD-3-Clause
// Start and end of MPI in this process.
#pragma once

#include <cstdint>

namespace clusterprof::mpi_wrap {

struct State {
  bool running;             // between MPI_Init and MPI_Finalize
  bool shared;              // MPI_THREAD_MULTIPLE: several threads may call at a time
  std::int32_t world_rank;  // in the run (worlds.hpp); kUnknownRank without a world
};
extern State state;

// MPI was initialised by a call that was not seen.
void start_if_initialised() noexcept;

}  // namespace clusterprof::mpi_wrap
