// SPDX-License-Identifier: BSD-3-Clause
// Memory for those who allocate while the functions behind the interposed ones are being looked up: the
// loader itself. It is never given back.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace clusterprof::memory_wrap {

inline constexpr std::size_t kEarlyBytes = 256 * 1024, kMaxEarlyBlocks = 1024;

// Zeroed. Null: there is no more.
void* early_allocate(std::size_t bytes, std::size_t alignment) noexcept;

bool is_early(const void* address) noexcept;
std::size_t early_bytes(const void* address) noexcept;  // of such a block

struct EarlyBlock {
  std::atomic<void*> address;
  std::size_t bytes;
};
extern EarlyBlock g_early_blocks[kMaxEarlyBlocks];

// Calls use(address) for all of these blocks.
template <typename Use>
void for_each_early(Use use) noexcept {
  for (EarlyBlock& block : g_early_blocks)
    if (void* const address = block.address.load(std::memory_order_acquire); address != nullptr) use(address);
}

}  // namespace clusterprof::memory_wrap
