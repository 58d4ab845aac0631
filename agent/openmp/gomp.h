// SPDX-License-Identifier: BSD-3-Clause
// What the functions in front of GCC's run time have in common.
#pragma once

#include <cstdint>
#include <type_traits>

#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/openmp.h"
#include "agent/openmp/one_thread.h"
#include "agent/openmp/runtimes.h"

namespace clusterprof::agent {

inline std::uint64_t code_of(const void* caller) noexcept { return reinterpret_cast<std::uintptr_t>(caller); }

// The team that the calling thread works for, if this is how it is recorded. Null: the call is passed on.
[[gnu::always_inline]] inline OmpEntry* recorded_team(const OmpRuntime& runtime, OmpState* state) noexcept {
  OmpEntry* const entry = innermost_team(state);
  return entry == nullptr || runtime.is_llvm || openmp_method() != wire::OmpMethod::kGomp ? nullptr : entry;
}

// Calls the run time's function, if there is one: else there is nothing to wait for.
template <typename Result, typename... Arguments>
[[gnu::always_inline]] inline Result pass_on(const OmpRuntime& runtime, Gomp which,
                                             Arguments... arguments) noexcept {
  auto* const function = runtime.function<Result(Arguments...)>(which);
  if (function != nullptr) [[likely]]
    return function(arguments...);
  return Result();
}

// A call that waits.
template <typename Result, typename... Arguments>
[[gnu::always_inline]] inline Result waiting(const OmpRuntime& runtime, OmpState& state, Gomp which,
                                             wire::OmpConstruct construct, wire::OmpActivity activity,
                                             std::uint64_t code, Arguments... arguments) noexcept {
  begin_wait(state, construct, activity, code);
  if constexpr (std::is_void_v<Result>) {
    pass_on<Result>(runtime, which, arguments...);
    end_wait(state);
  } else {
    const Result result = pass_on<Result>(runtime, which, arguments...);
    end_wait(state);
    return result;
  }
}

}  // namespace clusterprof::agent
