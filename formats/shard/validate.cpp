// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <unordered_set>

#include "formats/shard/tables.hpp"

namespace clusterprof::shard {
namespace {

Error at(const char* table, std::size_t row, const char* what) {
  return Error{std::string("row ") + std::to_string(row) + " of table " + table + ": " + what};
}

}  // namespace

Result<void> validate(const ShardData& data) {
  const std::size_t strings = data.strings.size(), frames = data.frames.size(), paths = data.paths.size(),
                    nodes = data.nodes.size(), ranks = data.ranks.size(), counters = data.counters.size();
  if (strings == 0 || !data.strings[0].empty())
    return Error{"row 0 of table strings is not the empty string"};
  if (paths == 0 || data.paths[0].parent != 0 || data.paths[0].frame != kNone || data.paths[0].id != PathId{})
    return Error{"row 0 of table paths is not the root"};
  for (const std::size_t rows : {strings, frames, paths, nodes, ranks, counters, data.communicators.size()})
    if (rows >= kNone) return Error{"a table has more rows than an index can name"};

  for (std::size_t i = 0; i < frames; ++i) {
    const Frame& frame = data.frames[i];
    if (frame.kind > FrameKind::kKernel) return at("frames", i, "unknown kind");
    if (frame.name >= strings || frame.file >= strings || frame.module >= strings)
      return at("frames", i, "string out of range");
  }
  for (std::size_t i = 1; i < paths; ++i) {
    const Path& path = data.paths[i];
    if (path.parent >= i) return at("paths", i, "parent does not come before its child");
    if (path.frame >= frames) return at("paths", i, "frame out of range");
    if (path.id != path_id(data.paths[path.parent].id, data.frames[path.frame], data.strings))
      return at("paths", i, "id is not the hash of the call path");
  }
  std::unordered_set<std::int32_t> seen;
  for (std::size_t i = 0; i < ranks; ++i) {
    if (data.ranks[i].node >= nodes) return at("ranks", i, "node out of range");
    if (!seen.insert(data.ranks[i].rank).second) return at("ranks", i, "rank listed twice");
  }
  for (std::size_t i = 0; i < data.values.size(); ++i) {
    const Value& value = data.values[i];
    if (value.rank >= ranks) return at("values", i, "rank out of range");
    if (value.path >= paths) return at("values", i, "path out of range");
    if (static_cast<std::size_t>(value.category) >= kCategories) return at("values", i, "unknown category");
  }
  for (std::size_t i = 0; i < data.mpi_calls.size(); ++i) {
    const MpiCall& call = data.mpi_calls[i];
    if (call.rank >= ranks) return at("mpi_calls", i, "rank out of range");
    if (call.path >= paths) return at("mpi_calls", i, "path out of range");
    if (call.communicator != kNone && call.communicator >= data.communicators.size())
      return at("mpi_calls", i, "communicator out of range");
  }
  for (std::size_t i = 0; i < data.mpi_sizes.size(); ++i)
    if (data.mpi_sizes[i].op >= strings) return at("mpi_sizes", i, "string out of range");
  for (std::size_t i = 0; i < data.counter_values.size(); ++i) {
    const CounterValue& value = data.counter_values[i];
    if (value.rank >= ranks) return at("counter_values", i, "rank out of range");
    if (value.counter >= counters) return at("counter_values", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.path_counters.size(); ++i) {
    const PathCounter& value = data.path_counters[i];
    if (value.rank >= ranks) return at("path_counters", i, "rank out of range");
    if (value.path >= paths) return at("path_counters", i, "path out of range");
    if (value.counter >= counters) return at("path_counters", i, "counter out of range");
  }
  for (std::size_t i = 0; i < data.drops.size(); ++i)
    if (data.drops[i].rank >= ranks) return at("drops", i, "rank out of range");
  for (std::size_t i = 0; i < data.handler_costs.size(); ++i)
    if (data.handler_costs[i].rank >= ranks) return at("handler_costs", i, "rank out of range");
  return {};
}

}  // namespace clusterprof::shard
