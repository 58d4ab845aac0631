// SPDX-License-Identifier: BSD-3-Clause
// Reads profiles in parts: head, one rank, one node, or one subtree of call paths. Every part is checked
// before it is returned, because profiles may be damaged or forged.
#include "formats/profile/profile_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/version.hpp"
#include "formats/profile/block_layout.hpp"
#include "formats/profile/statistics_table.hpp"
#include "formats/shard/row_order.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::profile {
namespace {

using h5::H5Error;
using shard::DataAccess;
using shard::MatrixRows;
using shard::PathCounter;
using shard::ShardData;
using shard::Value;

// Readers believe no chunk to be larger.
constexpr std::uint64_t kMostChunkRows = std::uint64_t{1} << 24;

// Calls use(rows) for the tables of some rows, which are const or not.
template <typename Rows, typename Use>
void for_each_table(Rows& rows, Use use) {
  use(rows.values);
  use(rows.path_counters);
  use(rows.data_accesses);
}

}  // namespace

struct ProfileReader::State {
  std::filesystem::path path;
  h5::File file;
  h5::Group root;
  std::optional<ShardData> head, paths_head;

  struct Blocks {
    std::vector<BlockPlace> places;
    std::vector<std::uint32_t> ranks, counters;
    std::vector<h5::ChunkedColumn> columns;  // of kBlockColumns
  };
  std::optional<Blocks> all_blocks;
  std::mutex opening;  // of the blocks, in times()
  std::vector<std::string> more_own;
  // How many rows the tables have that rows refer to; node by row of ranks.
  std::size_t path_count = 0, counter_count = 0, node_count = 0;
  std::vector<std::uint32_t> node_of_rank;

  State(std::filesystem::path name, h5::File opened)
      : path(std::move(name)), file(std::move(opened)), root(file.root()) {}

  template <typename T>
  Result<T> get(const std::function<T()>& read) {
    std::optional<T> value;
    if (const Result<void> result = shard::reading(path, [&] { value = read(); }); !result)
      return result.error();
    return std::move(*value);
  }

  void check(const Result<void>& valid) const {
    if (!valid) throw H5Error("is damaged (" + valid.error().message + ")");
  }

  // --- head ---

  const ShardData& read_head() {
    if (!head) {
      ShardData data = shard::read_tables(root, shard::Tables::kNoMatrix);
      check(shard::validate(data));
      data.run.own.insert(data.run.own.end(), more_own.begin(), more_own.end());
      head = std::move(data);
    }
    return *head;
  }

  const ShardData& read_paths_head() {
    if (head) return read_head();
    if (!paths_head) {
      ShardData data = shard::read_tables(root, shard::Tables::kPaths);
      check(shard::validate(data));
      data.run.own.insert(data.run.own.end(), more_own.begin(), more_own.end());
      paths_head = std::move(data);
    }
    return *paths_head;
  }

  void read_sizes() {
    node_of_rank = root.open_group("ranks").read_column<std::uint32_t>("node");
    path_count = root.open_group("paths").open_chunked_column("parent", h5::Type::kUint32).rows();
    counter_count = root.open_group("counters").open_chunked_column("name_offsets", h5::Type::kUint64).rows();
    counter_count -= counter_count != 0;
    node_count = root.open_group("nodes").open_chunked_column("start_utc_ns", h5::Type::kInt64).rows();
    for (const std::uint32_t node : node_of_rank)
      if (node >= node_count) throw H5Error("is damaged (table ranks: node out of range)");
  }

  // --- blocks ---

  Blocks& blocks() {
    if (all_blocks) return *all_blocks;
    read_sizes();
    Blocks read;
    for (const BlockColumn& column : kBlockColumns)
      read.columns.push_back(root.open_group(group_of(column)).open_chunked_column(column.name, column.type));
    read.places.resize(node_count);
    const h5::Group group = root.open_group("blocks");
    visit_blocks([&](const std::string& name, auto field) {
      const auto column = group.read_column<std::uint64_t>(name.c_str());
      if (column.size() != node_count)
        throw H5Error("column " + group.name() + "/" + name + " is not as long as table /nodes");
      for (std::size_t i = 0; i < column.size(); ++i) field(read.places[i]) = column[i];
    });
    read.ranks = root.open_group("block_ranks").read_column<std::uint32_t>("rank");
    read.counters = root.open_group("block_counters").read_column<std::uint32_t>("counter");
    check_places(read);
    all_blocks = std::move(read);
    return *all_blocks;
  }

  // Blocks follow each other without gaps and are all there is.
  void check_places(const Blocks& read) const {
    const auto damaged = [](const std::string& what) {
      throw H5Error("is damaged (table blocks: " + what + ")");
    };
    std::array<std::uint64_t, kMatrixTables> row_chunk{}, path_chunk{}, rows{}, paths{};
    for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
      const BlockColumn& column = kBlockColumns[i];
      const std::uint64_t chunk = read.columns[i].chunk_rows();
      std::uint64_t& expected = (column.of_paths ? path_chunk : row_chunk)[column.table];
      if (expected == 0) expected = chunk;
      if (chunk != expected || chunk > kMostChunkRows) damaged("chunks of different length");
    }
    std::uint64_t ranks = 0, counters = 0;
    const auto next = [&](std::uint64_t& end, std::uint64_t first, std::uint64_t count, std::uint64_t limit,
                          std::uint64_t chunk) {
      if (first != end || count > limit) damaged("blocks overlap or leave gaps");
      end += (count + chunk - 1) / chunk * chunk;
    };
    for (std::size_t node = 0; node < read.places.size(); ++node) {
      const BlockPlace& block = read.places[node];
      next(ranks, block.first_rank, block.ranks, read.ranks.size(), 1);
      next(counters, block.first_counter, block.counters, read.counters.size(), 1);
      for (std::size_t table = 0; table < kMatrixTables; ++table) {
        const BlockPlace::Table& place = block.tables[table];
        next(rows[table], place.first_row, place.rows, shard::kNone, row_chunk[table]);
        next(paths[table], place.first_path, place.paths, place.rows, path_chunk[table]);
        if ((place.rows == 0) != (place.paths == 0)) damaged("rows without paths");
      }
      if (ranks > read.ranks.size() || counters > read.counters.size())
        damaged("ranks or counters out of range");
      for (std::uint64_t i = block.first_rank; i < ranks; ++i) {
        const std::uint32_t rank = read.ranks[i];
        if (rank >= node_of_rank.size() || node_of_rank[rank] != node ||
            (i != block.first_rank && rank <= read.ranks[i - 1]))
          damaged("ranks that are not the node's");
      }
      for (std::uint64_t i = block.first_counter; i < counters; ++i)
        if (read.counters[i] >= counter_count ||
            (i != block.first_counter && read.counters[i] <= read.counters[i - 1]))
          damaged("unknown counters");
    }
    if (ranks != read.ranks.size() || counters != read.counters.size())
      damaged("ranks or counters of no block");
    for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
      const BlockColumn& column = kBlockColumns[i];
      if (read.columns[i].rows() != (column.of_paths ? paths : rows)[column.table])
        throw H5Error(std::string("column /") + group_of(column) + "/" + column.name +
                      " does not fit the blocks");
    }
  }

  [[noreturn]] static void damaged_block(std::size_t table, std::size_t node, const char* what) {
    throw H5Error("is damaged (table " + std::string(kMatrixTableNames[table]) + ", block " +
                  std::to_string(node) + ": " + what + ")");
  }

  // Rows begin up to, not including, end of a block's part of the column; of all of them the checksum.
  template <typename T>
  std::vector<T> read_part(std::size_t node, std::size_t index, std::uint64_t begin, std::uint64_t end) {
    const BlockColumn& column = kBlockColumns[index];
    const BlockPlace::Table& place = all_blocks->places[node].tables[column.table];
    const std::uint64_t first = column.of_paths ? place.first_path : place.first_row;
    const std::uint64_t rows = column.of_paths ? place.paths : place.rows;
    std::vector<T> part = all_blocks->columns[index].read<T>(first + begin, end - begin);
    if (end - begin == rows &&
        checksum_of(std::as_bytes(std::span(std::as_const(part)))) != all_blocks->places[node].xxh3[index])
      damaged_block(column.table, node, "wrong checksum");
    return part;
  }

  // The paths of a block and where their rows begin, with an entry more for where the last one's end.
  struct PathList {
    std::vector<std::uint32_t> paths, first_rows;
  };
  PathList read_paths(std::size_t node, std::size_t table) {
    const BlockPlace::Table& place = all_blocks->places[node].tables[table];
    PathList list;
    list.paths = read_part<std::uint32_t>(node, kPathColumn[table], 0, place.paths);
    list.first_rows = read_part<std::uint32_t>(node, kPathColumn[table] + 1, 0, place.paths);
    for (std::size_t i = 0; i < list.paths.size(); ++i) {
      const bool in_order =
          i == 0 ? list.first_rows[0] == 0
                 : list.paths[i] > list.paths[i - 1] && list.first_rows[i] > list.first_rows[i - 1];
      if (!in_order || list.paths[i] >= path_count || list.first_rows[i] >= place.rows)
        damaged_block(table, node, "paths that do not ascend or are out of range");
    }
    list.first_rows.push_back(static_cast<std::uint32_t>(place.rows));
    return list;
  }

  // Rows of the paths first up to, not including, end of `list`, in the block's order. Their ranks are
  // indices into the block's.
  template <typename Row>
  std::vector<Row> read_rows(std::size_t node, const PathList& list, std::size_t first, std::size_t end,
                             std::string_view without = {}) {
    constexpr std::size_t kTable = kTableOf<Row>;
    const BlockPlace& block = all_blocks->places[node];
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
        rows[i].counter = all_blocks->counters[block.first_counter + counters[i]];
      }
    }
    visit_fields(static_cast<const Row*>(nullptr), [&](std::size_t index, auto field) {
      using Field = std::remove_cvref_t<std::invoke_result_t<decltype(field), Row&>>;
      using Stored = std::conditional_t<sizeof(Field) == 1, std::uint8_t, Field>;
      if (kBlockColumns[kRankColumn[kTable] + index].name == without) return;
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
      if (!(place_of(rows[i - 1]) < place_of(rows[i])))
        damaged_block(kTable, node, "rows that do not ascend");
    return rows;
  }

  // Of a whole block.
  MatrixRows read_rows(std::size_t node) {
    MatrixRows all;
    for_each_table(all, [&](auto& rows) {
      using Row = typename std::remove_cvref_t<decltype(rows)>::value_type;
      const PathList list = read_paths(node, kTableOf<Row>);
      rows = read_rows<Row>(node, list, 0, list.paths.size());
    });
    return all;
  }

  // From indices into the block's ranks to rows of ranks.
  void name_ranks(std::size_t node, MatrixRows& all) const {
    const std::span names = std::span(all_blocks->ranks).subspan(all_blocks->places[node].first_rank);
    for_each_table(all, [&](auto& rows) {
      for (auto& row : rows) row.rank = names[row.rank];
    });
  }

  // --- parts ---

  void check_node(std::uint32_t node) {
    blocks();
    if (node >= node_count) throw H5Error("has no node " + std::to_string(node));
  }

  MatrixRows node(std::uint32_t node) {
    check_node(node);
    MatrixRows rows = read_rows(node);
    name_ranks(node, rows);
    return rows;
  }

  std::vector<Value> times(std::uint32_t node) {
    {
      const std::lock_guard<std::mutex> lock(opening);
      check_node(node);
    }
    const PathList list = read_paths(node, kTableOf<Value>);
    MatrixRows rows{read_rows<Value>(node, list, 0, list.paths.size(), "samples"), {}, {}};
    name_ranks(node, rows);
    shard::sort_rows(rows, shard::RowOrder::kByRank);
    return std::move(rows.values);
  }

  MatrixRows rank(std::uint32_t rank) {
    check_node(0);
    if (rank >= node_of_rank.size()) throw H5Error("has no rank in row " + std::to_string(rank));
    MatrixRows rows;
    const std::uint32_t node = node_of_rank[rank];
    const BlockPlace& block = blocks().places[node];
    const std::span ranks = std::span(all_blocks->ranks).subspan(block.first_rank, block.ranks);
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

  void paths(std::uint32_t first_path, std::uint32_t end_path,
             const std::function<void(const MatrixRows&)>& use) {
    blocks();
    for (std::uint32_t one = 0; one < node_count; ++one) {
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

  static void append_paths(MatrixRows& all, const MatrixRows& rows, std::uint32_t first, std::uint32_t end) {
    const auto append = [&](auto& to, const auto& from) {
      for (const auto& row : from)
        if (row.path >= first && row.path < end) to.push_back(row);
    };
    append(all.values, rows.values);
    append(all.path_counters, rows.path_counters);
    append(all.data_accesses, rows.data_accesses);
  }

  void for_each_rank(const std::function<void(const shard::RankRows&)>& use) {
    for (std::uint32_t one = 0; one < blocks().places.size(); ++one) shard::for_each_rank_of(node(one), use);
  }

  // --- taking over ---

  EncodedBlock encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                             std::span<const std::uint32_t> new_path, std::span<const std::uint32_t> new_rank,
                             std::span<const std::uint32_t> new_counter) {
    check_node(node_row);
    if (new_path.size() < path_count || new_rank.size() < node_of_rank.size() ||
        new_counter.size() < counter_count)
      throw H5Error("cannot be taken over: not all numbers have a new one");
    if (std::optional<EncodedBlock> block =
            taken_over(node_row, new_node_row, new_path, new_rank, new_counter))
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

  // Empty where the order or the size of chunks becomes another one.
  std::optional<EncodedBlock> taken_over(std::uint32_t node_row, std::uint32_t new_node_row,
                                         std::span<const std::uint32_t> new_path,
                                         std::span<const std::uint32_t> new_rank,
                                         std::span<const std::uint32_t> new_counter) {
    const BlockPlace& block = all_blocks->places[node_row];
    BlockParts parts;
    parts.node = new_node_row;
    const auto renumber = [](std::span<const std::uint32_t> old, std::span<const std::uint32_t> names,
                             std::vector<std::uint32_t>& out) {
      for (const std::uint32_t number : old) out.push_back(names[number]);
      return std::adjacent_find(out.begin(), out.end(), std::greater_equal<>()) == out.end();
    };
    if (!renumber(std::span(all_blocks->ranks).subspan(block.first_rank, block.ranks), new_rank,
                  parts.ranks) ||
        !renumber(std::span(all_blocks->counters).subspan(block.first_counter, block.counters), new_counter,
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
      const h5::ChunkedColumn& stored = all_blocks->columns[i];
      if (stored.chunk_rows() != kBlockChunkRows) return std::nullopt;
      const BlockPlace::Table& place = block.tables[column.table];
      const std::uint64_t first = column.of_paths ? place.first_path : place.first_row;
      parts.columns[i].xxh3 = block.xxh3[i];
      for (std::uint64_t row = 0; row < parts.rows_of(column); row += kBlockChunkRows)
        parts.columns[i].chunks.push_back(stored.stored_chunk(first + row));
    }
    return parts.pack();
  }

  // --- statistics ---

  PathStatisticsTable statistics() {
    PathStatisticsTable table;
    table.paths.resize(root.open_group("paths").read_column<std::uint32_t>("parent").size());
    const h5::Group group = root.open_group("path_statistics");
    const auto read = [&]<typename Column>(const std::string& name, Column) {
      std::vector<Column> column = group.read_column<Column>(name.c_str());
      if (column.size() != table.paths.size())
        throw H5Error("column " + group.name() + "/" + name + " is not as long as table /paths");
      return column;
    };
    visit_statistics([&](const char* name, auto field) {
      using Column = std::remove_cvref_t<std::invoke_result_t<decltype(field), PathStatistics&>>;
      const std::vector<Column> column = read(name, Column{});
      for (std::size_t i = 0; i < column.size(); ++i) field(table.paths[i]) = column[i];
    });
    visit_squares([&](const std::string& name, auto field) {
      const std::vector<double> rounded = read(name, double{});
      const std::vector<std::uint64_t> low = read(name + "_low", std::uint64_t{});
      const std::vector<std::uint64_t> high = read(name + "_high", std::uint64_t{});
      for (std::size_t i = 0; i < rounded.size(); ++i) {
        const Squares squares = static_cast<Squares>(high[i]) << 64 | low[i];
        if (static_cast<double>(squares) != rounded[i])
          throw H5Error("column " + group.name() + "/" + name + " is damaged");
        field(table.paths[i]) = squares;
      }
    });
    read_quantiles(table);
    return table;
  }

  void read_quantiles(PathStatisticsTable& table) const {
    const h5::Group group = root.open_group("path_quantiles");
    const auto paths_of = group.read_column<std::uint32_t>("path");
    const auto exclusive = group.read_column<std::uint8_t>("exclusive");
    const auto bin = group.read_column<std::uint32_t>("bin");
    const auto ranks = group.read_column<std::uint32_t>("ranks");
    if (exclusive.size() != paths_of.size() || bin.size() != paths_of.size() ||
        ranks.size() != paths_of.size())
      throw H5Error("columns of table " + group.name() + " differ in length");
    table.quantile_bins.reserve(paths_of.size());
    for (std::size_t i = 0; i < paths_of.size(); ++i) {
      if (paths_of[i] >= table.paths.size() || exclusive[i] > 1 || bin[i] > quantile_bin(~std::uint64_t{0}) ||
          ranks[i] == 0)
        throw H5Error("is damaged (row " + std::to_string(i) + " of table path_quantiles: out of range)");
      table.quantile_bins.push_back(
          {paths_of[i], exclusive[i] != 0, static_cast<std::uint16_t>(bin[i]), ranks[i]});
      const auto place = [&](std::size_t row) { return std::tuple(paths_of[row], exclusive[row], bin[row]); };
      if (i != 0 && place(i) <= place(i - 1))
        throw H5Error("is damaged (row " + std::to_string(i) + " of table path_quantiles: not in order)");
    }
  }

  std::vector<Source> sources() const {
    std::vector<Source> list;
    const h5::Group group = root.open_group("sources");
    std::vector<std::string> names = group.read_strings("name");
    const auto sizes = group.read_column<std::uint64_t>("size_bytes");
    const auto merged = group.read_column<std::uint8_t>("merged");
    if (sizes.size() != names.size() || merged.size() != names.size())
      throw H5Error("columns of table " + group.name() + " differ in length");
    for (std::size_t i = 0; i < names.size(); ++i)
      list.push_back({std::move(names[i]), sizes[i], merged[i] != 0});
    return list;
  }

  std::vector<std::byte> report() const {
    std::vector<std::byte> bytes;
    if (!root.has("report")) return bytes;
    const h5::Group group = root.open_group("report");
    // What another version thought of the run is of no use.
    if (group.read_string("creator_version") != kVersion) return bytes;
    const auto state = group.read_column<std::uint8_t>("state");
    const std::span whole_state = std::as_bytes(std::span(state));
    bytes.assign(whole_state.begin(), whole_state.end());
    return bytes;
  }

  ShardData summary() const {
    ShardData data = shard::read_tables(root, shard::Tables::kSummary);
    data.strings = root.open_group("strings").read_strings("text");
    const h5::Group ranks = root.open_group("ranks");
    const auto read = [&](const char* name, shard::StringIndex shard::Rank::*text) {
      const auto column = ranks.read_column<std::uint32_t>(name);
      if (column.size() != data.ranks.size())
        throw H5Error("columns of table " + ranks.name() + " differ in length");
      for (std::size_t i = 0; i < data.ranks.size(); ++i) data.ranks[i].*text = column[i];
    };
    read("affinity", &shard::Rank::affinity);
    read("numa_nodes", &shard::Rank::numa_nodes);
    read("last_call_path", &shard::Rank::last_call_path);
    check(shard::validate(data));
    return data;
  }
};

namespace {

class FileRows final : public shard::RowSource {
 public:
  using ForEach = std::function<void(const std::function<void(const shard::RankRows&)>&)>;
  explicit FileRows(ForEach for_each) : for_each_(std::move(for_each)) {}
  void for_each_rank(const std::function<void(const shard::RankRows&)>& use) const override {
    for_each_(use);
  }

 private:
  ForEach for_each_;
};

}  // namespace

ProfileReader::ProfileReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProfileReader::ProfileReader(ProfileReader&&) noexcept = default;
ProfileReader& ProfileReader::operator=(ProfileReader&&) noexcept = default;
ProfileReader::~ProfileReader() = default;

Result<ProfileReader> ProfileReader::open(const std::filesystem::path& path) {
  Result<h5::File> file = shard::open_file(path, shard::kProfileFormat);
  if (!file) return file.error();
  std::unique_ptr<State> state;
  const Result<void> made =
      shard::reading(path, [&] { state = std::make_unique<State>(path, std::move(file).value()); });
  if (!made) return made.error();
  return ProfileReader(std::move(state));
}

Result<const ShardData*> ProfileReader::head() {
  return state_->get<const ShardData*>([&] { return &state_->read_head(); });
}
void ProfileReader::add_own(std::vector<std::string> paths) { state_->more_own = std::move(paths); }

Result<const ShardData*> ProfileReader::paths_head() {
  return state_->get<const ShardData*>([&] { return &state_->read_paths_head(); });
}
Result<ShardData> ProfileReader::summary() {
  return state_->get<ShardData>([&] { return state_->summary(); });
}
Result<MatrixRows> ProfileReader::node(std::uint32_t node_row) {
  return state_->get<MatrixRows>([&] { return state_->node(node_row); });
}
Result<std::vector<Value>> ProfileReader::times(std::uint32_t node_row) {
  return state_->get<std::vector<Value>>([&] { return state_->times(node_row); });
}
Result<MatrixRows> ProfileReader::rank(std::uint32_t rank_row) {
  return state_->get<MatrixRows>([&] { return state_->rank(rank_row); });
}
Result<MatrixRows> ProfileReader::paths(std::uint32_t first_path, std::uint32_t end_path) {
  return state_->get<MatrixRows>([&] {
    MatrixRows all;
    state_->paths(first_path, end_path,
                  [&](const MatrixRows& rows) { State::append_paths(all, rows, first_path, end_path); });
    return all;
  });
}
Result<void> ProfileReader::paths(std::uint32_t first_path, std::uint32_t end_path,
                                  const std::function<void(const MatrixRows&)>& use) {
  return shard::reading(state_->path, [&] { state_->paths(first_path, end_path, use); });
}
Result<EncodedBlock> ProfileReader::encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                                  std::span<const std::uint32_t> new_path,
                                                  std::span<const std::uint32_t> new_rank,
                                                  std::span<const std::uint32_t> new_counter) {
  return state_->get<EncodedBlock>(
      [&] { return state_->encoded_block(node_row, new_node_row, new_path, new_rank, new_counter); });
}
Result<PathStatisticsTable> ProfileReader::statistics() {
  return state_->get<PathStatisticsTable>([&] { return state_->statistics(); });
}
Result<std::vector<Source>> ProfileReader::sources() {
  return state_->get<std::vector<Source>>([&] { return state_->sources(); });
}
Result<std::vector<std::byte>> ProfileReader::report() {
  return state_->get<std::vector<std::byte>>([&] { return state_->report(); });
}

std::unique_ptr<shard::RowSource> ProfileReader::rows() {
  return std::make_unique<FileRows>([state = state_.get()](const auto& use) {
    // What `use` throws is its own affair.
    std::exception_ptr thrown;
    const auto guarded = [&](const shard::RankRows& rows) {
      try {
        use(rows);
      } catch (...) {
        thrown = std::current_exception();
        throw H5Error("");
      }
    };
    const Result<void> read = shard::reading(state->path, [&] { state->for_each_rank(guarded); });
    if (thrown) std::rethrow_exception(thrown);
    if (!read) throw H5Error(read.error().message);
  });
}

// --- whole files ---------------------------------------------------------------------------

Result<ShardData> read_profile(const std::filesystem::path& path) {
  Result<ProfileReader> reader = ProfileReader::open(path);
  if (!reader) return reader.error();
  const Result<const ShardData*> head = reader.value().head();
  if (!head) return head.error();
  ShardData data = *head.value();
  MatrixRows all;
  for (std::uint32_t node = 0; node < data.nodes.size(); ++node) {
    const Result<MatrixRows> rows = reader.value().node(node);
    if (!rows) return rows.error();
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.values, rows.value().values);
    append(all.path_counters, rows.value().path_counters);
    append(all.data_accesses, rows.value().data_accesses);
  }
  shard::sort_rows(all, shard::RowOrder::kByRank);
  data.values = std::move(all.values);
  data.path_counters = std::move(all.path_counters);
  data.data_accesses = std::move(all.data_accesses);
  return data;
}

Result<ShardData> read_profile_summary(const std::filesystem::path& path) {
  Result<ProfileReader> reader = ProfileReader::open(path);
  return reader ? reader.value().summary() : reader.error();
}

Result<PathStatisticsTable> read_path_statistics(const std::filesystem::path& path) {
  Result<ProfileReader> reader = ProfileReader::open(path);
  return reader ? reader.value().statistics() : reader.error();
}

Result<std::vector<Source>> read_sources(const std::filesystem::path& path) {
  Result<ProfileReader> reader = ProfileReader::open(path);
  return reader ? reader.value().sources() : reader.error();
}

Result<void> check_profile(const std::filesystem::path& path) {
  Result<ProfileReader> opened = ProfileReader::open(path);
  if (!opened) return opened.error();
  ProfileReader& reader = opened.value();
  const Result<const ShardData*> head = reader.head();
  if (!head) return head.error();
  if (const Result<std::vector<Source>> sources = reader.sources(); !sources) return sources.error();
  if (const Result<std::vector<std::byte>> report = reader.report(); !report) return report.error();
  const Result<PathStatisticsTable> stored = reader.statistics();
  if (!stored) return stored.error();

  PathStatisticsBuilder builder(head.value()->paths);
  try {
    reader.rows()->for_each_rank(
        [&](const shard::RankRows& rows) { builder.add(head.value()->ranks[rows.rank].rank, rows.values); });
  } catch (const H5Error& error) {
    return Error{error.what()};
  }
  const PathStatisticsTable table = builder.finish();
  if (stored.value().paths != table.paths)
    return Error{path.string() + ": is damaged (table /path_statistics does not fit /values)"};
  if (stored.value().quantile_bins != table.quantile_bins)
    return Error{path.string() + ": is damaged (table /path_quantiles does not fit /values)"};
  return {};
}

}  // namespace clusterprof::profile
