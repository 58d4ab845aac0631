// SPDX-License-Identifier: BSD-3-Clause
// libexec/clusterprof/merge-FAMILY first|other merge ...: `clusterprof merge` in all processes of an MPI job.
// The only program of ours that is linked to an MPI library; the launcher runs it with --can-run before.
#include <unistd.h>

#include <cstring>
#include <string>

#include "aggregator/mpi/mpi_team.hpp"
#include "cli/analyze/analyze.hpp"

namespace {

// Processes of one job start within seconds of each other, unless some never call MPI.
constexpr unsigned kPatience_s = 120;

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--can-run") == 0) return 0;
  if (argc < 3) return 2;
  const bool is_first = std::strcmp(argv[1], "first") == 0;
  argv[1] = argv[0];
  --argc;
  ++argv;

  clusterprof::aggregator::MpiTeam team(kPatience_s);
  if (team.size() > 1) return team.finish(clusterprof::cli::analyze_main(argc, argv, &team));
  // The launcher counts more of us than this MPI library does: it was built for another process manager.
  if (!is_first) return team.finish(0);
  constexpr char kText[] = "clusterprof: merging in one process: MPI does not know the others of this job\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  return team.finish(clusterprof::cli::analyze_main(argc, argv, &team));
}
