// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator {

// Finds rows of a table of call paths by their ids. Half of an id's hash stands beside the row's number, so a
// lookup rarely reads a row of the table that is not the one it looks for. 11 to 21 bytes per path.
class PathIndex {
 public:
  explicit PathIndex(std::span<const shard::Path> paths)  // must outlive it; ids are unique
      : paths_(paths), slots_(std::bit_ceil(paths.size() + paths.size() / 3 + 1)) {
    for (std::uint32_t row = 0; row < paths.size(); ++row) {
      std::size_t at = begin_of(paths[row].id);
      while (slots_[at].row != shard::kNone) at = after(at);
      slots_[at] = {tag_of(paths[row].id), row};
    }
  }

  // kNone: there is none.
  [[nodiscard]] std::uint32_t find(const shard::PathId& id) const {
    for (std::size_t at = begin_of(id);; at = after(at)) {
      const Slot& slot = slots_[at];
      if (slot.row == shard::kNone || (slot.tag == tag_of(id) && paths_[slot.row].id == id)) return slot.row;
    }
  }

  // The rows of many ids. Reads slots ahead, since waiting for memory is most of a lookup.
  [[nodiscard]] std::vector<std::uint32_t> find(std::span<const shard::PathId> ids) const {
    constexpr std::size_t kAhead = 8;
    std::vector<std::uint32_t> rows;
    rows.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i + kAhead < ids.size()) __builtin_prefetch(&slots_[begin_of(ids[i + kAhead])]);
      rows.push_back(find(ids[i]));
    }
    return rows;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0, row = shard::kNone;
  };
  static std::uint32_t tag_of(const shard::PathId& id) { return static_cast<std::uint32_t>(id.low >> 32); }
  [[nodiscard]] std::size_t begin_of(const shard::PathId& id) const { return id.low & (slots_.size() - 1); }
  [[nodiscard]] std::size_t after(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  std::span<const shard::Path> paths_;
  std::vector<Slot> slots_;  // a power of two of them, at least a quarter free
};

}  // namespace clusterprof::aggregator
