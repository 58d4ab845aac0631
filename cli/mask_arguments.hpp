// SPDX-License-Identifier: BSD-3-Clause
// What everybody on the machine can see of this process (ps).
#pragma once

#include <span>

namespace clusterprof::cli {

// Overwrites with stars what mask_secrets() masks, in the words that the process was started with: they are
// those of a program which may hide its own, and the launcher is there as long as it is.
void mask_argument_secrets(std::span<char* const> words);

}  // namespace clusterprof::cli
