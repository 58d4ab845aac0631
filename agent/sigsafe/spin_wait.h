// SPDX-License-Identifier: BSD-3-Clause
// Waiting for a lock, or for a word that another thread is about to write. Outside the handler, which never
// waits.
#pragma once

#include <sys/syscall.h>
#include <time.h>

#include <cstdint>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {

// Most locks are held for a few nanoseconds. A thread that waits for longer sleeps: the other one may have a
// lower priority, and on one processor a real-time thread that only yields never lets it run. No cancellation
// point, and errno stays as it is.
template <typename Attempt>
[[gnu::cold, gnu::noinline]] void wait_and_attempt(Attempt attempt) noexcept {
  constexpr std::uint32_t kPauses = 100, kYields = 200;
  constexpr timespec kMoment = {0, 50'000};
  for (std::uint32_t tries = 0;; ++tries) {
    if (tries < kPauses) {
      __builtin_ia32_pause();
    } else if (tries < kPauses + kYields) {
      raw_syscall(SYS_sched_yield);
    } else {
      tries = kPauses + kYields;
      raw_syscall(SYS_nanosleep, &kMoment, nullptr);
    }
    if (attempt()) return;
  }
}

// Returns once `attempt` has returned true.
template <typename Attempt>
[[gnu::always_inline]] inline void wait_until(Attempt attempt) noexcept {
  if (!attempt()) [[unlikely]]
    wait_and_attempt(attempt);
}

}  // namespace clusterprof::agent
