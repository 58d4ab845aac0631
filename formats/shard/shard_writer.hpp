// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Writes `data` to `path` in the format of FORMATS.md. A reader sees the file that was there
// before or the whole new one: the data goes to a temporary file in the same directory,
// reaches the disk (fsync) and is renamed over `path`. An existing file is replaced, keeping
// nothing of it; its mode is that of a new file (0666 less the umask). On error nothing is
// left behind.
//
// `data` must be consistent: indices in range, parents before children, events and series in
// order (else Error). The tables of rows with a rank and a path that FORMATS.md marks "by rank"
// are written sorted by both; their order in memory does not matter. Several threads may write at the same
// time, to different paths.
Result<void> write_shard(const ShardData& data, const std::filesystem::path& path);

}  // namespace clusterprof::shard
