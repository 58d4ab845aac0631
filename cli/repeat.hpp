// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof run --repeat N -- [LAUNCHER] COMMAND`: records a command several times, so that it is known
// how much runs vary.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/options.hpp"

namespace clusterprof::cli {

// The command with `recorder` (clusterprof and its options) where it belongs: before the program, behind a
// launcher and its options. Where the user has put clusterprof there already, the options follow that word.
// With several programs (mpirun ... : ...) before each. An error: it cannot be told where a program begins.
Result<std::vector<std::string>> recorded_command(const std::vector<std::string>& command,
                                                  const std::vector<std::string>& recorder);

// Ends at the first run that fails, with its status. Does not return to what it has been called from with
// signals as they were.
int repeat(const Options& options);

}  // namespace clusterprof::cli
