// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

constinit ProcessState g_process = {};
constinit HandlerState g_handlers = {};

}  // namespace clusterprof::agent
