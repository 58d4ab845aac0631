// SPDX-License-Identifier: BSD-3-Clause
// The function that one of ours stands in front of.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace clusterprof::agent {

// Looked up at the first call: interposed functions may be called before our constructor. Null when
// nothing else defines it.
template <typename Function>
Function real_function(std::atomic<Function>& cached, const char* name) noexcept {
  Function function = cached.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
    cached.store(function, std::memory_order_relaxed);
  }
  return function;
}

}  // namespace clusterprof::agent
