// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "base/result.hpp"
#include "cli/mpi_flavour.hpp"

namespace clusterprof::cli {

// The places of the other installed parts, relative to this executable: PREFIX/bin/clusterprof,
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
  // The program that browses runs in a terminal.
  [[nodiscard]] std::string browser() const;
  // The program that checks this machine.
  [[nodiscard]] std::string doctor() const;
  // The program that attaches to processes.
  [[nodiscard]] std::string attacher() const;
  // The program that merges in parallel. Not in every installation; empty for kNone.
  [[nodiscard]] std::string merge_program(MpiFlavour flavour) const;
  // The program that `clusterprof doctor --self-test` records. kNone: the one without MPI. Those with MPI are
  // not in every installation.
  [[nodiscard]] std::string self_test_program(MpiFlavour flavour) const;
};

// For bin/clusterprof, whatever it is called there.
Result<InstallLayout> find_install_layout();
// For a program in libexec/clusterprof/.
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
