// SPDX-License-Identifier: BSD-3-Clause
// Finds a library among the objects that are loaded already.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <cstddef>

namespace clusterprof::mpi_wrap {

struct NthObject {
  std::size_t wanted, seen;
  bool found;
  char path[4096];
};

inline int copy_nth(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto* nth = static_cast<NthObject*>(argument);
  if (nth->seen++ != nth->wanted) return 0;
  nth->found = true;
  const std::size_t length = strlen(info->dlpi_name);
  nth->path[0] = '\0';
  if (length < sizeof nth->path) memcpy(nth->path, info->dlpi_name, length + 1);
  return 1;
}

// A handle of the first object for which is_candidate(path) and has_it(handle) hold; null: there is none. The
// program itself has an empty path, and its handle searches everything. dlopen must not be called inside
// dl_iterate_phdr, since it takes the loader's locks in the opposite order. So there is one iteration per
// object: do this once per process.
template <typename IsCandidate, typename HasIt>
void* find_loaded_object(const IsCandidate& is_candidate, const HasIt& has_it) noexcept {
  NthObject nth{};
  for (std::size_t i = 0;; ++i) {
    nth.wanted = i;
    nth.seen = 0;
    nth.found = false;
    dl_iterate_phdr(copy_nth, &nth);
    if (!nth.found) return nullptr;
    if (!is_candidate(static_cast<const char*>(nth.path))) continue;
    void* const handle = dlopen(nth.path[0] == '\0' ? nullptr : nth.path, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == nullptr) continue;
    if (has_it(handle)) return handle;
    dlclose(handle);
  }
}

}  // namespace clusterprof::mpi_wrap
