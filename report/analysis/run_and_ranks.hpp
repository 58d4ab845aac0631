// SPDX-License-Identifier: BSD-3-Clause
// Copies what the profile records of the run, its nodes and its ranks.
#pragma once

#include <cstdint>
#include <optional>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/partial_sums.hpp"

namespace clusterprof::report {

RunInfo describe_run(const shard::ShardData& data);

// RunInfo::snapshot_utc_ns
std::int64_t snapshot_utc_ns(const shard::ShardData& data);

// Analysis::nodes, but for what rows and find_run_state() say of them.
void describe_nodes(const shard::ShardData& data, Analysis& analysis);
// Analysis::nodes, ranks (but for what rows say of them), run.commands, category_s, rank_seconds.
void describe_ranks(const shard::ShardData& data, const RankOrder& order, Analysis& analysis);

// The efficiencies and what they are computed from.
void find_efficiency(const shard::ShardData& data, const RankOrder& order, Analysis& analysis);

// Analysis::quality. After describe_ranks().
void find_quality(const shard::ShardData& data, Analysis& analysis);

// No MPI call seen although it would have been: the time in MPI is a measured zero.
std::uint64_t runnable_ns(const shard::Rank& rank, bool cpu_clock);

bool measures_mpi(const shard::Rank& rank);

// MPI is measured; samples say how the rest divides. Under the CPU clock samples do not add up
// to elapsed time, so there they stand as they are and blocked time is unknown.
OptionalCategorySeconds main_thread_categories(const shard::Rank& rank, bool cpu_clock);

// The one with most useful time; empty without MPI.
std::optional<std::int32_t> slowest_rank(const shard::ShardData& data, const RankOrder& order);

}  // namespace clusterprof::report
