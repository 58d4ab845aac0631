// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/options.hpp"

#include <CLI/CLI.hpp>

namespace clusterprof::cli::attach {

void define_options(CLI::App& verb, Options& options) {
  constexpr int kMostHz = 10'000;
  verb.description("Records processes that were started without clusterprof, from now on");
  CLI::Option* const pids = verb.add_option("PID", options.pids, "process ids")->check(CLI::PositiveNumber);
  verb.add_option("--job", options.job, "all ranks of a running Slurm job, on all its nodes")
      ->type_name("JOBID")
      ->excludes(pids);
  verb.add_option("-o,--output", options.output, "run directory (default: clusterprof-<command>-<time>)")
      ->type_name("DIR");
  verb.add_option("--for", options.lasting,
                  "let the processes go after this time: 60s, 5m, 2h; seconds without a unit")
      ->type_name("TIME");
  verb.add_option("-r,--rate", options.rate_hz, "samples per second and thread")
      ->type_name("HZ")
      ->check(CLI::Range(1, kMostHz));
  verb.add_option("--clock", options.clock,
                  "wall (default): also where threads wait; cpu: only where they run")
      ->check(CLI::IsMember({"wall", "cpu"}));
  verb.add_flag("--no-python", options.no_python, "no Python frames");
  verb.add_flag("--no-native", options.no_native, "no native frames");
  verb.add_flag("--no-mpi", options.no_mpi, "do not record calls of MPI");
  verb.add_flag("-q,--quiet", options.quiet, "print nothing but problems");
  verb.add_option("--here", options.here, "the job whose processes on this node are meant")->group("");
  verb.add_option("--run", options.run, "the run directory that the call on the first node has made")
      ->group("");
}

}  // namespace clusterprof::cli::attach
