// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace clusterprof {

// The part after the last slash, or the whole path if it has none.
inline std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace clusterprof
