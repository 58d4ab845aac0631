// SPDX-License-Identifier: BSD-3-Clause
// Predicts what candidates (report/analysis/gains.hpp) would gain, by replaying a run (aggregator/whatif).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string_view>
#include <vector>

#include "aggregator/whatif/whatif.hpp"
#include "base/result.hpp"
#include "formats/profile/gains.hpp"
#include "report/analysis/gains.hpp"

namespace clusterprof::cli {

// What an MPI event of a run that is replayed takes of memory, about, with what is known of the time between
// events.
inline constexpr std::uint64_t kEventBytes = 500;
// A replay takes this many where the system does not say how much memory there is.
inline constexpr std::uint64_t kUsualMostEvents = 20'000'000;

// How many MPI events a replay takes if nobody asks for more: those that four fifths of the available memory
// have room for. `meminfo`: the text of /proc/meminfo.
std::uint64_t most_events_in(std::string_view meminfo);
// On this machine, now.
std::uint64_t most_events();

// How many MPI events the shards of the run have, without reading these. Error: it has no shards, or one
// cannot be read.
Result<std::uint64_t> events_of(const std::filesystem::path& run);

// Reads all shards of the run, and prepares the replay. Error: it cannot be replayed, and why; among others
// it has more events than `most_events`.
Result<void> read_shards_of(const std::filesystem::path& run, std::uint64_t most_events,
                            aggregator::whatif::WhatIf& whatif);

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
