// SPDX-License-Identifier: BSD-3-Clause
// System calls without libc. Results below zero are -errno.
#pragma once

#include <sys/syscall.h>
#ifdef __clang_analyzer__
#include <unistd.h>
#endif

namespace clusterprof::start {

inline long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                        long f = 0) noexcept {
#if defined(__clang_analyzer__)  // which cannot know what the instruction writes
  return ::syscall(number, a, b, c, d, e, f);
#elif defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "no system calls for this processor"
#endif
}

template <typename T>
long as_word(T* pointer) noexcept {
  return reinterpret_cast<long>(pointer);
}

}  // namespace clusterprof::start
