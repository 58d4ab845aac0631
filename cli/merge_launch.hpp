// SPDX-License-Identifier: BSD-3-Clause
// `mpirun clusterprof merge RUN`: decides which program merges, and whether all processes of the job take
// part or only one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/identity.hpp"
#include "cli/install_layout.hpp"

namespace clusterprof::cli {

// Why a program cannot be executed.
struct ProgramProblem {
  std::string text;
  bool of_this_node = false;  // it is there; another node may have what it needs
};

struct MergeLaunch {
  std::string program;  // of the MPI family that the job belongs to; empty: one process merges
  ProgramProblem alone_because;
};

// Returns nothing if `program` runs on this machine with all its libraries.
using ProgramCheck = std::function<std::optional<ProgramProblem>(const std::string& program)>;
std::optional<ProgramProblem> check_by_running(const std::string& program);

// The result is the same in all processes of a job whose nodes have the same software. `of_parent`: the
// environment of the process that started this one. Only processes that the launcher itself started may take
// part: a script may call clusterprof in some processes and not in others, or from within an MPI program.
MergeLaunch choose_merge_program(const InstallLayout& layout, const Environment& environment,
                                 const Environment& of_parent, const ProgramCheck& check = check_by_running);

// The environment with which the parent process was executed. Empty when we may not read it: a launcher's
// daemon of another user.
Environment environment_of_parent();

// Removes variables that a recorded process, or a clusterprof around this one, set for the agent.
void remove_agent_from_environment();

// Runs the whole verb: `argv` of clusterprof, with "merge" as its first argument. Returns an exit status only
// when nothing could be executed or nothing is to be done.
int launch_merge(int argc, char** argv, const Environment& environment);

}  // namespace clusterprof::cli
