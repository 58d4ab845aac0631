// SPDX-License-Identifier: BSD-3-Clause
// Tries the operations that a run directory needs of its file system.
#pragma once

#include <optional>
#include <string>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// Works in a directory of its own below `path`, which it removes. May hang, so it runs in a child process.
// Returns text that directory_facts_of parses.
std::string try_run_directory(const std::string& path);
DirectoryFacts directory_facts_of(const std::string& text);

// The mount table's (/proc/self/mountinfo) entry for an absolute path without links.
struct Mount {
  std::string type, mounted_on;
};
Mount mount_of(const std::string& mount_table, const std::string& path);

}  // namespace clusterprof::cli::doctor
