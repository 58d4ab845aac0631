// SPDX-License-Identifier: BSD-3-Clause
// Sees when objects are unloaded.
#include "agent/lifecycle/interpose.h"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/plugin_functions.hpp"

using namespace clusterprof::memory_wrap;

// What is loaded next may be in the place of what was unloaded. Until then, calls go where they went: the
// object's own destructors may make them, and other threads that these wait for.
CLUSTERPROF_STANDS_FOR(int, dlclose, void* handle) {
  auto* const next = have_functions() ? g_functions.dlclose.load(std::memory_order_relaxed) : nullptr;
  if (next == nullptr) return -1;
  const int result = next(handle);
  forget_plugin_functions();
  return result;
}
