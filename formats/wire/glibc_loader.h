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

// Whether the other parts of glibc that our preload objects name are where this loader looks for them. They
// are wherever a distribution's glibc is, but not in every root directory that was put together by hand;
// without them no program starts with our objects. exists(path) is asked a few times.
template <typename Exists>
bool has_glibcs_libraries(const char* loader, Exists exists) noexcept {
  const char* const slash = strrchr(loader, '/');
  for (const char* const library : {"/libdl.so.2", "/libpthread.so.0"}) {
    char path[512];
    const auto is_in = [&](const char* directory, size_t length) {
      if (length + strlen(library) >= sizeof path) return false;
      memcpy(path, directory, length);
      memcpy(path + length, library, strlen(library) + 1);
      return exists(path);
    };
    bool found = false;
    for (const char* const directory : {"/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"})
      if (is_in(directory, strlen(directory))) {
        found = true;
        break;
      }
    if (!found && slash != nullptr) found = is_in(loader, static_cast<size_t>(slash - loader));
    if (!found) return false;
  }
  return true;
}

}  // namespace clusterprof::wire
