// SPDX-License-Identifier: BSD-3-Clause
// Recognises loaded objects by their file names.
#pragma once

#include <string.h>

#include <initializer_list>

namespace clusterprof::mpi_wrap {

inline const char* base_name(const char* path) noexcept {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

inline bool starts_with(const char* text, const char* prefix) noexcept {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// True for our wrapper object of any MPI: several may be loaded, and then each is the next definition for the
// one before it.
inline bool is_wrapper_object(const char* path) noexcept {
  return starts_with(base_name(path), "libclusterprof_mpi_");
}

inline bool is_mpi_library(const char* path) noexcept {
  const char* name = base_name(path);
  for (const char* prefix : {"libmpi.", "libmpi_", "libmpich", "libpmpi", "libmpifort.", "libmpicxx."}) {
    if (starts_with(name, prefix)) return true;
  }
  return false;
}

}  // namespace clusterprof::mpi_wrap
