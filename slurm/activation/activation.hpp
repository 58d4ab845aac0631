// SPDX-License-Identifier: BSD-3-Clause
// Decides whether a task is recorded, and what its environment must contain for that.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "slurm/activation/options.hpp"

namespace clusterprof::slurm {

// Returns the value of a variable of the job, if it is set.
using JobVariable = std::function<std::optional<std::string>(const char* name)>;

// Patterns, separated by commas. Empty: says nothing.
struct Filter {
  std::string only;   // of runs that nobody asked for, only these are recorded
  std::string never;  // these are not recorded, even if somebody asks
};

// What the site says, in plugstack.conf.
struct Site {
  bool records_by_default = false;
  Filter users, partitions, accounts, commands;
  double fraction = 1;  // of the jobs that nobody asked to record
  std::string root;     // of runs, with %u and %h
  std::string prefix;
  std::string starter;  // on the node's own disk; empty: the one in the prefix
  Variables variables;  // options that users may override
  std::vector<std::string> problems;
};
Site parse_site(const std::vector<std::string>& arguments);

// The prefix DIR of DIR/lib/clusterprof/spank_clusterprof.so or
// DIR/lib/clusterprof/slurm-22.05/spank_clusterprof.so. Empty: the path is neither.
std::string prefix_of(const std::string& plugin);

// The starter beside a plugin that is outside of an installation: install_on_node puts both on the node's own
// disk. Empty: there is none.
std::string starter_beside(const std::string& plugin);

// Whether a job with this number is one of the sampled fraction. Equal on all nodes and for all steps of the
// job, and independent of any pattern in the numbers of jobs. A larger fraction contains each smaller one.
bool is_sampled(std::uint64_t job, double fraction);

// The command line's `option` counts first, if it was given, then CLUSTERPROF_SLURM, then the site's default.
struct Decision {
  enum Kind {
    kNothing,   // nobody asks for anything
    kActivate,  // with request.variables
    kStrip,     // remove the job's request: it does not hold here
  } kind = kNothing;
  Request request;
  std::string problem;        // why a request is not followed; one line, or empty
  bool is_asked_for = false;  // by the user, not only by the site's default
  // Which of the site's rules keeps the job from being recorded: a word that never changes, and the same as a
  // sentence. Empty: none.
  std::string reason, explanation;
};
// What must be looked up, and only if it decides.
struct UserFacts {
  std::function<bool()> opted_out;
  std::function<std::string()> name;
};
Decision decide(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                const UserFacts& user);
// The same before it is known where the job will run and what its number is: without the site's filters.
Decision decide_unfiltered(const std::optional<std::string>& option, const Site& site, const JobVariable& job,
                           const UserFacts& user);
// Whether the user is told why there is no recording.
bool is_explained(const Decision& decision, const JobVariable& job);

// The task that starts, and its user.
struct Step {
  bool has_tasks = true;  // false: a batch script or an interactive shell
  // Must be looked up; called only where the site's root has them and the job has none of its own.
  std::function<std::string()> user, home;
};
// Changes to the environment. An empty value removes the variable.
Variables activate(const Decision& decision, const Site& site, const Step& step, const JobVariable& job);

// Why this installation cannot be loaded on this node. Empty: it can. Looks at nothing in the prefix if the
// starter is elsewhere: the prefix may be on a file system that does not answer, which the starter can cope
// with.
std::string obstacle(const Site& site);
// The file by which the site has turned recording off on this node. Null: it has not.
const char* off_file();
// What is said to a user who has asked for a recording there.
std::string off_text(const char* file);
// Counts a step on this node for the site (formats/wire/site_counts.h). `reason`: a fixed word.
void count_as_unrecorded(const JobVariable& job, const std::string& reason);
// Whether ~/.clusterprof-off exists.
bool has_opted_out(const std::string& home);

std::string starter_of(const Site& site);
std::string launcher_of(const std::string& prefix);

}  // namespace clusterprof::slurm
