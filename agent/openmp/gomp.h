// SPDX-License-Identifier: BSD-3-Clause
// What the functions in front of GCC's run time have in common.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/openmp.h"
#include "agent/openmp/one_thread.h"
#include "agent/openmp/runtimes.h"

namespace clusterprof::agent {

inline std::uint64_t code_of(const void* caller) noexcept { return reinterpret_cast<std::uintptr_t>(caller); }

// How a function shares out its loop, as its name says (wire::OmpSchedules); 0: its name does not.
consteval std::uint8_t schedules_named(std::string_view function) {
  const auto has = [&](std::string_view part) { return function.find(part) != std::string_view::npos; };
  if (has("_static")) return wire::kOmpStatic;
  if (has("_dynamic")) return wire::kOmpDynamic;
  if (has("_guided")) return wire::kOmpGuided;
  return has("_runtime") ? std::uint8_t{wire::kOmpRuntime} : std::uint8_t{0};
}
inline constexpr std::array<std::uint8_t, kGompFunctions> kGompSchedules = {
#define CLUSTERPROF_GOMP_SCHEDULES(name) schedules_named(#name),
    CLUSTERPROF_GOMP_FUNCTIONS(CLUSTERPROF_GOMP_SCHEDULES)
        CLUSTERPROF_GOMP_QUESTIONS(CLUSTERPROF_GOMP_SCHEDULES)
#undef CLUSTERPROF_GOMP_SCHEDULES
};
constexpr std::uint8_t schedules_of(Gomp which) noexcept {
  return kGompSchedules[static_cast<std::uint32_t>(which)];
}
// As an argument says it (libgomp's gomp_schedule_type). The highest bit is a modifier of it.
constexpr std::uint8_t schedules_given(long schedule) noexcept {
  switch (schedule & 0x7fff'ffff) {
    case 1:
      return wire::kOmpStatic;
    case 2:
      return wire::kOmpDynamic;
    case 3:
      return wire::kOmpGuided;
    default:
      return wire::kOmpRuntime;  // runtime, and auto, which stands for runtime with a modifier as well
  }
}

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
