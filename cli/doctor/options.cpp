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
  verb.add_flag("--self-test", options.request.self_test,
                "record programs of known behaviour and show how far off their profiles are; takes 20 s")
      ->excludes("--quick")
      ->excludes("--node");
  verb.add_option("--color,--colour", options.colour, "auto (default): on terminals, unless NO_COLOR is set")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

}  // namespace clusterprof::cli::doctor
