// SPDX-License-Identifier: BSD-3-Clause
// Hides secrets in the command line of this process, which everybody on the machine can see (ps).
#pragma once

#include <span>

namespace clusterprof::cli {

// Overwrites with stars what mask_secrets() masks in the arguments that this process was started with. They
// include the recorded program's arguments. That program may hide its own, but the launcher stays as long as
// it runs.
void mask_argument_secrets(std::span<char* const> words);

}  // namespace clusterprof::cli
