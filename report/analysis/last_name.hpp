// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace clusterprof::report {

// The part of a qualified name of Python after its last dot.
inline std::string_view last_name(std::string_view qualified) {
  return qualified.substr(qualified.rfind('.') + 1);
}

}  // namespace clusterprof::report
