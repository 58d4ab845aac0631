// SPDX-License-Identifier: BSD-3-Clause
// What a history keeps of runs, beside the runs: an SQLite file that is only a cache. docs/history.md.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "report/history/history.hpp"

namespace clusterprof::cli {

struct IndexedRun {
  std::string stamp;  // another one: the run has changed since
  report::HistoryRun run;
};
using HistoryIndex = std::map<std::string, IndexedRun>;  // by name of the run's directory

// Empty if there is none, it is damaged, it is somebody else's, or another version has written it. The file
// is read as a whole: nothing is locked.
HistoryIndex read_history_index(const std::filesystem::path& directory);
// Replaces the file at once. Where that is not possible, there is no index.
void write_history_index(const std::filesystem::path& directory, const HistoryIndex& index);

}  // namespace clusterprof::cli
