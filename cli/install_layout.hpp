// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli {

// Where the other parts are, relative to this executable: PREFIX/bin/clusterprof,
// PREFIX/libexec/clusterprof/, PREFIX/lib/clusterprof/. The same in a build tree.
struct InstallLayout {
  std::string launcher;
  std::string collector;
  std::string analyze;
  std::string preload_directory;

  [[nodiscard]] std::string agent() const { return preload_directory + "/libclusterprof_agent.so"; }
  // Empty for kNone.
  [[nodiscard]] std::string mpi_preload(MpiFlavour flavour) const;
  [[nodiscard]] std::string prefix() const;
  // Looks at runs in a terminal.
  [[nodiscard]] std::string browser() const;
  // Checks this machine.
  [[nodiscard]] std::string doctor() const;
  // Merges in parallel. Not in every installation; empty for kNone.
  [[nodiscard]] std::string merge_program(MpiFlavour flavour) const;
  // What `clusterprof doctor --self-test` records: without MPI (kNone), or not in every installation.
  [[nodiscard]] std::string self_test_program(MpiFlavour flavour) const;
};

// Of bin/clusterprof, whatever it is called there.
Result<InstallLayout> find_install_layout();
// Of a program in libexec/clusterprof/.
Result<InstallLayout> find_install_layout_of_helper();

// Finds `command` as execvp(3) would: through PATH unless it has a slash. Error status 127 (no
// such file) or 126 (cannot be executed), with a shell's wording in `problem`.
struct CommandLookup {
  std::string path;  // empty when not found
  int status = 0;
  std::string problem;
};
CommandLookup find_command(const std::string& command);

}  // namespace clusterprof::cli
