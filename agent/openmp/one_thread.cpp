// SPDX-License-Identifier: BSD-3-Clause
#include "agent/openmp/one_thread.h"

namespace clusterprof::agent {

thread_local constinit OneThread t_one_thread = {};

}  // namespace clusterprof::agent
