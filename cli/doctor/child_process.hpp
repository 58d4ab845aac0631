// SPDX-License-Identifier: BSD-3-Clause
// What may hang, print or crash is done in a child process.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// What `work` returned in a child process that has no terminal and prints nowhere; nullopt when it did not
// end within `patience` or did not end well. Then `timed_out` says which.
std::optional<std::string> run_in_child(std::chrono::milliseconds patience,
                                        const std::function<std::string()>& work, bool& timed_out);

// Standard input is empty. The command and what it started in its process group is killed at the end of
// `patience`.
CommandOutcome run_command(const std::vector<std::string>& command, std::chrono::milliseconds patience);

}  // namespace clusterprof::cli::doctor
