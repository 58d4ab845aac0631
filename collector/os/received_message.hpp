// SPDX-License-Identifier: BSD-3-Clause
// Receives messages of other processes over Unix sockets (formats/wire/hello.h). Their content is not checked
// here. Any thread may call this.
#pragma once

#include <sys/types.h>

#include "base/command_text.hpp"
#include "base/unique_fd.hpp"

namespace clusterprof::collector {

// A message with at most one descriptor.
struct ReceivedMessage {
  ssize_t bytes = -1;  // length of data; -1: nothing to read now, or an error; 0: end of file
  bool would_block = false;
  bool cut = false;  // an attached file did not fit, or there was no file descriptor left for it
  UniqueFd file;
  alignas(8) char data[64 + kCommandTextBytes];  // a greeting, and a command line behind it
};

// Receives the next message of a socket of type SOCK_SEQPACKET without waiting. Closes descriptors beyond the
// first.
[[nodiscard]] ReceivedMessage receive(int socket);

}  // namespace clusterprof::collector
