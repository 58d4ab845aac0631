// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace clusterprof::cli::attach {

// The content of a file, such as one of /proc; empty where it cannot be read.
inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace clusterprof::cli::attach
