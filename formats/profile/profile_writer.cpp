// SPDX-License-Identifier: BSD-3-Clause
// Writes profiles: one block after the other, in the order of nodes, then the tables that refer to them.
#include "formats/profile/profile_writer.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/version.hpp"
#include "formats/profile/block_layout.hpp"
#include "formats/profile/gains_table.hpp"
#include "formats/profile/statistics_table.hpp"
#include "formats/shard/format_file.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::profile {
namespace {

void write_statistics(h5::Group& root, const PathStatisticsTable& statistics) {
  h5::Group group = root.create_group("path_statistics");
  visit_statistics([&](const char* name, auto field) {
    using Column = std::remove_cvref_t<std::invoke_result_t<decltype(field), const PathStatistics&>>;
    std::vector<Column> column;
    column.reserve(statistics.paths.size());
    for (const PathStatistics& entry : statistics.paths) column.push_back(field(entry));
    group.write_column<Column>(name, column);
  });
  visit_squares([&](const std::string& name, auto field) {
    std::vector<double> rounded;
    std::vector<std::uint64_t> low, high;
    for (const PathStatistics& entry : statistics.paths) {
      const Squares squares = field(entry);
      rounded.push_back(static_cast<double>(squares));
      low.push_back(static_cast<std::uint64_t>(squares));
      high.push_back(static_cast<std::uint64_t>(squares >> 64));
    }
    group.write_column<double>(name.c_str(), rounded);
    group.write_column<std::uint64_t>((name + "_low").c_str(), low);
    group.write_column<std::uint64_t>((name + "_high").c_str(), high);
  });

  std::vector<std::uint32_t> path, bin, ranks;
  std::vector<std::uint8_t> exclusive;
  for (const QuantileBin& row : statistics.quantile_bins) {
    path.push_back(row.path);
    exclusive.push_back(row.exclusive);
    bin.push_back(row.bin);
    ranks.push_back(row.ranks);
  }
  h5::Group quantiles = root.create_group("path_quantiles");
  quantiles.write_column<std::uint32_t>("path", path);
  quantiles.write_column<std::uint8_t>("exclusive", exclusive);
  quantiles.write_column<std::uint32_t>("bin", bin);
  quantiles.write_column<std::uint32_t>("ranks", ranks);
}

void write_sources(h5::Group& root, std::span<const Source> sources) {
  h5::Group list = root.create_group("sources");
  std::vector<std::string> names;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> merged_flags;
  for (const Source& source : sources) {
    names.push_back(source.name);
    sizes.push_back(source.size_bytes);
    merged_flags.push_back(source.merged);
  }
  list.write_strings("name", names);
  list.write_column<std::uint64_t>("size_bytes", sizes);
  list.write_column<std::uint8_t>("merged", merged_flags);
}

std::uint64_t up_to_chunk(std::uint64_t rows) {
  return (rows + kBlockChunkRows - 1) / kBlockChunkRows * kBlockChunkRows;
}

}  // namespace

struct ProfileWriter::State {
  std::filesystem::path path;
  shard::NewFile file;
  std::vector<h5::ChunkedColumn> columns;                    // of kBlockColumns
  std::array<std::uint64_t, kMatrixTables> rows{}, paths{};  // where the next block begins
  std::vector<BlockPlace> blocks;                            // by node
  std::vector<std::uint32_t> ranks, counters;                // of all blocks
  std::uint32_t end_path = 0;

  // A block without rows, at the end.
  void add_empty() {
    BlockPlace& block = blocks.emplace_back();
    block.first_rank = ranks.size();
    block.first_counter = counters.size();
    for (std::size_t table = 0; table < kMatrixTables; ++table) {
      block.tables[table].first_row = rows[table];
      block.tables[table].first_path = paths[table];
    }
    block.xxh3.fill(checksum_of({}));
  }

  void add(const BlockParts& parts) {
    if (parts.node < blocks.size()) throw h5::H5Error("cannot be written: nodes are not in order");
    while (blocks.size() <= parts.node) add_empty();
    BlockPlace& block = blocks.back();
    block.ranks = parts.ranks.size();
    block.counters = parts.counters.size();
    ranks.insert(ranks.end(), parts.ranks.begin(), parts.ranks.end());
    counters.insert(counters.end(), parts.counters.begin(), parts.counters.end());
    end_path = std::max(end_path, parts.end_path);
    for (std::size_t i = 0; i < kBlockColumns.size(); ++i) {
      const BlockColumn& column = kBlockColumns[i];
      const std::uint64_t count = parts.rows_of(column);
      block.xxh3[i] = parts.columns[i].xxh3;
      if (count == 0) continue;
      std::uint64_t first_row = column.of_paths ? paths[column.table] : rows[column.table];
      columns[i].set_rows(first_row + up_to_chunk(count));
      for (const std::vector<std::byte>& chunk : parts.columns[i].chunks) {
        columns[i].place(first_row, chunk);
        first_row += kBlockChunkRows;
      }
    }
    for (std::size_t table = 0; table < kMatrixTables; ++table) {
      block.tables[table].rows = parts.rows[table];
      block.tables[table].paths = parts.paths[table];
      rows[table] += up_to_chunk(parts.rows[table]);
      paths[table] += up_to_chunk(parts.paths[table]);
    }
  }

  // Whether the blocks are those of that head. Their paths are sorted, and the last is known.
  void check(const Rest& rest) const {
    const shard::ShardData& head = rest.head;
    bool fits = blocks.size() <= head.nodes.size() && end_path <= head.paths.size() &&
                rest.statistics.paths.size() == head.paths.size();
    for (const std::uint32_t counter : counters) fits = fits && counter < head.counters.size();
    for (std::size_t node = 0; fits && node < blocks.size(); ++node)
      for (std::uint64_t i = 0; i < blocks[node].ranks; ++i) {
        const std::uint32_t rank = ranks[blocks[node].first_rank + i];
        fits = fits && rank < head.ranks.size() && head.ranks[rank].node == node;
      }
    if (!fits) throw h5::H5Error("cannot be written: rows do not belong to the other tables");
  }

  void write_blocks(h5::Group& root) {
    h5::Group group = root.create_group("blocks");
    visit_blocks([&](const std::string& name, auto field) {
      std::vector<std::uint64_t> column;
      for (const BlockPlace& block : blocks) column.push_back(field(block));
      group.write_column<std::uint64_t>(name.c_str(), column);
    });
    root.create_group("block_ranks").write_column<std::uint32_t>("rank", ranks);
    root.create_group("block_counters").write_column<std::uint32_t>("counter", counters);
  }
};

ProfileWriter::ProfileWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProfileWriter::ProfileWriter(ProfileWriter&&) noexcept = default;
ProfileWriter& ProfileWriter::operator=(ProfileWriter&&) noexcept = default;
ProfileWriter::~ProfileWriter() = default;

Result<ProfileWriter> ProfileWriter::create(const std::filesystem::path& path) {
  Result<shard::NewFile> file = shard::NewFile::create(path, shard::kProfileFormat);
  if (!file) return file.error();
  auto state = std::make_unique<State>(State{path, std::move(file).value(), {}, {}, {}, {}, {}, {}, 0});
  const Result<void> begun = state->file.write([&](h5::Group& root) {
    std::optional<h5::Group> group;
    std::string name;
    for (const BlockColumn& column : kBlockColumns) {
      if (name != group_of(column)) {
        name = group_of(column);
        group = root.create_group(name.c_str());
      }
      state->columns.push_back(group->create_chunked_column(column.name, column.type, kBlockChunkRows));
    }
  });
  if (!begun) return begun.error();
  return ProfileWriter(std::move(state));
}

Result<void> ProfileWriter::add(const EncodedBlock& block) {
  return state_->file.write([&](h5::Group&) { state_->add(unpack(block)); });
}

Result<void> ProfileWriter::finish(const Rest& rest) {
  if (const Result<void> valid = shard::validate(rest.head); !valid)
    return Error{state_->path.string() + ": cannot be written: " + valid.error().message};
  const Result<void> written = state_->file.write([&](h5::Group& root) {
    state_->check(rest);
    while (state_->blocks.size() < rest.head.nodes.size()) state_->add_empty();
    state_->columns.clear();
    shard::write_tables(root, rest.head, shard::Tables::kNoMatrix);
    state_->write_blocks(root);
    write_statistics(root, rest.statistics);
    write_sources(root, rest.sources);
    const std::vector<std::byte> bytes = rest.report ? rest.report() : std::vector<std::byte>{};
    if (const std::optional<Gains> gains = rest.gains ? rest.gains() : std::nullopt)
      write_gains(root, *gains);
    if (bytes.empty()) return;
    h5::Group report = root.create_group("report");
    report.write_attribute("creator_version", std::string_view(kVersion));
    report.write_column<std::uint8_t>(
        "state", std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  });
  if (!written) return written;
  return state_->file.finish();
}

Result<void> write_profile(const shard::ShardData& merged, const std::filesystem::path& path,
                           const std::vector<Source>& sources) {
  // Before anything looks at the rows.
  if (const Result<void> valid = shard::validate(merged); !valid)
    return Error{path.string() + ": cannot be written: " + valid.error().message};
  Result<ProfileWriter> writer = ProfileWriter::create(path);
  if (!writer) return writer.error();
  std::vector<shard::MatrixRows> rows(merged.nodes.size());
  const auto node_of = [&](const auto& row) -> shard::MatrixRows& {
    return rows[merged.ranks[row.rank].node];
  };
  for (const shard::Value& row : merged.values) node_of(row).values.push_back(row);
  for (const shard::PathCounter& row : merged.path_counters) node_of(row).path_counters.push_back(row);
  for (const shard::DataAccess& row : merged.data_accesses) node_of(row).data_accesses.push_back(row);
  for (std::uint32_t node = 0; node < rows.size(); ++node)
    if (const Result<void> added = writer.value().add(encode_block(node, std::move(rows[node]))); !added)
      return added;
  return writer.value().finish({merged, path_statistics(merged), sources, {}, {}});
}

}  // namespace clusterprof::profile
