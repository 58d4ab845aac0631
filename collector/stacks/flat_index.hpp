// SPDX-License-Identifier: BSD-3-Clause
// A hash table from 64-bit keys to 32-bit values in one block of memory, for lookups that every sample needs.
// Single entries cannot be removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace clusterprof::collector {

// Finaliser of SplitMix64.
inline std::uint64_t mix(std::uint64_t value) noexcept {
  value ^= value >> 30;
  value *= 0xbf58'476d'1ce4'e5b9ull;
  value ^= value >> 27;
  value *= 0x94d0'49bb'1331'11ebull;
  return value ^ (value >> 31);
}

class FlatIndex {
 public:
  static constexpr std::uint32_t kAbsent = 0xffff'ffffu;  // not a value

  [[nodiscard]] std::uint32_t find(std::uint64_t key) const noexcept {
    if (entries_.empty()) return kAbsent;
    for (std::size_t at = mix(key) & mask();; at = (at + 1) & mask()) {
      const Entry& entry = entries_[at];
      if (entry.value == kAbsent || entry.key == key) return entry.value;
    }
  }
  // The key must be absent.
  void insert(std::uint64_t key, std::uint32_t value) {
    if (2 * (size_ + 1) > entries_.size()) grow();
    place(key, value);
    ++size_;
  }
  void clear() noexcept {
    entries_.clear();
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t value = kAbsent;
  };
  [[nodiscard]] std::size_t mask() const noexcept { return entries_.size() - 1; }
  void place(std::uint64_t key, std::uint32_t value) noexcept {
    std::size_t at = mix(key) & mask();
    while (entries_[at].value != kAbsent) at = (at + 1) & mask();
    entries_[at] = {key, value};
  }
  void grow() {
    std::vector<Entry> old(entries_.empty() ? 64 : 2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.value != kAbsent) place(entry.key, entry.value);
  }

  std::vector<Entry> entries_;  // a power of two of them, at most half in use
  std::size_t size_ = 0;
};

}  // namespace clusterprof::collector
