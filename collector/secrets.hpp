// SPDX-License-Identifier: BSD-3-Clause
// Passwords and keys on the command line of the recorded program, which a profile is not to spread.
#pragma once

#include <string>
#include <vector>

namespace clusterprof::collector {

// Puts *** in place of the values of words like --password=VALUE, --api-key VALUE, TOKEN=VALUE and
// scheme://user:VALUE@host, by what they are called.
void mask_secrets(std::vector<std::string>& words);

}  // namespace clusterprof::collector
