// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/source.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// As shard::read_shard and shard::read_shard_summary.
Result<shard::ShardData> read_profile(const std::filesystem::path& path);
Result<shard::ShardData> read_profile_summary(const std::filesystem::path& path);

// One row per path of the profile.
Result<std::vector<PathStatistics>> read_path_statistics(const std::filesystem::path& path);

Result<std::vector<Source>> read_sources(const std::filesystem::path& path);

}  // namespace clusterprof::profile
