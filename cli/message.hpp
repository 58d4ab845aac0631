// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace clusterprof::cli {

// Exit statuses of clusterprof's own (a recorded command's status is passed on as it is).
inline constexpr int kExitUsage = 2;            // bad command line
inline constexpr int kExitFailed = 125;         // clusterprof itself failed
inline constexpr int kExitNotExecutable = 126;  // the command is there but cannot be run
inline constexpr int kExitNotFound = 127;       // there is no such command

// Writes "clusterprof: TEXT\n" to stderr with one write(2), so that lines of ranks do not mix.
void say(const std::string& text);

}  // namespace clusterprof::cli
