// SPDX-License-Identifier: BSD-3-Clause
// System calls without libc: errno stays as it is, and no symbol is needed. x86-64.
// Async-signal-safe. Results below 0 are -errno.
#pragma once

#include <cstdint>
#ifdef __clang_analyzer__
#include <unistd.h>
#endif

namespace clusterprof::agent {

template <typename... Arguments>
inline long raw_syscall(long number, Arguments... arguments) noexcept {
  static_assert(sizeof...(Arguments) <= 6);
#ifdef __clang_analyzer__  // which cannot know what the instruction writes
  return ::syscall(number, arguments...);
#else
  const long values[7] = {(long)arguments..., 0};  // pointers and integers alike
  long result;
  if constexpr (sizeof...(Arguments) <= 3) {
    const long first = sizeof...(Arguments) > 0 ? values[0] : 0;
    const long second = sizeof...(Arguments) > 1 ? values[1] : 0;
    const long third = sizeof...(Arguments) > 2 ? values[2] : 0;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(first), "S"(second), "d"(third)
                 : "rcx", "r11", "memory");
  } else {
    register long fourth asm("r10") = values[3];
    register long fifth asm("r8") = sizeof...(Arguments) > 4 ? values[4] : 0;
    register long sixth asm("r9") = sizeof...(Arguments) > 5 ? values[5] : 0;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(fourth), "r"(fifth),
                   "r"(sixth)
                 : "rcx", "r11", "memory");
  }
  return result;
#endif
}

}  // namespace clusterprof::agent
