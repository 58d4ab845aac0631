// SPDX-License-Identifier: BSD-3-Clause
// Memory that the collector has in case that the job's limit is reached: given back then, there is room for
// one more checkpoint.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace clusterprof::collector {

class MemoryReserve {
 public:
  static constexpr std::uint64_t kMost = std::uint64_t{64} << 20;

  MemoryReserve() = default;
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;
  ~MemoryReserve() { release(); }

  // Has at least that much, or kMost.
  void hold(std::uint64_t bytes) {
    bytes = std::min(bytes, kMost);
    if (bytes <= bytes_) return;
    release();
    void* const at =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) return;
    at_ = at;
    bytes_ = bytes;
  }
  void release() {
    if (bytes_ != 0) munmap(at_, bytes_);
    bytes_ = 0;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* at_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace clusterprof::collector
