// SPDX-License-Identifier: BSD-3-Clause
// How a site turns recording off on a node, also in running jobs: by a file of any content. Both places are
// on the node itself, since looking for a file on a file server may take for ever. The second is empty again
// after the node has started anew.
#pragma once

namespace clusterprof::wire {

inline constexpr const char* kOffFiles[] = {"/etc/clusterprof/off", "/run/clusterprof/off"};

// The first of these files that is there, asked by `is_there(path)`. Null: none.
template <typename IsThere>
constexpr const char* off_file(IsThere is_there) {
  for (const char* const path : kOffFiles)
    if (is_there(path)) return path;
  return nullptr;
}

}  // namespace clusterprof::wire
