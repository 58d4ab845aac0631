// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// Loads PAPI into this process and asks it for everything it has: done in a child process. As text, which
// papi_facts_of reads again.
std::string ask_papi();
PapiFacts papi_facts_of(const std::string& text);

}  // namespace clusterprof::cli::doctor
