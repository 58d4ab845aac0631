// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// Loads PAPI into this process and collects all that it offers. Runs in a child process. Returns text that
// papi_facts_of parses.
std::string ask_papi();
PapiFacts papi_facts_of(const std::string& text);

}  // namespace clusterprof::cli::doctor
