// SPDX-License-Identifier: BSD-3-Clause
// Hides secrets in the command line of this process, which everybody on the machine can see (ps).
#pragma once

#include <span>

namespace clusterprof::cli {

// Overwrites with stars what mask_secrets() masks in the words that this process was started with. They are
// the command line of the recorded program too, and the launcher stays as long as the program does, which may
// hide its own.
void mask_argument_secrets(std::span<char* const> words);

}  // namespace clusterprof::cli
