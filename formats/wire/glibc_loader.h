// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string.h>

#include <initializer_list>

namespace clusterprof::wire {

// Whether this interpreter of a program (PT_INTERP) is glibc's dynamic loader, by its name. Our preload
// objects need glibc: musl's loader, ld-musl-x86_64.so.1, ends a program that it is told to load them with.
inline bool is_glibc_loader(const char* path) noexcept {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  for (const char* const begin : {"ld-linux", "ld-lsb", "ld-2.", "ld.so"}) {
    if (strncmp(name, begin, strlen(begin)) == 0) return true;
  }
  return false;
}

}  // namespace clusterprof::wire
