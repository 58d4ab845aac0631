// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/shard_reader.hpp"

#include <algorithm>

#include "formats/shard/format_file.hpp"
#include "formats/shard/row_order.hpp"
#include "formats/shard/tables.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::shard {
namespace {

Error damaged(const std::filesystem::path& path, const Error& how) {
  return Error{path.string() + ": is damaged (" + how.message + ")"};
}

Result<ShardData> read(const std::filesystem::path& path, Tables which) {
  ShardData data;
  const Result<void> result =
      read_file(path, kShardFormat, [&](const h5::Group& root) { data = read_tables(root, which); });
  if (!result) return result.error();
  if (const Result<void> valid = validate(data); !valid) return damaged(path, valid.error());
  return data;
}

// A table without rows is not there.
template <typename T>
std::vector<T> column_of(const h5::Group& root, const char* table, const char* column) {
  return root.has(table) ? root.open_group(table).read_column<T>(column) : std::vector<T>();
}
std::vector<std::string> strings_of(const h5::Group& root, const char* table, const char* column) {
  return root.has(table) ? root.open_group(table).read_strings(column) : std::vector<std::string>();
}

// If an event is left out, its gap counts for the next event of the thread that is kept. The analysis of
// waiting does the same when it leaves events out.
void thin(ShardData& data, std::uint32_t level) {
  std::vector<MpiEvent> events;
  std::vector<EventGap> gaps;
  std::size_t gap = 0, first_pending = 0;  // in data.event_gaps, in gaps
  for (std::size_t i = 0; i < data.mpi_events.size(); ++i) {
    const MpiEvent& event = data.mpi_events[i];
    const bool new_thread =
        i == 0 || event.rank != data.mpi_events[i - 1].rank || event.thread != data.mpi_events[i - 1].thread;
    if (new_thread) gaps.resize(first_pending);  // the last thread had no further event
    const auto number = static_cast<std::uint32_t>(events.size());
    for (; gap < data.event_gaps.size() && data.event_gaps[gap].event == i; ++gap)
      gaps.push_back(
          {number, data.event_gaps[gap].path, data.event_gaps[gap].wall_ns, data.event_gaps[gap].cpu_ns});
    const std::uint64_t channel =
        event.communicator == kNone ? 0 : data.communicators[event.communicator].identity;
    const std::uint64_t stream =
        wire::event_stream(static_cast<wire::MpiEventKind>(event.kind), channel, data.ranks[event.rank].rank,
                           event.peer, event.tag, event.flags);
    if (!wire::event_is_selected(stream, event.sequence, level)) continue;
    events.push_back(event);
    first_pending = gaps.size();
  }
  gaps.resize(first_pending);
  data.mpi_events = std::move(events);
  data.event_gaps = std::move(gaps);
  data.event_stretches.clear();  // their events are left out, too
  for (Rank& rank : data.ranks) rank.event_level = std::max(rank.event_level, level);
}

}  // namespace

Result<ShardData> read_shard(const std::filesystem::path& path) { return read(path, Tables::kAll); }

Result<ShardData> read_shard_summary(const std::filesystem::path& path) {
  return read(path, Tables::kSummary);
}

Result<ShardData> read_shard_head(const std::filesystem::path& path) { return read(path, Tables::kHead); }

Result<LargeTables> read_large_table_sizes(const std::filesystem::path& path) {
  LargeTables sizes;
  const Result<void> result = read_file(path, kShardFormat, [&](const h5::Group& root) {
    const auto rows = [&](const char* table, const char* column) -> std::uint64_t {
      return root.has(table) ? root.open_group(table).rows<std::uint32_t>(column) : 0;
    };
    sizes = {rows("values", "path"), rows("path_counters", "path"), rows("data_accesses", "path"),
             rows("mpi_events", "path"), rows("event_gaps", "path")};
  });
  if (!result) return result.error();
  return sizes;
}

Result<ShardMatrix> read_shard_matrix(const std::filesystem::path& path) {
  ShardMatrix matrix;
  const Result<void> result = read_file(path, kShardFormat, [&](const h5::Group& root) {
    const auto high = column_of<std::uint64_t>(root, "paths", "id_high");
    const auto low = column_of<std::uint64_t>(root, "paths", "id_low");
    matrix.ranks = column_of<std::int32_t>(root, "ranks", "rank");
    matrix.rank_node = column_of<std::uint32_t>(root, "ranks", "node");
    if (high.size() != low.size() || matrix.ranks.size() != matrix.rank_node.size())
      throw h5::H5Error("columns of a table differ in length");
    matrix.paths.reserve(high.size());
    for (std::size_t i = 0; i < high.size(); ++i) matrix.paths.push_back({high[i], low[i]});
    matrix.nodes = strings_of(root, "nodes", "name");
    matrix.counters = strings_of(root, "counters", "name");
    matrix.rows = read_matrix(root, matrix.ranks.size());
  });
  if (!result) return result.error();
  if (const Result<void> valid =
          validate(matrix.rows, {matrix.ranks.size(), matrix.paths.size(), matrix.counters.size()});
      !valid)
    return damaged(path, valid.error());
  for (std::size_t i = 0; i < matrix.ranks.size(); ++i)
    if (matrix.rank_node[i] >= matrix.nodes.size())
      return damaged(path, Error{"row " + std::to_string(i) + " of table ranks: node out of range"});
  // In the file, rows of the same rank and path are in no particular order.
  sort_rows(matrix.rows, RowOrder::kByRank);
  return matrix;
}

Result<ShardData> read_shard_events(const std::filesystem::path& path, std::uint32_t level) {
  Result<ShardData> read_all = read(path, Tables::kNoMatrix);
  if (read_all && level > 0) thin(read_all.value(), std::min(level, wire::kMaxEventLevel));
  return read_all;
}

}  // namespace clusterprof::shard
