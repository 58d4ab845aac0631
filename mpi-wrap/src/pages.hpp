// SPDX-License-Identifier: BSD-3-Clause
// Memory straight from the kernel: wrappers run below programs that replace malloc, and some of
// those call MPI. For rare, large or long-lived things.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace clusterprof::mpi_wrap {

// Zeroed; null when there is none. Free with free_pages and the same size.
inline void* allocate_pages(std::size_t bytes) noexcept {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

inline void free_pages(void* pages, std::size_t bytes) noexcept {
  if (pages != nullptr) munmap(pages, bytes);
}

}  // namespace clusterprof::mpi_wrap
