// SPDX-License-Identifier: BSD-3-Clause
// Requests for a process that go to a server, which forks: the fork server of Python's multiprocessing. The
// request is a message of one byte, the number of descriptors that come with it
// (multiprocessing.reduction.sendfds), and the first of these is a pipe of the new process' own. Its inode
// tells both sides which request it is.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

namespace clusterprof::agent {

// Before a message is sent. It need not be readable.
void look_for_request_to_send(const msghdr* message) noexcept;
// After one was received, `bytes` long.
void look_for_received_request(const msghdr& message, ssize_t bytes) noexcept;

}  // namespace clusterprof::agent
