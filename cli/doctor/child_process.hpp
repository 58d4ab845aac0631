// SPDX-License-Identifier: BSD-3-Clause
// Runs work that may hang, print or crash in a child process.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// Returns the result of `work`, run in a child process that has no terminal and whose output is dropped.
// nullopt when it did not end within `patience` or failed; `timed_out` tells which of the two.
std::optional<std::string> run_in_child(std::chrono::milliseconds patience,
                                        const std::function<std::string()>& work, bool& timed_out);

// Runs a command with empty standard input. After `patience`, the command and all that it started in its
// process group are killed.
CommandOutcome run_command(const std::vector<std::string>& command, std::chrono::milliseconds patience);

}  // namespace clusterprof::cli::doctor
