// SPDX-License-Identifier: BSD-3-Clause
// The matrix tables: those that grow with ranks times call paths. At 65,536 ranks they do not fit into
// memory, so they are read, merged and analysed a node and a rank at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// A ShardData without rows in the matrix tables and in mpi_events and event_gaps is called a head.

// One rank's rows. `rank` of every row is `rank`; spans live as long as the call they are handed to.
struct RankRows {
  std::uint32_t rank = 0;                      // row of the head's ranks
  std::span<const Value> values;               // by path, category, the main thread's first
  std::span<const PathCounter> path_counters;  // by path, counter
  std::span<const DataAccess> data_accesses;   // by path
};

// The union of rows that mean the same: of one rank and path, and alike in what else tells rows apart.
// Commutative and associative.
inline void unite(Value& into, const Value& row) {
  into.wall_ns += row.wall_ns;
  into.cpu_ns += row.cpu_ns;
  into.samples += row.samples;
}
inline void unite(PathCounter& into, const PathCounter& row) { into.value += row.value; }
inline void unite(DataAccess& into, const DataAccess& row) {
  into.samples += row.samples;
  into.accesses += row.accesses;
  for (std::size_t i = 0; i < into.blocks.size(); ++i) into.blocks[i] |= row.blocks[i];
}

// Rows of several ranks in the matrix tables. The order is said where it is used.
struct MatrixRows {
  std::vector<Value> values;
  std::vector<PathCounter> path_counters;
  std::vector<DataAccess> data_accesses;
  friend bool operator==(const MatrixRows&, const MatrixRows&) = default;
};

// Whatever can hand out the matrix rows of all ranks: data in memory, a file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Calls `use` once per rank that has rows, in an order of its own. Throws h5::H5Error when they cannot be
  // read. May be called again.
  virtual void for_each_rank(const std::function<void(const RankRows&)>& use) const = 0;
};

// The rows in a ShardData, which must outlive it. Order of its tables does not matter.
class InMemoryRows final : public RowSource {
 public:
  explicit InMemoryRows(const ShardData& data) : data_(data) {}
  void for_each_rank(const std::function<void(const RankRows&)>& use) const override;

 private:
  const ShardData& data_;
};

// Hands out rows that are sorted as RankRows wants them, rank by rank.
void for_each_rank_of_sorted(const MatrixRows& rows, const std::function<void(const RankRows&)>& use);
// Sorts them before.
void for_each_rank_of(MatrixRows rows, const std::function<void(const RankRows&)>& use);

}  // namespace clusterprof::shard
