// SPDX-License-Identifier: BSD-3-Clause
// What the blocks of a profile consist of, for the code that encodes, writes and reads them. Internal to
// formats/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/h5/h5.hpp"
#include "formats/shard/rank_rows.hpp"

namespace clusterprof::profile {

struct EncodedBlock;  // formats/profile/node_matrix.hpp

// Rows per chunk in the columns that we write.
inline constexpr std::uint64_t kBlockChunkRows = 8192;

inline constexpr std::size_t kMatrixTables = 3;
inline constexpr std::array<const char*, kMatrixTables> kMatrixTableNames = {"values", "path_counters",
                                                                             "data_accesses"};
// The table of paths that belongs to each of them.
inline constexpr std::array<const char*, kMatrixTables> kPathTableNames = {
    "values_paths", "path_counters_paths", "data_accesses_paths"};

template <typename Row>
inline constexpr std::size_t kTableOf = kMatrixTables;
template <>
inline constexpr std::size_t kTableOf<shard::Value> = 0;
template <>
inline constexpr std::size_t kTableOf<shard::PathCounter> = 1;
template <>
inline constexpr std::size_t kTableOf<shard::DataAccess> = 2;

// The columns that have a part for every block. Each table has the columns of its rows, the rank first, and
// then the two columns of its table of paths.
struct BlockColumn {
  std::size_t table = 0;
  bool of_paths = false;
  const char* name = nullptr;
  h5::Type type = h5::Type::kUint32;
};
inline constexpr std::array<BlockColumn, 22> kBlockColumns = {{
    {0, false, "rank", h5::Type::kUint32},       {0, false, "category", h5::Type::kUint8},
    {0, false, "main_thread", h5::Type::kUint8}, {0, false, "wall_ns", h5::Type::kUint64},
    {0, false, "cpu_ns", h5::Type::kUint64},     {0, false, "samples", h5::Type::kUint64},
    {0, true, "path", h5::Type::kUint32},        {0, true, "first_row", h5::Type::kUint32},
    {1, false, "rank", h5::Type::kUint32},       {1, false, "counter", h5::Type::kUint32},
    {1, false, "value", h5::Type::kUint64},      {1, true, "path", h5::Type::kUint32},
    {1, true, "first_row", h5::Type::kUint32},   {2, false, "rank", h5::Type::kUint32},
    {2, false, "samples", h5::Type::kUint64},    {2, false, "accesses", h5::Type::kUint64},
    {2, false, "blocks_0", h5::Type::kUint64},   {2, false, "blocks_1", h5::Type::kUint64},
    {2, false, "blocks_2", h5::Type::kUint64},   {2, false, "blocks_3", h5::Type::kUint64},
    {2, true, "path", h5::Type::kUint32},        {2, true, "first_row", h5::Type::kUint32},
}};
inline constexpr std::array<std::size_t, kMatrixTables> kRankColumn = {0, 8, 13};
inline constexpr std::array<std::size_t, kMatrixTables> kPathColumn = {6, 11, 20};  // first_row is the next

inline const char* group_of(const BlockColumn& column) {
  return column.of_paths ? kPathTableNames[column.table] : kMatrixTableNames[column.table];
}

// Calls column(index behind the rank's, field) for the columns that are stored as they are; field(row) is a
// reference. Of path_counters the counter is not: it is an index into the block's counters.
template <typename Column>
void visit_fields(const shard::Value*, Column column) {
  column(
      1, [](auto& row) -> auto& { return row.category; });
  column(
      2, [](auto& row) -> auto& { return row.main_thread; });
  column(
      3, [](auto& row) -> auto& { return row.wall_ns; });
  column(
      4, [](auto& row) -> auto& { return row.cpu_ns; });
  column(
      5, [](auto& row) -> auto& { return row.samples; });
}
template <typename Column>
void visit_fields(const shard::PathCounter*, Column column) {
  column(
      2, [](auto& row) -> auto& { return row.value; });
}
template <typename Column>
void visit_fields(const shard::DataAccess*, Column column) {
  column(
      1, [](auto& row) -> auto& { return row.samples; });
  column(
      2, [](auto& row) -> auto& { return row.accesses; });
  column(
      3, [](auto& row) -> auto& { return row.blocks[0]; });
  column(
      4, [](auto& row) -> auto& { return row.blocks[1]; });
  column(
      5, [](auto& row) -> auto& { return row.blocks[2]; });
  column(
      6, [](auto& row) -> auto& { return row.blocks[3]; });
}

// The order of rows in a block, in which no two are equal.
using Place = std::pair<std::uint64_t, std::uint64_t>;
inline Place place_of(const shard::Value& row) {
  return {std::uint64_t{row.path} << 32 | row.rank,
          static_cast<unsigned>(row.category) * 2u + (row.main_thread ? 0u : 1u)};
}
inline Place place_of(const shard::PathCounter& row) {
  return {std::uint64_t{row.path} << 32 | row.rank, row.counter};
}
inline Place place_of(const shard::DataAccess& row) { return {std::uint64_t{row.path} << 32 | row.rank, 0}; }

std::uint64_t checksum_of(std::span<const std::byte> bytes);

// One column's part of a block.
struct EncodedColumn {
  std::uint64_t xxh3 = 0;                      // of its rows, without what fills the last chunk
  std::vector<std::vector<std::byte>> chunks;  // as h5::compress_chunk() makes them
};
EncodedColumn encode_column(std::span<const std::uint32_t> rows);

// An EncodedBlock taken apart.
struct BlockParts {
  std::uint32_t node = 0;
  std::uint32_t end_path = 0;  // one behind the last it has
  std::vector<std::uint32_t> ranks, counters;
  std::array<std::uint64_t, kMatrixTables> rows{}, paths{};
  std::array<EncodedColumn, kBlockColumns.size()> columns;

  [[nodiscard]] std::uint64_t rows_of(const BlockColumn& column) const {
    return column.of_paths ? paths[column.table] : rows[column.table];
  }
  [[nodiscard]] EncodedBlock pack() const;
};
// Throws h5::H5Error when it is none.
BlockParts unpack(const EncodedBlock& block);

// A row of table `blocks`.
struct BlockPlace {
  std::uint64_t first_rank = 0, ranks = 0, first_counter = 0, counters = 0;
  struct Table {
    std::uint64_t first_row = 0, rows = 0, first_path = 0, paths = 0;
  };
  std::array<Table, kMatrixTables> tables{};
  std::array<std::uint64_t, kBlockColumns.size()> xxh3{};
};

// Calls column(name, field) for each column of that table; all are uint64.
template <typename Column>
void visit_blocks(Column column) {
  column(
      "first_rank", [](auto& block) -> auto& { return block.first_rank; });
  column(
      "ranks", [](auto& block) -> auto& { return block.ranks; });
  column(
      "first_counter", [](auto& block) -> auto& { return block.first_counter; });
  column(
      "counters", [](auto& block) -> auto& { return block.counters; });
  for (std::size_t table = 0; table < kMatrixTables; ++table) {
    const std::string name = kMatrixTableNames[table];
    column(
        name + "_first_row", [table](auto& block) -> auto& { return block.tables[table].first_row; });
    column(
        name + "_rows", [table](auto& block) -> auto& { return block.tables[table].rows; });
    column(
        name + "_first_path", [table](auto& block) -> auto& { return block.tables[table].first_path; });
    column(
        name + "_paths", [table](auto& block) -> auto& { return block.tables[table].paths; });
  }
  for (std::size_t i = 0; i < kBlockColumns.size(); ++i)
    column(
        std::string(group_of(kBlockColumns[i])) + "_" + kBlockColumns[i].name + "_xxh3",
        [i](auto& block) -> auto& { return block.xxh3[i]; });
}

}  // namespace clusterprof::profile
