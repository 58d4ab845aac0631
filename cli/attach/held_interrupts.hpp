// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace clusterprof::cli::attach {

// While one lives, interrupts wait until they are taken: none is lost between a look and a wait. Those that
// are ignored (nohup) still are.
class HeldInterrupts {
 public:
  HeldInterrupts() {
    sigset_t held;
    sigemptyset(&held);
    struct sigaction action {};
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
        sigaddset(&held, signal);
    ::sigprocmask(SIG_BLOCK, &held, &before_);
    descriptor_.reset(::signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
  ~HeldInterrupts() { release(); }

  void release() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // Readable while one waits; below 0: there is none.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  bool take() {
    signalfd_siginfo taken{};
    return ::read(descriptor_.get(), &taken, sizeof taken) == sizeof taken;
  }

 private:
  sigset_t before_{};
  UniqueFd descriptor_;
};

}  // namespace clusterprof::cli::attach
