// SPDX-License-Identifier: BSD-3-Clause
// An open hash table whose entries are removed again, so that a free place does not end a search: all places
// that a block may be at are looked at, up to the last one that any block has had (g_deepest). Addresses are
// in an array of their own: eight of them are a cache line, and most searches end in the first.
#include "agent/lifecycle/kept_blocks.h"

#include "formats/wire/table_place.h"

namespace clusterprof::agent {
namespace {

constinit std::atomic<std::uint32_t> g_deepest = 0;  // number of probes that suffice

using Address = std::atomic<std::uint64_t>;

Address* addresses_of(wire::SegmentHeader* segment) noexcept {
  return reinterpret_cast<Address*>(reinterpret_cast<std::uint8_t*>(segment) +
                                    segment->memory_addresses_offset);
}

wire::MemoryBlock* blocks_of(wire::SegmentHeader* segment) noexcept {
  return reinterpret_cast<wire::MemoryBlock*>(reinterpret_cast<std::uint8_t*>(segment) +
                                              segment->memory_blocks_offset);
}

std::uint64_t key_of(std::uint64_t address) noexcept {
  const std::uint64_t key = (address >> 4) * 0x9e37'79b9'7f4a'7c15ull;
  return key ^ (key >> 32);
}

void note_depth(std::uint32_t probes) noexcept {
  std::uint32_t known = g_deepest.load(std::memory_order_relaxed);
  while (known < probes && !g_deepest.compare_exchange_weak(known, probes, std::memory_order_relaxed)) {
  }
}

void write_block(wire::MemoryBlock& place, const KeptBlock& block) noexcept {
  place = {block.bytes, block.weight, block.time_ns, block.site, 0};
}

KeptBlock read_block(const wire::MemoryBlock& place, std::uint64_t address) noexcept {
  return {address, place.bytes, place.weight, place.time_ns, place.site};
}

}  // namespace

Keeping keep_block(wire::SegmentHeader* segment, const KeptBlock& block, KeptBlock& replaced) noexcept {
  Address* const addresses = addresses_of(segment);
  wire::MemoryBlock* const blocks = blocks_of(segment);
  const std::uint64_t key = key_of(block.address);
  const std::uint32_t places = segment->memory_blocks;
  const std::uint32_t deepest = g_deepest.load(std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < deepest; ++probe) {
    const std::uint32_t place = wire::table_place(key, probe, places);
    std::uint64_t there = addresses[place].load(std::memory_order_acquire);
    if (there != block.address ||
        !addresses[place].compare_exchange_strong(there, wire::kBusyBlock, std::memory_order_acq_rel))
      continue;
    replaced = read_block(blocks[place], block.address);
    write_block(blocks[place], block);
    addresses[place].store(block.address, std::memory_order_release);
    return Keeping::kReplaced;
  }
  for (std::uint32_t probe = 0; probe < wire::kBlockProbes; ++probe) {
    const std::uint32_t place = wire::table_place(key, probe, places);
    std::uint64_t there = addresses[place].load(std::memory_order_relaxed);
    if (there != wire::kNoBlock ||
        !addresses[place].compare_exchange_strong(there, wire::kBusyBlock, std::memory_order_acq_rel))
      continue;
    note_depth(probe + 1);
    write_block(blocks[place], block);
    addresses[place].store(block.address, std::memory_order_release);
    return Keeping::kNew;
  }
  return Keeping::kRefused;
}

bool has_block(wire::SegmentHeader* segment, std::uint64_t address) noexcept {
  if (address <= wire::kBusyBlock) return false;
  const Address* const addresses = addresses_of(segment);
  const std::uint64_t key = key_of(address);
  const std::uint32_t deepest = g_deepest.load(std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < deepest; ++probe)
    if (addresses[wire::table_place(key, probe, segment->memory_blocks)].load(std::memory_order_relaxed) ==
        address)
      return true;
  return false;
}

bool take_block(wire::SegmentHeader* segment, std::uint64_t address, KeptBlock& block) noexcept {
  if (address <= wire::kBusyBlock) return false;
  Address* const addresses = addresses_of(segment);
  const std::uint64_t key = key_of(address);
  const std::uint32_t deepest = g_deepest.load(std::memory_order_relaxed);
  for (std::uint32_t probe = 0; probe < deepest; ++probe) {
    const std::uint32_t place = wire::table_place(key, probe, segment->memory_blocks);
    std::uint64_t there = addresses[place].load(std::memory_order_acquire);
    if (there != address ||
        !addresses[place].compare_exchange_strong(there, wire::kBusyBlock, std::memory_order_acq_rel))
      continue;
    block = read_block(blocks_of(segment)[place], address);
    addresses[place].store(wire::kNoBlock, std::memory_order_release);
    return true;
  }
  return false;
}

void reset_kept_blocks() noexcept { g_deepest.store(0, std::memory_order_relaxed); }

}  // namespace clusterprof::agent
