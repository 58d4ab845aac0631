// SPDX-License-Identifier: BSD-3-Clause
// Keeps pthread_cancel from interrupting our code.
#pragma once

#include <pthread.h>

namespace clusterprof::agent {

// While an object lives, pthread_cancel waits: otherwise it could end our code half-way, with locks held.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // With asynchronous cancellation the thread may end here.
  ~CancellationOff() noexcept(false) {
    if (before_ == PTHREAD_CANCEL_ENABLE) pthread_setcancelstate(before_, nullptr);
  }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DISABLE;
};

}  // namespace clusterprof::agent
