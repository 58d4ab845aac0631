// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace clusterprof::cli::attach {

struct Options {
  std::vector<int> pids;
  std::string job;      // --job; empty: pids are given
  std::string output;   // --output; empty: choose a name
  std::string lasting;  // --for; empty: until `clusterprof detach`
  int rate_hz = 100;
  std::string clock = "wall";
  bool no_python = false, no_native = false, no_mpi = false, quiet = false;
  // Of a call that another one makes on each node of a job.
  std::string here;  // the job, whose processes on this node are meant
  std::string run;   // the run directory, which exists
};

// Defines the options of `clusterprof attach`; `options` must outlive `verb`.
void define_options(CLI::App& verb, Options& options);

}  // namespace clusterprof::cli::attach
