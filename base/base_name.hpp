// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace clusterprof {

// What is behind the last slash; all of it where there is none.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace clusterprof
