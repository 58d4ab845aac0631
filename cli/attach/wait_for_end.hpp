// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <functional>

namespace clusterprof::cli::attach {

// Waits until this child, the collector, has let the processes go and ended. An interrupt (SIGINT, SIGTERM,
// SIGHUP), also one that waits already, makes it call `ask`, which asks for that early, once a second until
// it has succeeded: in a child, because a file server may not answer. False: a further interrupt has ended
// the waiting.
bool wait_for_end(pid_t collector, const std::function<bool()>& ask);

}  // namespace clusterprof::cli::attach
