// SPDX-License-Identifier: BSD-3-Clause
// The step of a Slurm job in which `clusterprof attach` runs on each node. It lasts as long as the recording,
// since Slurm ends what a step leaves behind, the collectors.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace clusterprof::cli::attach {

// What the task of a node writes to stderr, behind all else, when it has attached to so many processes.
std::string line_of_step(int attached);

// For the lines of all nodes, once the first one is there.
inline constexpr std::chrono::milliseconds kNodePatience{60'000};

// Starts the command (srun and its arguments) in a session of its own, and passes on to stderr what it says,
// until `nodes` tasks have written their line, or until it has been patient; it goes on then. Whose task has
// been killed, its line does not come. An interrupt (SIGINT, SIGTERM, SIGHUP) ends the command. Returns 0 if
// one of the tasks has attached to a process, and 1 if none has; or the command's own exit status, if it ends
// before.
int begin_step(const std::vector<std::string>& command, int nodes,
               std::chrono::milliseconds patience = kNodePatience);

}  // namespace clusterprof::cli::attach
