// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/thread_context.h"

#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {

thread_local constinit ThreadContext t_context __attribute__((tls_model("initial-exec"))) = {};

constinit ProcessState g_process = {};
constinit HandlerState g_handlers = {};

}  // namespace clusterprof::agent
