// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/result.hpp"

namespace clusterprof {

// The paths that --own was given, singly or as colon-separated lists: absolute and without duplicates.
inline Result<std::vector<std::string>> own_paths(const std::vector<std::string>& given) {
  std::vector<std::string> paths;
  for (const std::string& list : given) {
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(':', at), list.size());
      const std::string path = list.substr(at, end - at);
      at = end + 1;
      if (path.empty()) return Error{"an empty path in '" + list + "'"};
      std::error_code error;
      std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
      if (error) return Error{path + ": " + error.message()};
      while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
      if (std::find(paths.begin(), paths.end(), absolute) == paths.end())
        paths.push_back(std::move(absolute));
    }
  }
  return paths;
}

}  // namespace clusterprof
