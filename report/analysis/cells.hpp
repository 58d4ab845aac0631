// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::report {

// Numbers the pairs of call path and category that have time, in the order in which they are met. Nearly all
// paths have time in one category, so a table by these numbers is a sixth of one that has room for every
// category of every path. Runs of many ranks can have millions of paths.
class Cells {
 public:
  struct Cell {
    std::uint32_t path = 0;
    shard::Category category = shard::Category::kNative;
  };

  explicit Cells(std::size_t paths) : first_(paths, shard::kNone) {}

  // kNone: the path has no time in this category.
  [[nodiscard]] std::uint32_t find(std::uint32_t path, shard::Category category) const {
    std::uint32_t at = path < first_.size() ? first_[path] : shard::kNone;
    while (at != shard::kNone && cells_[at].category != category) at = next_[at];
    return at;
  }
  // The path must be one of those that there are.
  std::uint32_t find_or_add(std::uint32_t path, shard::Category category) {
    std::uint32_t* at = &first_[path];
    while (*at != shard::kNone) {
      if (cells_[*at].category == category) return *at;
      at = &next_[*at];
    }
    const auto added = static_cast<std::uint32_t>(cells_.size());
    *at = added;  // before the vector that it may lie in grows
    cells_.push_back({path, category});
    next_.push_back(shard::kNone);
    return added;
  }
  [[nodiscard]] std::size_t size() const { return cells_.size(); }
  [[nodiscard]] const Cell& operator[](std::size_t cell) const { return cells_[cell]; }

 private:
  std::vector<std::uint32_t> first_;  // by path
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> next_;  // by cell: another one of the same path
};

// Makes room in a table that grows with the number of cells. A vector alone would double.
template <typename Row>
void grow(std::vector<Row>& rows, std::size_t size) {
  if (size <= rows.size()) return;
  if (size > rows.capacity()) rows.reserve(std::max(size, rows.capacity() + rows.capacity() / 4));
  rows.resize(size);
}

}  // namespace clusterprof::report
