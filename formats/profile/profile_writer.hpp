// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <vector>

#include "base/result.hpp"
#include "formats/profile/source.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// Writes the merged data of a run, the statistics over its ranks and where it comes from, with
// the guarantees of shard::write_shard.
Result<void> write_profile(const shard::ShardData& merged, const std::filesystem::path& path,
                           const std::vector<Source>& sources = {});

}  // namespace clusterprof::profile
