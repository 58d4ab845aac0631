// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/state.hpp"

#include "mpi-wrap/src/rank_map.hpp"

namespace clusterprof::mpi_wrap {

const clusterprof_agent_api* agent;
State state{false, false, kUnknownRank};

}  // namespace clusterprof::mpi_wrap
