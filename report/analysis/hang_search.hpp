// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/hang.hpp"

namespace clusterprof::report {

// How long nothing must have moved before anybody is said to hang.
inline constexpr std::uint64_t kStill_ns = 5'000'000'000;

// Whether a thread that is blocked at one place looks for something now and then, by its CPU time since.
bool wakes_up(const shard::Thread& thread);

// Whether the thread was there when its rank was last looked at.
bool was_alive(const shard::Thread& thread, const shard::Rank& rank);

// Linear in ranks, calls under way and members of their communicators. Empty: no rank has been waiting in an
// MPI call for that long, or nobody knows for whom.
std::optional<Hang> find_hang(const shard::ShardData& data, const CallPaths& paths);

// The members of the collective operation that the rank is in, or ended in, by what they say of it, where
// they do not say the same. Empty: they do, as far as is known, or it is in none.
std::vector<MismatchedRanks> find_mismatch(const shard::ShardData& data, const CallPaths& paths,
                                           std::int32_t rank);

}  // namespace clusterprof::report
