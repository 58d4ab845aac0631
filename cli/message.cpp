// SPDX-License-Identifier: BSD-3-Clause
#include "cli/message.hpp"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace clusterprof::cli {

void say(const std::string& text) {
  const std::string line = "clusterprof: " + text + "\n";
  // Nowhere to complain when stderr itself is gone; and where it is a pipe that nobody reads any more, this
  // process, which is to become the program, must not end by that.
  sigset_t pipe, before, pending;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &pipe, &before);
  ::sigpending(&pending);
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  if (written < 0 && errno == EPIPE && ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec now{};
    ::sigtimedwait(&pipe, nullptr, &now);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace clusterprof::cli
