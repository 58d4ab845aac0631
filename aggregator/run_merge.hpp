// SPDX-License-Identifier: BSD-3-Clause
// The merge of a run directory in two passes: docs/design/0010-merging-at-scale.md. Internal to aggregator/.
#pragma once

#include <filesystem>

#include "aggregator/merge_options.hpp"
#include "base/result.hpp"

namespace clusterprof::aggregator {

// `profile` is the path of the new profile. `fallback` is used where that cannot be written; it may be empty.
// `made` is the one of the two that was written, empty when neither was.
struct Destination {
  std::filesystem::path profile, fallback;
  std::filesystem::path made;
};

Result<MergeReport> merge_shards(const std::filesystem::path& run_dir, const MergeOptions& options,
                                 Destination& destination);

}  // namespace clusterprof::aggregator
