// SPDX-License-Identifier: BSD-3-Clause
// Writes a merged profile in the formats of other tools. docs/exports.md says what each of them holds.
//
// All exports read the rows one rank at a time and keep only sums by call path. Times are the profile's
// (docs/metrics.md, "One set of numbers"); samples and CPU time are as recorded. Output depends on nothing
// but the arguments. Exceptions of the rows and of the sink are passed on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

using ExportSink = std::function<void(std::string_view)>;

// From kAllocated on: bytes of memory, which a run has with --memory. In the order of kMemoryWeights.
enum class ExportWeight { kSamples, kTime, kAllocated, kLive, kRankPeak, kNodePeak };
constexpr bool is_memory(ExportWeight weight) { return weight >= ExportWeight::kAllocated; }
inline constexpr std::array<std::uint64_t shard::MemorySite::*, 4> kMemoryWeights = {
    &shard::MemorySite::alloc_bytes, &shard::MemorySite::live_end_bytes, &shard::MemorySite::rank_peak_bytes,
    &shard::MemorySite::node_peak_bytes};
constexpr std::uint64_t shard::MemorySite::*amount_of(ExportWeight weight) {
  return kMemoryWeights[static_cast<std::size_t>(weight) -
                        static_cast<std::size_t>(ExportWeight::kAllocated)];
}

struct ExportOptions {
  std::vector<bool> ranks;  // by row of the head's ranks: those that are exported; empty: all
  ExportWeight weight = ExportWeight::kTime;  // folded, speedscope; pprof: kTime, or one of memory
  bool each_rank = false;  // folded, hatchet, speedscope, pprof, perfetto: every rank by itself
  bool regions = true;     // folded, hatchet, speedscope: regions are frames
  // Helper threads that waited for work, too. Without them sums are the active times of the report. The
  // tables of csv have them always.
  bool idle_threads = false;
};

// What to export: tables that `head` has, rows that `rows` has.
struct ExportInput {
  const shard::ShardData& head;
  const shard::RowSource& rows;
};

// Above so many ranks pprof tells nodes apart, not ranks, and perfetto shows those of chosen_ranks(), unless
// each_rank says otherwise.
inline constexpr std::size_t kMaxRanksApart = 256;

void export_folded(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
void export_speedscope(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
void export_pprof(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
void export_pstats(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
void export_callgrind(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
void export_hatchet(const ExportInput& input, const ExportOptions& options, const ExportSink& sink);
// Of rows it needs none.
void export_perfetto(const shard::ShardData& head, const ExportOptions& options, const ExportSink& sink);

// Tables of comma-separated values, RFC 4180.
const std::vector<std::string_view>& csv_tables();               // their names
inline constexpr std::string_view kCsvRankPaths = "rank_paths";  // large, so only when asked for
inline constexpr std::string_view kCsvPaths = "paths";           // these two are made of rows, and
bool csv_table_of_analysis(std::string_view table);              // the others of an analysis of the whole run
void export_csv(std::string_view table, const Analysis& analysis, const ExportSink& sink);
void export_csv(std::string_view table, const ExportInput& input, const ExportOptions& options,
                const ExportSink& sink);

// The ranks with the most, the median and the least useful time among those selected (ExportOptions::ranks);
// of equal ones the lowest. Each once.
struct ChosenRank {
  std::uint32_t row;
  const char* what;  // "slowest", "median", "fastest"
};
std::vector<ChosenRank> chosen_ranks(const shard::ShardData& head, const std::vector<bool>& selected);

}  // namespace clusterprof::report
