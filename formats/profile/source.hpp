// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace clusterprof::profile {

// A shard that was in the run directory when the profile was made.
struct Source {
  std::string name;  // file name without directory
  std::uint64_t size_bytes = 0;
  bool merged = true;  // false: damaged and left out
  friend bool operator==(const Source&, const Source&) = default;
};

}  // namespace clusterprof::profile
