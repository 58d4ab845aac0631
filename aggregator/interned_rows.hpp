// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace clusterprof::aggregator {

// A table without duplicates that finds the row with given contents. Hashes and row numbers stand side by
// side in one array; the contents are stored once, in the table.
template <typename Row, typename Equal = std::equal_to<Row>>
class InternedRows {
 public:
  // Returns the row's number, and whether it is new.
  std::pair<std::uint32_t, bool> find_or_add(const Row& row, std::uint64_t hash) {
    if (2 * (rows.size() + 1) > slots_.size()) grow();
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = spread(hash) & mask;; i = (i + 1) & mask) {
      Slot& slot = slots_[i];
      if (slot.row == kFree) {
        slot = {hash, static_cast<std::uint32_t>(rows.size())};
        rows.push_back(row);
        return {slot.row, true};
      }
      if (slot.hash == hash && Equal()(rows[slot.row], row)) return {slot.row, false};
    }
  }

  // Frees what is needed to find rows.
  void end_search() { slots_ = std::vector<Slot>(); }

  std::vector<Row> rows;  // what decides on equality must not be changed

 private:
  static constexpr std::uint32_t kFree = 0xffff'ffffu;
  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t row = kFree;
  };
  static std::size_t spread(std::uint64_t hash) {
    return static_cast<std::size_t>((hash * 0x9e37'79b9'7f4a'7c15ull) >> 20);
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    const std::size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.row == kFree) continue;
      std::size_t i = spread(slot.hash) & mask;
      while (slots_[i].row != kFree) i = (i + 1) & mask;
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
};

}  // namespace clusterprof::aggregator
