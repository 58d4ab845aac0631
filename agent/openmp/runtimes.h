// SPDX-License-Identifier: BSD-3-Clause
// The OpenMP run times in the process that have GCC's functions. There may be several, since Python's wheels
// bring copies of libgomp, and LLVM's libomp has these functions, too. Each has its own threads: a call has
// to go to the one that the caller would have reached without us.
#pragma once

#include <cstdint>

#include "agent/lifecycle/openmp.h"
#include "agent/openmp/gomp_functions.h"

namespace clusterprof::agent {

struct OmpRuntime {
  OmpRuntime* next;
  const void* base;  // where it is loaded
  bool is_llvm;      // it has an interface for tools, through which it is recorded
  char name[64];     // of its file
  void* functions[kGompFunctions];

  template <typename Function>
  Function* function(Gomp which) const noexcept {
    return reinterpret_cast<Function*>(functions[static_cast<std::uint32_t>(which)]);
  }
};

// Of the code that `caller` is in.
OmpRuntime& search_runtime(std::uintptr_t caller) noexcept;
[[gnu::always_inline]] inline OmpRuntime& runtime_of(const void* caller) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  const OmpState* const state = openmp_state();
  if (state != nullptr && address >= state->callers[0].begin && address < state->callers[0].end) [[likely]]
    return *static_cast<OmpRuntime*>(state->callers[0].runtime);
  return search_runtime(address);
}

}  // namespace clusterprof::agent
