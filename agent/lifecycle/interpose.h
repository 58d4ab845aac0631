// SPDX-License-Identifier: BSD-3-Clause
// A function that stands in front of libc's of that name, which the headers may declare otherwise, redirect
// or expand in place: in here it has another one.
#pragma once

#define CLUSTERPROF_STANDS_FOR(result, name, ...)                                                         \
  extern "C" [[gnu::visibility("default"), gnu::used]] result clusterprof_##name(__VA_ARGS__) asm(#name); \
  extern "C" result clusterprof_##name(__VA_ARGS__)

// The one that it stands in front of (real_function.h).
#define CLUSTERPROF_REAL(name, ...) constinit Real<__VA_ARGS__> g_##name = {#name, nullptr}

#define CLUSTERPROF_CALLER __builtin_return_address(0)

// Without the parentheses.
#define CLUSTERPROF_UNPACK(...) __VA_ARGS__
