// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Writes `data` to `path` in the format of FORMATS.md. Readers see either the old file or the whole new one:
// the data goes to a temporary file in the same directory, is flushed to disk (fsync), and then renamed to
// `path`. The mode is that of a new file (0666 less the umask), even if an old file is replaced. After an
// error nothing is left behind.
//
// `data` must be consistent, or an Error is returned: indices in range, parents before children, events and
// series in order. The tables that FORMATS.md marks "by rank" are sorted before they are written. Several
// threads may write at the same time, to different paths.
Result<void> write_shard(const ShardData& data, const std::filesystem::path& path);

// The bytes that write_shard() would write, for TwoCopies. `path` is for the Error alone.
Result<std::vector<std::byte>> shard_image(const ShardData& data, const std::filesystem::path& path);

}  // namespace clusterprof::shard
