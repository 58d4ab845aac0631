// SPDX-License-Identifier: BSD-3-Clause
// What all wrappers share: the agent, and how far MPI has got in this process.
#pragma once

#include <cstdint>

#include "agent/agent_api.h"

namespace clusterprof::mpi_wrap {

// Set before any wrapper can run.
extern const clusterprof_agent_api* agent;

struct State {
  bool running;             // between MPI_Init, or the first session, and the end
  bool shared;              // several threads may call at a time: MPI_THREAD_MULTIPLE, or sessions
  std::int32_t world_rank;  // in the run (worlds.hpp); kUnknownRank without a world
  // `clusterprof attach` has loaded this object into a process that runs. Numbers of operations do not agree
  // with those of other ranks.
  bool attached = false;
};
extern State state;

}  // namespace clusterprof::mpi_wrap
