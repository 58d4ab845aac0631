// SPDX-License-Identifier: BSD-3-Clause
// Messages of other processes over Unix sockets (formats/wire/hello.h), as they arrive: nothing in them is
// believed yet. Any thread.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.hpp"

namespace clusterprof::collector {

// A message with at most one descriptor.
struct ReceivedMessage {
  ssize_t bytes = -1;  // of data; -1: nothing to read now, or broken; 0: end of file
  bool would_block = false;
  bool cut = false;  // something that came with it did not fit, or there was no file left for it
  UniqueFd file;
  alignas(8) char data[256];
};

// The next message of a socket of type SOCK_SEQPACKET. Does not wait. Descriptors beyond the first are
// closed.
[[nodiscard]] ReceivedMessage receive(int socket);

}  // namespace clusterprof::collector
