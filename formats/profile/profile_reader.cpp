// SPDX-License-Identifier: BSD-3-Clause
// Reads profiles in parts: head, one rank, one node, or one subtree of call paths. Every part is checked
// before it is returned, because profiles may be damaged or forged.
#include "formats/profile/profile_reader.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/version.hpp"
#include "formats/profile/block_reader.hpp"
#include "formats/profile/gains_table.hpp"
#include "formats/profile/statistics_table.hpp"
#include "formats/shard/format_file.hpp"
#include "formats/shard/row_order.hpp"
#include "formats/shard/tables.hpp"

namespace clusterprof::profile {
namespace {

using h5::H5Error;
using shard::MatrixRows;
using shard::ShardData;

}  // namespace

struct ProfileReader::State {
  std::filesystem::path path;
  h5::File file;
  h5::Group root;
  std::optional<ShardData> head, paths_head;

  std::optional<BlockReader> all_blocks;
  std::mutex opening;  // of all_blocks
  std::vector<std::string> more_own;

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

  // times() may be called by several threads.
  BlockReader& blocks() {
    const std::lock_guard<std::mutex> lock(opening);
    if (!all_blocks) all_blocks.emplace(root);
    return *all_blocks;
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
    // The stored report of another version is of no use.
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
    read("command", &shard::Rank::command);
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
  return state_->get<MatrixRows>([&] { return state_->blocks().node(node_row); });
}
Result<NodeTimes> ProfileReader::times(std::uint32_t node_row) {
  return state_->get<NodeTimes>([&] { return state_->blocks().times(node_row); });
}
Result<MatrixRows> ProfileReader::rank(std::uint32_t rank_row) {
  return state_->get<MatrixRows>([&] { return state_->blocks().rank(rank_row); });
}
Result<MatrixRows> ProfileReader::paths(std::uint32_t first_path, std::uint32_t end_path) {
  return state_->get<MatrixRows>([&] {
    MatrixRows all;
    state_->blocks().paths(first_path, end_path, [&](const MatrixRows& rows) {
      State::append_paths(all, rows, first_path, end_path);
    });
    return all;
  });
}
Result<void> ProfileReader::paths(std::uint32_t first_path, std::uint32_t end_path,
                                  const std::function<void(const MatrixRows&)>& use) {
  return shard::reading(state_->path, [&] { state_->blocks().paths(first_path, end_path, use); });
}
Result<EncodedBlock> ProfileReader::encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                                  std::span<const std::uint32_t> new_path,
                                                  std::span<const std::uint32_t> new_rank,
                                                  std::span<const std::uint32_t> new_counter) {
  return state_->get<EncodedBlock>([&] {
    return state_->blocks().encoded_block(node_row, new_node_row, new_path, new_rank, new_counter);
  });
}
Result<PathStatisticsTable> ProfileReader::statistics() {
  return state_->get<PathStatisticsTable>([&] { return read_statistics(state_->root); });
}
Result<std::vector<Source>> ProfileReader::sources() {
  return state_->get<std::vector<Source>>([&] { return state_->sources(); });
}
Result<std::vector<std::byte>> ProfileReader::report() {
  return state_->get<std::vector<std::byte>>([&] { return state_->report(); });
}
Result<std::optional<Gains>> ProfileReader::gains() {
  return state_->get<std::optional<Gains>>(
      [&] { return state_->root.has("gains_run") ? std::optional(read_gains(state_->root)) : std::nullopt; });
}

std::unique_ptr<shard::RowSource> ProfileReader::rows() {
  return std::make_unique<FileRows>([state = state_.get()](const auto& use) {
    // Exceptions of `use` are passed on.
    std::exception_ptr thrown;
    const auto guarded = [&](const shard::RankRows& rows) {
      try {
        use(rows);
      } catch (...) {
        thrown = std::current_exception();
        throw H5Error("");
      }
    };
    const Result<void> read = shard::reading(state->path, [&] { state->blocks().for_each_rank(guarded); });
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
  if (const Result<std::optional<Gains>> gains = reader.gains(); !gains) return gains.error();
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
