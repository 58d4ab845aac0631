// SPDX-License-Identifier: BSD-3-Clause
// Memory straight from the kernel: wrappers run below programs that replace malloc, and some of
// those call MPI. For rare, large or long-lived things.
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

// Objects of one kind that come and go; their pages are kept. Whoever uses it holds the lock of what the
// objects belong to. Not in signal handlers.
template <typename Object>
class ObjectPool {
 public:
  // Zeroed the first time, then as it was given back; null when there is no memory.
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
