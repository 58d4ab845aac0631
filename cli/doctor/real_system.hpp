// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

#include "cli/doctor/system.hpp"

namespace clusterprof::cli::doctor {

// The System for the machine that this process runs on.
std::unique_ptr<System> this_machine();

}  // namespace clusterprof::cli::doctor
