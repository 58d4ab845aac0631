// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/leading_number.hpp"

namespace clusterprof {

// N of the line "LABEL N kB" of /proc/meminfo. Nothing: there is no such line, or no number in it.
inline std::optional<std::uint64_t> kilobytes_of(std::string_view meminfo, std::string_view label) {
  while (!meminfo.empty()) {
    std::string_view line = meminfo.substr(0, meminfo.find('\n'));
    meminfo.remove_prefix(std::min(line.size() + 1, meminfo.size()));
    if (!line.starts_with(label)) continue;
    line.remove_prefix(label.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return leading_number<std::uint64_t>(line);
  }
  return std::nullopt;
}

}  // namespace clusterprof
