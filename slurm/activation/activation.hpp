// SPDX-License-Identifier: BSD-3-Clause
// What has to be in the environment of a task for it to be recorded, and who wants that.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "slurm/activation/options.hpp"

namespace clusterprof::slurm {

// The value of a variable of the job, or none.
using JobVariable = std::function<std::optional<std::string>(const char* name)>;

// What the site says, in plugstack.conf.
struct Site {
  bool records_by_default = false;
  std::string root;  // of runs, with %u and %h
  std::string prefix;
  Variables variables;  // options that users may override
  std::vector<std::string> problems;
};
Site parse_site(const std::vector<std::string>& arguments);

// DIR/lib/clusterprof/spank_clusterprof.so and DIR/lib/clusterprof/slurm-22.05/spank_clusterprof.so are of
// the prefix DIR; empty: it is none of the two.
std::string prefix_of(const std::string& plugin);

// `option`: of the command line, if there was one; then CLUSTERPROF_SLURM counts, then the site. `opted_out`
// is asked only when the site's default decides.
struct Decision {
  enum Kind {
    kNothing,   // nobody asks for anything
    kActivate,  // with request.variables
    kStrip,     // what was asked for of the job is not wanted here
  } kind = kNothing;
  Request request;
  std::string problem;  // why a request is not followed; one line, or empty
};
Decision decide(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                const std::function<bool()>& opted_out);

// What begins, and whose it is.
struct Step {
  bool has_tasks = true;  // else it is a batch script or an interactive shell
  std::string user, home;
};
// Changes to the environment; an empty value removes.
Variables activate(const Decision& decision, const Site& site, const Step& step, const JobVariable& job);

// Why nothing of this installation can be loaded on this node; empty: it can.
std::string obstacle(const Site& site);
// ~/.clusterprof-off is there.
bool has_opted_out(const std::string& home);

std::string starter_of(const std::string& prefix);
std::string launcher_of(const std::string& prefix);

}  // namespace clusterprof::slurm
