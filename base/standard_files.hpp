// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace clusterprof {

// Of descriptors 0, 1 and 2, takes those that are closed, so that no file or socket of ours gets such a
// number and what is meant for the standard files. Reading and writing them fails as before, and programs
// that this one executes find them closed. At the start of main().
inline void take_closed_standard_files() {
  int fd = -1;
  do {
    fd = ::open("/", O_PATH | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

}  // namespace clusterprof
