// SPDX-License-Identifier: BSD-3-Clause
// The golden files.
#pragma once

#include <cstddef>

namespace clusterprof::fuzz {

inline constexpr const char* kGoldenShard = CLUSTERPROF_GOLDEN "/shard/node-node0000.h5";
inline constexpr const char* kGoldenProfile = CLUSTERPROF_GOLDEN "/profile/profile.h5";

// Bytes of an AnalysisBuilder's state before what there is of its ranks: header and sizes of the run.
inline constexpr std::size_t kStateHead = 3 * 8 + 6 * 8;

// Bytes of a live state before its content: magic, layout, sequence, bytes of the content, its checksum, and
// that of all this.
inline constexpr std::size_t kLiveHead = 6 * 8;

}  // namespace clusterprof::fuzz
