// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

PathTime::PathTime(const shard::ShardData& head, std::optional<std::int32_t> separate_rank)
    : cells_(head.paths.size() * shard::kCategories), separate_rank_(separate_rank) {}

void PathTime::add(const RankInput& rank) {
  if (rank.values.empty()) return;
  const bool used_mpi = (rank.of->flags & shard::kUsedMpi) != 0;
  std::vector<std::uint64_t>& group = groups_[(used_mpi ? kUsedMpi : 0) | (rank.sampled ? 0 : kUnsampled)];
  group.resize(cells_ * 2);
  cpu_ns_.resize(cells_);
  for (const shard::Value& value : rank.values) {
    group[cell_of(value) * 2 + (value.main_thread ? 0 : 1)] += value.wall_ns;
    cpu_ns_[cell_of(value)] += value.cpu_ns;
  }

  if (!separate_rank_ || rank.of->rank != *separate_rank_ || !used_mpi) return;
  separate_rank_ns_.resize(cells_);
  for (const shard::Value& value : rank.values)
    if (value.main_thread) separate_rank_ns_[cell_of(value)] += value.wall_ns;
}

}  // namespace clusterprof::report
