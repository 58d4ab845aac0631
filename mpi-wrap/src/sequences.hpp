// SPDX-License-Identifier: BSD-3-Clause
// Counts the messages of one communicator by (peer, tag, direction). Open addressing; grows up to a limit,
// since programs may give each message its own tag; never shrinks. Zeroed memory is an empty table. Not
// synchronised.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi-wrap/src/pages.hpp"

namespace clusterprof::mpi_wrap {

enum class Direction : std::uint32_t { kSent = 0, kReceived = 1 };

class SequenceTable {
 public:
  // The number of the next message, 0 for a key not seen before; null if there is no room for it. Valid until
  // the next call. peer: world rank, not negative; tag: any but -1.
  std::uint32_t* next(std::int32_t peer, std::int32_t tag, Direction direction) noexcept {
    const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 33 |
                               static_cast<std::uint64_t>(static_cast<std::uint32_t>(tag)) << 1 |
                               static_cast<std::uint64_t>(direction)) +
                              1;
    Slot* found = find(key);
    if (found->key == key) return &found->next;
    if ((used_ + 1) * 2 > capacity()) {
      if (used_ >= kMost || !grow()) return nullptr;
      found = find(key);
    }
    ++used_;
    found->key = key;
    found->next = 0;
    return &found->next;
  }

  // Empty again.
  void clear() noexcept {
    if (large_ != nullptr) free_pages(large_, capacity() * sizeof(Slot));
    *this = {};
  }

  std::uint32_t size() const noexcept { return used_; }

  // Stored in place of a number: the number of the next message is no longer known.
  static constexpr std::uint32_t kLost = 0xffff'ffffu;

  static constexpr std::uint32_t kMost = 1u << 19;  // different ones, in 16 MiB

 private:
  struct Slot {
    std::uint64_t key;  // 0: free
    std::uint32_t next, reserved;
  };
  static constexpr std::uint32_t kFewBits = 4, kLargeBits = 8;

  std::uint32_t bits() const noexcept { return large_ == nullptr ? kFewBits : large_bits_; }
  std::uint32_t capacity() const noexcept { return 1u << bits(); }
  Slot* slots() noexcept { return large_ == nullptr ? few_ : large_; }

  // The key's slot, or the free slot where it belongs.
  Slot* find(std::uint64_t key) noexcept {
    Slot* const all = slots();
    const std::uint32_t mask = capacity() - 1;
    auto i = static_cast<std::uint32_t>(key * 0x9e37'79b9'7f4a'7c15ull >> (64 - bits()));
    while (all[i].key != key && all[i].key != 0) i = (i + 1) & mask;
    return &all[i];
  }

  bool grow() noexcept {
    const std::uint32_t old_capacity = capacity(), bits = large_ == nullptr ? kLargeBits : large_bits_ + 1;
    auto* fresh = static_cast<Slot*>(allocate_pages(sizeof(Slot) << bits));
    if (fresh == nullptr) return false;
    Slot* const old = slots();
    Slot* const old_pages = large_;
    large_ = fresh;
    large_bits_ = bits;
    for (std::uint32_t i = 0; i < old_capacity; ++i) {
      if (old[i].key != 0) *find(old[i].key) = old[i];
    }
    if (old_pages != nullptr) free_pages(old_pages, old_capacity * sizeof(Slot));
    return true;
  }

  Slot few_[1u << kFewBits];  // most communicators have few partners and tags
  Slot* large_;
  std::uint32_t large_bits_, used_;
};

}  // namespace clusterprof::mpi_wrap
