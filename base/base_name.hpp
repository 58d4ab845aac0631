// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace clusterprof {

// The part after the last slash, or the whole path if it has none.
inline std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace clusterprof
