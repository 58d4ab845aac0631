// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/wait_for_end.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <optional>

#include "cli/attach/held_interrupts.hpp"

namespace clusterprof::cli::attach {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLookMs = 20;
constexpr std::chrono::seconds kAskAgain{1};
// Both srun and slurmd may pass on the same interrupt.
constexpr std::chrono::seconds kSameInterrupt{1};

pid_t ask_in_child(const std::function<bool()>& ask) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    ::_exit(ask() ? 0 : 1);
  } catch (...) {
    ::_exit(1);
  }
}

}  // namespace

bool wait_for_end(pid_t collector, const std::function<bool()>& ask) {
  HeldInterrupts interrupts;
  if (interrupts.descriptor() < 0) interrupts.release();  // they end us
  std::optional<Clock::time_point> interrupted;
  Clock::time_point next_time = Clock::now();
  pid_t asking = -1;
  bool has_asked = false;
  for (;;) {
    const pid_t ended = ::waitpid(collector, nullptr, WNOHANG);
    if (ended == collector || (ended < 0 && errno != EINTR)) return true;
    const Clock::time_point now = Clock::now();
    if (interrupts.take()) {
      if (interrupted && now - *interrupted > kSameInterrupt) return false;
      if (!interrupted) interrupted = now;
    }
    int status = 0;
    if (asking > 0 && ::waitpid(asking, &status, WNOHANG) == asking) {
      asking = -1;
      has_asked = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (interrupted && asking < 0 && !has_asked && now >= next_time) {
      asking = ask_in_child(ask);
      next_time = now + kAskAgain;
    }
    pollfd wait{interrupts.descriptor(), POLLIN, 0};
    (void)::poll(&wait, 1, kLookMs);
  }
}

}  // namespace clusterprof::cli::attach
