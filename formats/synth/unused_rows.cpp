// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/unused_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace clusterprof::synth {

using namespace shard;

void leave_out_unused(ShardData& data) {
  std::vector<bool> path_used(data.paths.size()), frame_used(data.frames.size()),
      string_used(data.strings.size());
  const auto mark_paths = [&](const auto&... tables) {
    const auto mark = [&](const auto& rows) {
      for (const auto& row : rows) path_used[row.path] = true;
    };
    (mark(tables), ...);
  };
  mark_paths(data.values, data.path_counters, data.data_accesses, data.mpi_calls, data.io_calls,
             data.region_times, data.mpi_events, data.event_gaps, data.path_series, data.memory_sites,
             data.memory_series);
  path_used[0] = string_used[0] = true;
  for (std::size_t i = data.paths.size(); --i != 0;)
    if (path_used[i]) {
      path_used[data.paths[i].parent] = true;
      frame_used[data.paths[i].frame] = true;
    }
  // Calls `use` for every index that refers to a string, except those of frames.
  const auto each_string = [&](auto&& use) {
    for (Rank& rank : data.ranks)
      for (const auto text : shard::kRankTexts) use(rank.*text);
    for (Series& series : data.series) use(series.name);
    for (MpiSize& size : data.mpi_sizes) use(size.op);
    for (MpiEvent& event : data.mpi_events) use(event.op);
  };
  for (std::size_t i = 0; i < data.frames.size(); ++i)
    if (frame_used[i])
      for (const StringIndex text : {data.frames[i].name, data.frames[i].file, data.frames[i].module})
        string_used[text] = true;
  each_string([&](const StringIndex& text) { string_used[text] = true; });

  // Moves the used rows together. Returns the new index of each row.
  const auto compact = [](auto& rows, const std::vector<bool>& used) {
    std::vector<std::uint32_t> now(rows.size());
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!used[i]) continue;
      if (kept != i) rows[kept] = std::move(rows[i]);
      now[i] = kept++;
    }
    rows.resize(kept);
    return now;
  };
  const std::vector<std::uint32_t> string_now = compact(data.strings, string_used);
  const std::vector<std::uint32_t> frame_now = compact(data.frames, frame_used);
  const std::vector<std::uint32_t> path_now = compact(data.paths, path_used);
  each_string([&](StringIndex& text) { text = string_now[text]; });
  for (Frame& frame : data.frames)
    for (StringIndex* text : {&frame.name, &frame.file, &frame.module}) *text = string_now[*text];
  for (std::size_t i = 1; i < data.paths.size(); ++i) {
    data.paths[i].parent = path_now[data.paths[i].parent];
    data.paths[i].frame = frame_now[data.paths[i].frame];
  }
  const auto renumber = [&](auto&... tables) {
    const auto one = [&](auto& rows) {
      for (auto& row : rows) row.path = path_now[row.path];
    };
    (one(tables), ...);
  };
  renumber(data.values, data.path_counters, data.data_accesses, data.mpi_calls, data.io_calls,
           data.region_times, data.mpi_events, data.event_gaps, data.path_series, data.memory_sites,
           data.memory_series);
}

}  // namespace clusterprof::synth
