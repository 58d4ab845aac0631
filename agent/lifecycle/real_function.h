// SPDX-License-Identifier: BSD-3-Clause
// The function that one of ours interposes.
#pragma once

#include <errno.h>

#include <atomic>

#include "agent/lifecycle/next_function.h"

namespace clusterprof::agent {

// Looked up at the first call, since interposed functions may be called before our constructor. Null if no
// other object defines the function.
template <typename Function>
Function real_function(std::atomic<Function>& cached, const char* name) noexcept {
  Function function = cached.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function>(next_function(name));
    cached.store(function, std::memory_order_relaxed);
  }
  return function;
}

// For a function that reports failure by -1 and errno.
template <typename Function>
struct Real {
  const char* name;
  std::atomic<Function*> cached;

  Function* find() noexcept { return real_function(cached, name); }

  template <typename... Arguments>
  [[gnu::always_inline]] auto operator()(Arguments... arguments) -> decltype((*find())(arguments...)) {
    Function* const function = find();
    if (function != nullptr) return function(arguments...);
    errno = ENOSYS;
    return -1;
  }
};

}  // namespace clusterprof::agent
