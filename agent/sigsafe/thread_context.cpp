// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/thread_context.h"

namespace clusterprof::agent {

thread_local constinit ThreadContext t_context __attribute__((tls_model("initial-exec"))) = {};

}  // namespace clusterprof::agent
