// SPDX-License-Identifier: BSD-3-Clause
// Tries what a run directory needs of its file system.
#pragma once

#include <optional>
#include <string>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// In a directory of its own below `path`, removed afterwards. May hang: done in a child process. As text,
// which directory_facts_of reads again.
std::string try_run_directory(const std::string& path);
DirectoryFacts directory_facts_of(const std::string& text);

// What the mount table (/proc/self/mountinfo) says of an absolute path without links.
struct Mount {
  std::string type, mounted_on;
};
Mount mount_of(const std::string& mount_table, const std::string& path);

}  // namespace clusterprof::cli::doctor
