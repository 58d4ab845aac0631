// SPDX-License-Identifier: BSD-3-Clause
// For a function that interposes libc's function of the same name. The headers may declare that name
// differently, redirect it or expand it in place, so in our source the function has another name.
#pragma once

#define CLUSTERPROF_STANDS_FOR(result, name, ...)                                                         \
  extern "C" [[gnu::visibility("default"), gnu::used]] result clusterprof_##name(__VA_ARGS__) asm(#name); \
  extern "C" result clusterprof_##name(__VA_ARGS__)

// The function that is interposed (real_function.h).
#define CLUSTERPROF_REAL(name, ...) constinit Real<__VA_ARGS__> g_##name = {#name, nullptr}

#define CLUSTERPROF_CALLER __builtin_return_address(0)

// Removes the parentheses.
#define CLUSTERPROF_UNPACK(...) __VA_ARGS__
