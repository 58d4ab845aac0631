// SPDX-License-Identifier: BSD-3-Clause
// Golden files of the versions that are written now.
#pragma once

#include <cstddef>

namespace clusterprof::fuzz {

inline constexpr const char* kNewestShard = CLUSTERPROF_GOLDEN "/shard/v1.5/node-node0000.h5";
inline constexpr const char* kNewestProfile = CLUSTERPROF_GOLDEN "/profile/v2.2/profile.h5";

// Bytes of an AnalysisBuilder's state before what there is of its ranks: header and sizes of the run.
inline constexpr std::size_t kStateHead = 3 * 8 + 6 * 8;

}  // namespace clusterprof::fuzz
