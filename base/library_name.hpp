// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

#include "base/base_name.hpp"

namespace clusterprof {

// What a file is called, without the version of a shared library: "libc.so" for "/lib/libc.so.6",
// "libc-2.31.so" and "libc.so". What does not look like a version stays: "libavx512.so". For comparing runs
// whose libraries have been updated.
inline std::string unversioned_name(std::string_view path) {
  constexpr std::string_view kSuffix = ".so", kVersion = "0123456789.";
  const std::string_view name = base_name(path);
  const std::size_t suffix = name.rfind(kSuffix);
  if (suffix == std::string_view::npos || suffix == 0) return std::string(name);
  const std::string_view behind = name.substr(suffix + kSuffix.size());
  if (!behind.empty() && (behind[0] != '.' || behind.find_first_not_of(kVersion) != std::string_view::npos))
    return std::string(name);
  std::string_view stem = name.substr(0, suffix);
  // A number belongs to the name, unless a hyphen or an underscore is before it, or a dot in it.
  const std::size_t last = stem.find_last_not_of(kVersion);
  if (last != std::string_view::npos && last > 0 && last + 1 < stem.size()) {
    if (stem[last] == '-' || stem[last] == '_')
      stem = stem.substr(0, last);
    else if (stem.find('.', last) != std::string_view::npos)
      stem = stem.substr(0, last + 1);
  }
  return std::string(stem) + std::string(kSuffix);
}

}  // namespace clusterprof
