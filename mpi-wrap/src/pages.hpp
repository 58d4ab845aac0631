// SPDX-License-Identifier: BSD-3-Clause
// Memory directly from the kernel. Wrappers run in programs that replace malloc, and some of those call MPI
// in it. For allocations that are rare, large or long-lived.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace clusterprof::mpi_wrap {

// Zeroed; null when there is none. Free with free_pages and the same size.
inline void* allocate_pages(std::size_t bytes) noexcept {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

inline void free_pages(void* pages, std::size_t bytes) noexcept {
  if (pages != nullptr) munmap(pages, bytes);
}

// A pool for objects of one kind. Pages are kept. The caller holds the lock of the structure that the objects
// belong to. Not for signal handlers.
template <typename Object>
class ObjectPool {
 public:
  // Returns an object that is zeroed the first time, and later as it was given back. Null if there is no
  // memory.
  Object* take() noexcept {
    if (free_ == nullptr) {
      auto* const fresh = static_cast<Cell*>(allocate_pages(kPerPages * sizeof(Cell)));
      if (fresh == nullptr) return nullptr;
      for (std::uint32_t i = 0; i < kPerPages; ++i) put(&fresh[i]);
    }
    Cell* const taken = free_;
    free_ = taken->next;
    return &taken->object;
  }
  void give_back(Object* object) noexcept { put(reinterpret_cast<Cell*>(object)); }

 private:
  struct Cell {
    Object object;  // first: both have one address
    Cell* next;
  };
  static_assert(std::is_standard_layout_v<Cell> && std::is_trivially_destructible_v<Object>);
  static constexpr std::uint32_t kPerPages = 64;

  void put(Cell* cell) noexcept {
    cell->next = free_;
    free_ = cell;
  }

  Cell* free_ = nullptr;
};

}  // namespace clusterprof::mpi_wrap
