// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/options.hpp"

#include <CLI/CLI.hpp>

namespace clusterprof::cli::doctor {

void define_options(CLI::App& verb, Options& options) {
  verb.description(
      "Checks what this machine can measure, what it costs if something is missing, and how to fix it");
  verb.add_option("RUN_OR_DIR", options.request.directory,
                  "where runs are to be written (default: CLUSTERPROF_ROOT, else here)");
  verb.add_flag("--json", options.json, "print JSON");
  verb.add_flag("-v,--verbose", options.verbose,
                "also show what is ok, and list events, interpreters and libraries");
  verb.add_flag("--quick", options.request.quick,
                "take less than a second: run no commands, contact nothing outside this node");
  verb.add_flag("--node", options.request.node, "check only what may differ between nodes");
  CLI::Option* const site =
      verb.add_flag("--site", options.request.site,
                    "ask the nodes of this job, or those named, through srun, and print "
                    "what differs between them");
  verb.add_option("-w,--nodes", options.request.nodes, "the nodes that --site asks, as n[1-4]")
      ->type_name("LIST")
      ->needs(site);
  verb.add_option("-p,--partition", options.request.partition, "with --site: all nodes of it that are up")
      ->type_name("NAME")
      ->needs(site);
  verb.add_flag("--answer", options.request.answer, "answer to --site")->group("");
  verb.add_flag("--self-test", options.request.self_test,
                "record programs of known behaviour and show how far off their profiles are; takes 15 s")
      ->excludes("--quick")
      ->excludes("--node")
      ->excludes("--site");
  verb.add_option("--color,--colour", options.colour, "auto (default): on terminals, unless NO_COLOR is set")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

}  // namespace clusterprof::cli::doctor
