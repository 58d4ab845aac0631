// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/merge_plan.hpp"

#include <sys/stat.h>

#include <utility>

namespace clusterprof::aggregator {

FileState state_of(const std::filesystem::path& path) {
  struct ::stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {static_cast<std::uint64_t>(found.st_size), found.st_ino, found.st_mtim.tv_sec,
          found.st_mtim.tv_nsec};
}

bool is_later(const FileState& a, const FileState& b) {
  return std::pair(a.modified_s, a.modified_ns) > std::pair(b.modified_s, b.modified_ns);
}

}  // namespace clusterprof::aggregator
