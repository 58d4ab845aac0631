// SPDX-License-Identifier: BSD-3-Clause
// Predicts what candidates (report/analysis/gains.hpp) would gain, by replaying a run (aggregator/whatif).
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <vector>

#include "aggregator/whatif/whatif.hpp"
#include "base/result.hpp"
#include "formats/profile/gains.hpp"
#include "report/analysis/gains.hpp"

namespace clusterprof::cli {

// Reads all shards of the run, and prepares the replay. Error: it cannot be replayed, and why.
Result<void> read_shards_of(const std::filesystem::path& run, aggregator::whatif::WhatIf& whatif);

// Tries candidates one at a time, in their order, until so many were replayed. What cannot be predicted is no
// trial: it takes no replay.
profile::Gains gains_of(const aggregator::whatif::WhatIf& whatif,
                        const std::vector<report::GainCandidate>& candidates,
                        std::size_t most = std::numeric_limits<std::size_t>::max());

// The same while a run is merged: of a run that is long only as many candidates, or none, as take little time
// beside the merge. `refused` says why nothing was predicted.
profile::Gains predict_while_merging(const std::filesystem::path& run, const report::Analysis& analysis,
                                     const std::vector<report::GainCandidate>& candidates);

}  // namespace clusterprof::cli
