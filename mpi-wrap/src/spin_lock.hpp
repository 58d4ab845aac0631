// SPDX-License-Identifier: BSD-3-Clause
// A lock for the few nanoseconds a table operation takes. Not taken in signal handlers.
#pragma once

#include <atomic>

#include "agent/sigsafe/spin_wait.h"

namespace clusterprof::mpi_wrap {

class SpinLock {
 public:
  void lock() noexcept {
    agent::wait_until([this] { return !held_.exchange(true, std::memory_order_acquire); });
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Takes the lock if `needed`: else only one thread at a time calls MPI (State::shared).
class LockIf {
 public:
  LockIf(SpinLock& lock, bool needed) noexcept : lock_(needed ? &lock : nullptr) {
    if (lock_ != nullptr) lock_->lock();
  }
  ~LockIf() {
    if (lock_ != nullptr) lock_->unlock();
  }
  LockIf(const LockIf&) = delete;
  LockIf& operator=(const LockIf&) = delete;

 private:
  SpinLock* lock_;
};

}  // namespace clusterprof::mpi_wrap
