// SPDX-License-Identifier: BSD-3-Clause
// Lets go of stderr if this process hangs at the end of a job. A batch system reads the job's stderr until
// every process has closed it, so a process that hangs in a file server would keep the whole job from ending.
// Used by the collector and by the merge at the end of a run.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <thread>

namespace clusterprof {

inline std::int64_t clock_value_ns(clockid_t clock) {
  timespec now{};
  (void)clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// Starts a thread that waits until the launcher at the other end of `launcher_fd` has ended and this process
// has used no CPU time for some seconds. Then it redirects stderr to /dev/null. The caller keeps
// `launcher_fd` open.
inline void start_stderr_watchdog(int launcher_fd) {
  if (launcher_fd < 0) return;
  const auto watch = [launcher_fd] {
    constexpr int kIdleSeconds = 5;
    constexpr std::int64_t kBusy_ns = 50'000;  // in a second
    pollfd launcher{launcher_fd, 0, 0};        // reports only that the other end is gone
    while (poll(&launcher, 1, -1) < 0 && errno == EINTR) {
    }
    for (int idle = 0; idle < kIdleSeconds;) {
      const auto used_by_others = [] {
        return clock_value_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_value_ns(CLOCK_THREAD_CPUTIME_ID);
      };
      const std::int64_t before = used_by_others();
      const timespec second{1, 0};
      (void)nanosleep(&second, nullptr);
      idle = used_by_others() - before < kBusy_ns ? idle + 1 : 0;
    }
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    (void)dup2(null, STDERR_FILENO);
    close(null);
  };
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(watch).detach();
  } catch (const std::exception&) {  // no more threads can be made: only the watchdog is lost
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace clusterprof
