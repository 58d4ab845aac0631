// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof export`: a run in the formats of other tools.
#pragma once

#include <string>
#include <vector>

namespace clusterprof::cli {

inline const std::vector<std::string> kExportFormats = {
    "folded", "speedscope", "pprof", "perfetto", "pstats", "callgrind", "csv", "hatchet", "json"};

// In the order of report::ExportWeight.
inline const std::vector<std::string> kExportWeights = {"samples", "time",      "alloc",
                                                        "live",    "rank_peak", "node_peak"};

struct ExportVerbOptions {
  std::string run;
  std::string format;
  std::string output = "-";   // a file, - for stdout; csv: a directory, too
  std::string ranks;          // 0-3,8; empty: all
  std::string weight;         // of kExportWeights; empty: time
  std::string table;          // of csv; empty: functions to a file, all but the large one to a directory
  bool all_ranks = false;     // every rank by itself
  bool no_regions = false;    // regions are no frames
  bool idle_threads = false;  // helper threads that waited for work, too
};

// The names of csv's tables: "functions, lines, ...".
std::string export_tables();

// Returns the exit status.
int export_run(const ExportVerbOptions& options);

}  // namespace clusterprof::cli
