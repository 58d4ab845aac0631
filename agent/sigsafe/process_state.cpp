// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/process_state.h"

#include "agent/sigsafe/fork_page.h"

namespace clusterprof::agent {

CLUSTERPROF_WRITTEN_BY_FORKS constinit ProcessState g_process = {};
CLUSTERPROF_WRITTEN_BY_FORKS constinit HandlerState g_handlers = {};

}  // namespace clusterprof::agent
