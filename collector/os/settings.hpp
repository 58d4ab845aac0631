// SPDX-License-Identifier: BSD-3-Clause
// What a run was made with, beside its command: the commit of its repository, environment modules, the
// program's compiler, and variables that change how programs run.
#pragma once

#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

// Where to look.
struct SettingsSource {
  std::string program;                   // an executable of the user's own; empty: none, or an interpreter
  std::vector<std::string> folders;      // that may be in a git repository; the first one that is counts
  std::vector<std::string> environment;  // NAME=VALUE
  bool variables = true;                 // false: none of them are kept
};

// Reads files, which may take as long as their file systems do (settings_reader.hpp). Secrets in values are masked.
std::vector<shard::Setting> read_settings(const SettingsSource& source);

// The commit that is checked out in the repository that a folder is in; empty: there is none. Reads files of
// git that are the user's own or root's, starts nothing. Whether files differ from the commit is not known.
struct Commit {
  std::string folder;  // the name of the repository's
  std::string hash;
};
Commit commit_of(const std::string& folder);

}  // namespace clusterprof::collector
