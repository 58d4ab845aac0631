// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace clusterprof::cli {

// For a message: "a, b, c, d and 12 more".
inline std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamesInMessage = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesInMessage); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesInMessage)
    text += " and " + std::to_string(names.size() - kNamesInMessage) + " more";
  return text;
}

}  // namespace clusterprof::cli
