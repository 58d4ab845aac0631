// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "cli/install_layout.hpp"

namespace clusterprof::cli {

// The manual page about `topic` ("report", "run"; empty: clusterprof itself) below share/man of this
// installation; empty: there is none.
std::string find_manual_page(const InstallLayout& layout, const std::string& topic);

}  // namespace clusterprof::cli
