// SPDX-License-Identifier: BSD-3-Clause
// The matrix tables: values, path_counters and data_accesses, which grow with ranks times call paths. At
// 65,536 ranks they do not fit into memory, so they are read, merged and analysed one node and one rank at a
// time.
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

// A ShardData without rows in the matrix tables, mpi_events and event_gaps is called a head.

// The rows of one rank. They are valid only during the call that they are passed to.
struct RankRows {
  std::uint32_t rank = 0;                      // row of table ranks in the head; also that of every row
  std::span<const Value> values;               // by path, category, the main thread's first
  std::span<const PathCounter> path_counters;  // by path, counter
  std::span<const DataAccess> data_accesses;   // by path
};

// Adds a row to another one of the same rank and path, and the same category, thread or counter. The order of
// additions does not matter.
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
inline void unite(MemorySite& into, const MemorySite& row) {
  into.alloc_bytes += row.alloc_bytes;
  into.alloc_count += row.alloc_count;
  into.variance += row.variance;
  into.soon_bytes += row.soon_bytes;
  into.soon_count += row.soon_count;
  into.copy_bytes += row.copy_bytes;
  into.copy_count += row.copy_count;
  into.live_end_bytes += row.live_end_bytes;
  into.rank_peak_bytes += row.rank_peak_bytes;
  into.node_peak_bytes += row.node_peak_bytes;
  for (std::size_t i = 0; i < MemorySite::kAges; ++i) into.live_by_age[i] += row.live_by_age[i];
}

// Rows of several ranks. Whoever uses it says how they are sorted.
struct MatrixRows {
  std::vector<Value> values;
  std::vector<PathCounter> path_counters;
  std::vector<DataAccess> data_accesses;
  friend bool operator==(const MatrixRows&, const MatrixRows&) = default;
};

// Something that has the matrix rows of all ranks: data in memory, or a file.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Calls `use` once for each rank that has rows, in any order. Throws h5::H5Error if they cannot be read.
  // May be called several times.
  virtual void for_each_rank(const std::function<void(const RankRows&)>& use) const = 0;
};

// The rows of a ShardData, which must outlive this. Its tables may be in any order.
class InMemoryRows final : public RowSource {
 public:
  explicit InMemoryRows(const ShardData& data) : data_(data) {}
  void for_each_rank(const std::function<void(const RankRows&)>& use) const override;

 private:
  const ShardData& data_;
};

// Passes rows on rank by rank. They must be sorted as RankRows says.
void for_each_rank_of_sorted(const MatrixRows& rows, const std::function<void(const RankRows&)>& use);
// Does the same with rows in any order.
void for_each_rank_of(MatrixRows rows, const std::function<void(const RankRows&)>& use);

}  // namespace clusterprof::shard
