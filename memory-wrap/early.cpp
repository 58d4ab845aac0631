// SPDX-License-Identifier: BSD-3-Clause
#include "memory-wrap/early.hpp"

namespace clusterprof::memory_wrap {

constinit EarlyBlock g_early_blocks[kMaxEarlyBlocks] = {};

namespace {

alignas(4096) constinit std::byte g_memory[kEarlyBytes] = {};
constinit std::atomic<std::size_t> g_used = 0, g_blocks = 0;

}  // namespace

void* early_allocate(std::size_t bytes, std::size_t alignment) noexcept {
  constexpr std::size_t kLeast = 16;
  if (alignment < kLeast) alignment = kLeast;
  if (bytes > kEarlyBytes || alignment > kEarlyBytes) return nullptr;
  const std::size_t index = g_blocks.fetch_add(1, std::memory_order_relaxed);
  const std::size_t room = bytes + alignment;  // each begins behind all of the one before
  const std::size_t at = g_used.fetch_add(room, std::memory_order_relaxed);
  if (index >= kMaxEarlyBlocks || at > kEarlyBytes || room > kEarlyBytes - at) return nullptr;
  const auto first = reinterpret_cast<std::uintptr_t>(g_memory + at);
  void* const address = reinterpret_cast<void*>((first + alignment - 1) / alignment * alignment);
  g_early_blocks[index].bytes = bytes;
  g_early_blocks[index].address.store(address, std::memory_order_release);
  return address;
}

bool is_early(const void* address) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(g_memory);
  return place >= begin && place < begin + kEarlyBytes;
}

std::size_t early_bytes(const void* address) noexcept {
  for (const EarlyBlock& block : g_early_blocks)
    if (block.address.load(std::memory_order_acquire) == address) return block.bytes;
  return 0;
}

}  // namespace clusterprof::memory_wrap
