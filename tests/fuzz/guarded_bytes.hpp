// SPDX-License-Identifier: BSD-3-Clause
// Memory with nothing before and behind it: with any compiler, whoever reads outside it crashes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

namespace clusterprof::fuzz {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t most) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    bytes_ = (most + page_ - 1) / page_ * page_;
    void* const mapped = mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    base_ = static_cast<std::uint8_t*>(mapped) + page_;
    if (mprotect(base_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  ~GuardedBytes() { munmap(base_ - page_, bytes_ + 2 * page_); }

  // A copy, of what does not fit the beginning, right before or right behind what cannot be read. Until the
  // next call.
  std::span<std::uint8_t> hold(std::span<const std::uint8_t> content, bool at_the_end) {
    content = content.first(std::min(content.size(), bytes_));
    std::uint8_t* const to = at_the_end ? base_ + bytes_ - content.size() : base_;
    if (!content.empty()) std::memcpy(to, content.data(), content.size());
    return {to, content.size()};
  }

 private:
  std::size_t page_, bytes_ = 0;
  std::uint8_t* base_ = nullptr;
};

}  // namespace clusterprof::fuzz
