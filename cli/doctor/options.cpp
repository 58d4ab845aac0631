// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/options.hpp"

#include <CLI/CLI.hpp>

namespace clusterprof::cli::doctor {

void define_options(CLI::App& verb, Options& options) {
  verb.description(
      "Checks what this machine can measure, what it costs if something is missing, and how to mend it");
  verb.add_option("RUN_OR_DIR", options.request.directory,
                  "where runs are to be written (default: CLUSTERPROF_ROOT, else here)");
  verb.add_flag("--json", options.json, "as JSON");
  verb.add_flag("-v,--verbose", options.verbose,
                "what is ok, too, and lists of events, interpreters and libraries");
  verb.add_flag("--quick", options.request.quick,
                "in less than a second: no commands are run, nothing beyond this node is touched");
  verb.add_flag("--node", options.request.node, "only what may differ from node to node");
  verb.add_flag("--self-test", options.request.self_test,
                "record programs that know what their profile has to say, and tell how far off it is; 20 s")
      ->excludes("--quick")
      ->excludes("--node");
  verb.add_option("--color,--colour", options.colour, "auto (default): on terminals, unless NO_COLOR is set")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

}  // namespace clusterprof::cli::doctor
