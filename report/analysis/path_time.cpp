// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

void PathTime::add(const RankInput& rank) {
  if (rank.values.empty()) return;
  const bool used_mpi = (rank.of->flags & shard::kUsedMpi) != 0;
  std::vector<Times>& group = groups_[(used_mpi ? kUsedMpi : 0) | (rank.sampled ? 0 : kUnsampled)];
  grow(group, cells_.size());
  grow(cpu_ns_, cells_.size());
  for (std::size_t i = 0; i < rank.values.size(); ++i) {
    const shard::Value& value = rank.values[i];
    Times& times = group[rank.cells[i]];
    (value.main_thread ? times.main_ns : times.helper_ns) += value.wall_ns;
    cpu_ns_[rank.cells[i]] += value.cpu_ns;
  }

  if (!separate_rank_ || rank.of->rank != *separate_rank_ || !used_mpi) return;
  grow(separate_rank_ns_, cells_.size());
  for (std::size_t i = 0; i < rank.values.size(); ++i)
    if (rank.values[i].main_thread) separate_rank_ns_[rank.cells[i]] += rank.values[i].wall_ns;
}

}  // namespace clusterprof::report
