// SPDX-License-Identifier: BSD-3-Clause
// Reads and checks the blocks of a profile, and copies their chunks into other profiles.
#include "formats/profile/block_reader.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace clusterprof::profile {
namespace {

using h5::H5Error;
using shard::MatrixRows;
using shard::PathCounter;
using shard::Value;

// A chunk with more rows than this is refused.
constexpr std::uint64_t kMaxChunkRows = std::uint64_t{1} << 24;

// Calls `use` for each of the three tables.
template <typename Rows, typename Use>
void for_each_table(Rows& rows, Use use) {
  use(rows.values);
  use(rows.path_counters);
  use(rows.data_accesses);
}

[[noreturn]] void damaged_block(std::size_t table, std::size_t node, const char* what) {
  throw H5Error("is damaged (table " + std::string(kMatrixTableNames[table]) + ", block " +
                std::to_string(node) + ": " + what + ")");
}

}  // namespace

BlockReader::BlockReader(const h5::Group& root)
    : node_of_rank_(root.open_group("ranks").read_column<std::uint32_t>("node")),
      path_count_(root.open_group("paths").open_chunked_column("parent", h5::Type::kUint32).rows()),
      node_count_(root.open_group("nodes").open_chunked_column("start_utc_ns", h5::Type::kInt64).rows()) {
  const std::uint64_t name_offsets =
      root.open_group("counters").open_chunked_column("name_offsets", h5::Type::kUint64).rows();
  counter_count_ = name_offsets - (name_offsets != 0);
  for (const std::uint32_t node : node_of_rank_)
    if (node >= node_count_) throw H5Error("is damaged (table ranks: node out of range)");
  for (const BlockColumn& column : kBlockColumns)
    columns_.push_back(root.open_group(group_of(column)).open_chunked_column(column.name, column.type));
  places_.resize(node_count_);
  const h5::Group group = root.open_group("blocks");
  visit_blocks([&](const std::string& name, auto field) {
    const auto column = group.read_column<std::uint64_t>(name.c_str());
    if (column.size() != node_count_)
      throw H5Error("column " + group.name() + "/" + name + " is not as long as table /nodes");
    for (std::size_t i = 0; i < column.size(); ++i) field(places_[i]) = column[i];
  });
  ranks_ = root.open_group("block_ranks").read_column<std::uint32_t>("rank");
  counters_ = root.open_group("block_counters").read_column<std::uint32_t>("counter");
  check_places();
}

// Checks that blocks follow each other without gaps and that no rows are outside of them.
void BlockReader::check_places() const {
  const auto damaged = [](const std::string& what) {
    throw H5Error("is damaged (table blocks: " + what + ")");
  };
  std::array<std::uint64_t, kMatrixTables> row_chunk{}, path_chunk{}, rows{}, paths{};
  for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
    const BlockColumn& column = kBlockColumns[i];
    const std::uint64_t chunk = columns_[i].chunk_rows();
    std::uint64_t& expected = (column.of_paths ? path_chunk : row_chunk)[column.table];
    if (expected == 0) expected = chunk;
    if (chunk != expected || chunk > kMaxChunkRows) damaged("chunks of different length");
  }
  std::uint64_t ranks = 0, counters = 0;
  const auto next = [&](std::uint64_t& end, std::uint64_t first, std::uint64_t count, std::uint64_t limit,
                        std::uint64_t chunk) {
    if (first != end || count > limit) damaged("blocks overlap or leave gaps");
    end += (count + chunk - 1) / chunk * chunk;
  };
  for (std::size_t node = 0; node < places_.size(); ++node) {
    const BlockPlace& block = places_[node];
    next(ranks, block.first_rank, block.ranks, ranks_.size(), 1);
    next(counters, block.first_counter, block.counters, counters_.size(), 1);
    for (std::size_t table = 0; table < kMatrixTables; ++table) {
      const BlockPlace::Table& place = block.tables[table];
      next(rows[table], place.first_row, place.rows, shard::kNone, row_chunk[table]);
      next(paths[table], place.first_path, place.paths, place.rows, path_chunk[table]);
      if ((place.rows == 0) != (place.paths == 0)) damaged("rows without paths");
    }
    if (ranks > ranks_.size() || counters > counters_.size()) damaged("ranks or counters out of range");
    for (std::uint64_t i = block.first_rank; i < ranks; ++i) {
      const std::uint32_t rank = ranks_[i];
      if (rank >= node_of_rank_.size() || node_of_rank_[rank] != node ||
          (i != block.first_rank && rank <= ranks_[i - 1]))
        damaged("ranks that are not the node's");
    }
    for (std::uint64_t i = block.first_counter; i < counters; ++i)
      if (counters_[i] >= counter_count_ || (i != block.first_counter && counters_[i] <= counters_[i - 1]))
        damaged("unknown counters");
  }
  if (ranks != ranks_.size() || counters != counters_.size()) damaged("ranks or counters of no block");
  for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
    const BlockColumn& column = kBlockColumns[i];
    if (columns_[i].rows() != (column.of_paths ? paths : rows)[column.table])
      throw H5Error(std::string("column /") + group_of(column) + "/" + column.name +
                    " does not fit the blocks");
  }
}

// Reads rows from `begin` up to, not including, `end` of the block's part of a column. Checks the checksum if
// these are all.
template <typename T>
std::vector<T> BlockReader::read_part(std::size_t node, std::size_t index, std::uint64_t begin,
                                      std::uint64_t end) const {
  const BlockColumn& column = kBlockColumns[index];
  const BlockPlace::Table& place = places_[node].tables[column.table];
  const std::uint64_t first = column.of_paths ? place.first_path : place.first_row;
  const std::uint64_t rows = column.of_paths ? place.paths : place.rows;
  std::vector<T> part = columns_[index].read<T>(first + begin, end - begin);
  if (end - begin == rows &&
      checksum_of(std::as_bytes(std::span(std::as_const(part)))) != places_[node].xxh3[index])
    damaged_block(column.table, node, "wrong checksum");
  return part;
}

BlockReader::PathList BlockReader::read_paths(std::size_t node, std::size_t table) const {
  const BlockPlace::Table& place = places_[node].tables[table];
  PathList list;
  list.paths = read_part<std::uint32_t>(node, kPathColumn[table], 0, place.paths);
  list.first_rows = read_part<std::uint32_t>(node, kPathColumn[table] + 1, 0, place.paths);
  for (std::size_t i = 0; i < list.paths.size(); ++i) {
    const bool in_order =
        i == 0 ? list.first_rows[0] == 0
               : list.paths[i] > list.paths[i - 1] && list.first_rows[i] > list.first_rows[i - 1];
    if (!in_order || list.paths[i] >= path_count_ || list.first_rows[i] >= place.rows)
      damaged_block(table, node, "paths that do not ascend or are out of range");
  }
  list.first_rows.push_back(static_cast<std::uint32_t>(place.rows));
  return list;
}

// Reads the rows of the paths from `first` up to, not including, `end` of `list`, in the block's order.
// Row::rank is an index into the block's ranks.
template <typename Row>
std::vector<Row> BlockReader::read_rows(std::size_t node, const PathList& list, std::size_t first,
                                        std::size_t end) const {
  constexpr std::size_t kTable = kTableOf<Row>;
  const BlockPlace& block = places_[node];
  if (first == end) return {};
  const std::uint32_t begin_row = list.first_rows[first], end_row = list.first_rows[end];
  const auto ranks = read_part<std::uint32_t>(node, kRankColumn[kTable], begin_row, end_row);
  std::vector<Row> rows(ranks.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (ranks[i] >= block.ranks) damaged_block(kTable, node, "rank out of range");
    rows[i].rank = ranks[i];
  }
  for (std::size_t i = first; i < end; ++i)
    for (std::uint32_t row = list.first_rows[i]; row < list.first_rows[i + 1]; ++row)
      rows[row - begin_row].path = list.paths[i];
  if constexpr (std::is_same_v<Row, PathCounter>) {
    const auto counters = read_part<std::uint32_t>(node, kRankColumn[kTable] + 1, begin_row, end_row);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (counters[i] >= block.counters) damaged_block(kTable, node, "counter out of range");
      rows[i].counter = counters_[block.first_counter + counters[i]];
    }
  }
  visit_fields(static_cast<const Row*>(nullptr), [&](std::size_t index, auto field) {
    using Field = std::remove_cvref_t<std::invoke_result_t<decltype(field), Row&>>;
    using Stored = std::conditional_t<sizeof(Field) == 1, std::uint8_t, Field>;
    const auto column = read_part<Stored>(node, kRankColumn[kTable] + index, begin_row, end_row);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if constexpr (std::is_same_v<Field, bool>) {
        if (column[i] > 1) damaged_block(kTable, node, "main_thread is neither 0 nor 1");
      } else if constexpr (std::is_same_v<Field, shard::Category>) {
        if (column[i] >= shard::kCategories) damaged_block(kTable, node, "unknown category");
      }
      field(rows[i]) = static_cast<Field>(column[i]);
    }
  });
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (!(place_of(rows[i - 1]) < place_of(rows[i]))) damaged_block(kTable, node, "rows that do not ascend");
  return rows;
}

// Reads the whole block.
MatrixRows BlockReader::read_rows(std::size_t node) const {
  MatrixRows all;
  for_each_table(all, [&](auto& rows) {
    using Row = typename std::remove_cvref_t<decltype(rows)>::value_type;
    const PathList list = read_paths(node, kTableOf<Row>);
    rows = read_rows<Row>(node, list, 0, list.paths.size());
  });
  return all;
}

// Turns indices into the block's ranks into rows of table ranks.
void BlockReader::name_ranks(std::size_t node, MatrixRows& all) const {
  const std::span names = std::span(ranks_).subspan(places_[node].first_rank);
  for_each_table(all, [&](auto& rows) {
    for (auto& row : rows) row.rank = names[row.rank];
  });
}

void BlockReader::check_node(std::uint32_t node) const {
  if (node >= node_count_) throw H5Error("has no node " + std::to_string(node));
}

MatrixRows BlockReader::node(std::uint32_t node) const {
  check_node(node);
  MatrixRows rows = read_rows(node);
  name_ranks(node, rows);
  return rows;
}

NodeTimes BlockReader::times(std::uint32_t node) const {
  check_node(node);
  constexpr std::size_t kTable = kTableOf<Value>, kFirst = kRankColumn[kTable];
  const BlockPlace& block = places_[node];
  const std::uint64_t rows = block.tables[kTable].rows;
  NodeTimes times;
  const std::span ranks = std::span(ranks_).subspan(block.first_rank, block.ranks);
  times.ranks.assign(ranks.begin(), ranks.end());
  PathList list = read_paths(node, kTable);
  times.paths = std::move(list.paths);
  times.first_rows = std::move(list.first_rows);
  times.rank = read_part<std::uint32_t>(node, kFirst, 0, rows);
  const auto read = [&](std::string_view name, auto& column) {
    using Stored = typename std::remove_cvref_t<decltype(column)>::value_type;
    for (std::size_t i = kFirst; i < kPathColumn[kTable]; ++i)
      if (kBlockColumns[i].name == name) column = read_part<Stored>(node, i, 0, rows);
  };
  read("category", times.category);
  read("main_thread", times.main_thread);
  read("wall_ns", times.wall_ns);
  read("cpu_ns", times.cpu_ns);

  for (std::size_t i = 0; i < times.rank.size(); ++i) {
    if (times.rank[i] >= times.ranks.size()) damaged_block(kTable, node, "rank out of range");
    if (times.main_thread[i] > 1) damaged_block(kTable, node, "main_thread is neither 0 nor 1");
    if (times.category[i] >= shard::kCategories) damaged_block(kTable, node, "unknown category");
  }
  const auto place = [&](std::uint32_t row) {
    return std::uint64_t{times.rank[row]} << 32 | (times.category[row] * 2u + 1u - times.main_thread[row]);
  };
  for (std::size_t i = 0; i < times.paths.size(); ++i)
    for (std::uint32_t row = times.first_rows[i] + 1; row < times.first_rows[i + 1]; ++row)
      if (place(row - 1) >= place(row)) damaged_block(kTable, node, "rows that do not ascend");
  return times;
}

MatrixRows BlockReader::rank(std::uint32_t rank) const {
  if (rank >= node_of_rank_.size()) throw H5Error("has no rank in row " + std::to_string(rank));
  MatrixRows rows;
  const std::uint32_t node = node_of_rank_[rank];
  const BlockPlace& block = places_[node];
  const std::span ranks = std::span(ranks_).subspan(block.first_rank, block.ranks);
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end() || *found != rank) return rows;
  const auto index = static_cast<std::uint32_t>(found - ranks.begin());
  rows = read_rows(node);
  for_each_table(rows, [&](auto& table) {
    std::erase_if(table, [&](const auto& row) { return row.rank != index; });
    for (auto& row : table) row.rank = rank;
  });
  return rows;
}

void BlockReader::paths(std::uint32_t first_path, std::uint32_t end_path,
                        const std::function<void(const MatrixRows&)>& use) const {
  for (std::uint32_t one = 0; one < node_count_; ++one) {
    MatrixRows part;
    for_each_table(part, [&](auto& rows) {
      using Row = typename std::remove_cvref_t<decltype(rows)>::value_type;
      const PathList list = read_paths(one, kTableOf<Row>);
      const auto index_of = [&](std::uint32_t wanted) {
        const auto found = std::lower_bound(list.paths.begin(), list.paths.end(), wanted);
        return static_cast<std::size_t>(found - list.paths.begin());
      };
      if (first_path < end_path) rows = read_rows<Row>(one, list, index_of(first_path), index_of(end_path));
    });
    name_ranks(one, part);
    use(part);
  }
}

void BlockReader::for_each_rank(const std::function<void(const shard::RankRows&)>& use) const {
  for (std::uint32_t one = 0; one < places_.size(); ++one) shard::for_each_rank_of(node(one), use);
}

EncodedBlock BlockReader::encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                        std::span<const std::uint32_t> new_path,
                                        std::span<const std::uint32_t> new_rank,
                                        std::span<const std::uint32_t> new_counter) const {
  check_node(node_row);
  if (new_path.size() < path_count_ || new_rank.size() < node_of_rank_.size() ||
      new_counter.size() < counter_count_)
    throw H5Error("cannot be copied: not all numbers have a new one");
  if (std::optional<EncodedBlock> block =
          copied_chunks(node_row, new_node_row, new_path, new_rank, new_counter))
    return std::move(*block);
  MatrixRows rows = node(node_row);
  for_each_table(rows, [&](auto& table) {
    for (auto& row : table) {
      row.path = new_path[row.path];
      row.rank = new_rank[row.rank];
      if constexpr (requires { row.counter; }) row.counter = new_counter[row.counter];
    }
  });
  return encode_block(new_node_row, std::move(rows));
}

// Builds the new block from the stored chunks. Empty if the order or the chunk size changes, so that they
// cannot be copied.
std::optional<EncodedBlock> BlockReader::copied_chunks(std::uint32_t node_row, std::uint32_t new_node_row,
                                                       std::span<const std::uint32_t> new_path,
                                                       std::span<const std::uint32_t> new_rank,
                                                       std::span<const std::uint32_t> new_counter) const {
  const BlockPlace& block = places_[node_row];
  BlockParts parts;
  parts.node = new_node_row;
  const auto renumber = [](std::span<const std::uint32_t> old, std::span<const std::uint32_t> names,
                           std::vector<std::uint32_t>& out) {
    for (const std::uint32_t number : old) out.push_back(names[number]);
    return std::adjacent_find(out.begin(), out.end(), std::greater_equal<>()) == out.end();
  };
  if (!renumber(std::span(ranks_).subspan(block.first_rank, block.ranks), new_rank, parts.ranks) ||
      !renumber(std::span(counters_).subspan(block.first_counter, block.counters), new_counter,
                parts.counters))
    return std::nullopt;
  for (std::size_t table = 0; table < kMatrixTables; ++table) {
    const PathList list = read_paths(node_row, table);
    std::vector<std::uint32_t> paths;
    if (!renumber(list.paths, new_path, paths)) return std::nullopt;
    if (!paths.empty()) parts.end_path = std::max(parts.end_path, paths.back() + 1);
    parts.rows[table] = block.tables[table].rows;
    parts.paths[table] = block.tables[table].paths;
    parts.columns[kPathColumn[table]] = encode_column(paths);
  }
  for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
    const BlockColumn& column = kBlockColumns[i];
    if (column.of_paths && i == kPathColumn[column.table]) continue;
    const h5::ChunkedColumn& stored = columns_[i];
    if (stored.chunk_rows() != kBlockChunkRows) return std::nullopt;
    const BlockPlace::Table& place = block.tables[column.table];
    const std::uint64_t first = column.of_paths ? place.first_path : place.first_row;
    parts.columns[i].xxh3 = block.xxh3[i];
    for (std::uint64_t row = 0; row < parts.rows_of(column); row += kBlockChunkRows)
      parts.columns[i].chunks.push_back(stored.stored_chunk(first + row));
  }
  return parts.pack();
}

}  // namespace clusterprof::profile
