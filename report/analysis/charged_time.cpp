// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/charged_time.hpp"

#include <algorithm>
#include <cmath>

namespace clusterprof::report {

using shard::Category;
using shard::Value;

std::uint64_t sampled_outside_mpi_ns(const shard::Rank& rank) {
  std::uint64_t sum = 0;
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    if (c != static_cast<std::size_t>(Category::kMpi)) sum += rank.main_thread_ns[c];
  return sum;
}

double sampled_scale(const shard::Rank& rank, bool cpu_clock) {
  const std::uint64_t sampled_ns = sampled_outside_mpi_ns(rank);
  if (cpu_clock || (rank.flags & shard::kUsedMpi) == 0 || sampled_ns == 0) return 1.0;
  const std::uint64_t recorded_ns = rank.elapsed_ns - std::min(rank.paused_ns, rank.elapsed_ns);
  const std::uint64_t rest_ns = recorded_ns - std::min(rank.mpi_ns, recorded_ns);
  return static_cast<double>(rest_ns) / static_cast<double>(sampled_ns);
}

std::vector<Value> charged_values(const shard::ShardData& data) {
  const bool cpu_clock = data.run.clock == "cpu";
  std::vector<double> scale;
  std::vector<bool> measured;
  for (const shard::Rank& rank : data.ranks) {
    scale.push_back(sampled_scale(rank, cpu_clock));
    measured.push_back(!cpu_clock && (rank.flags & shard::kUsedMpi) != 0);
  }
  std::vector<Value> charged;
  charged.reserve(data.values.size() + data.mpi_calls.size());
  for (const Value& value : data.values) {
    if (value.rank >= data.ranks.size() || value.path >= data.paths.size()) continue;
    if (measured[value.rank] && value.category == Category::kMpi) continue;
    Value row = value;
    if (value.main_thread)
      for (std::uint64_t* const ns : {&row.wall_ns, &row.cpu_ns})
        *ns = static_cast<std::uint64_t>(std::llround(static_cast<double>(*ns) * scale[value.rank]));
    charged.push_back(row);
  }
  for (const shard::MpiCall& call : data.mpi_calls) {
    if (call.rank >= data.ranks.size() || call.path >= data.paths.size() || !measured[call.rank]) continue;
    Value row;
    row.rank = call.rank;
    row.path = call.path;
    row.category = Category::kMpi;
    row.wall_ns = call.time_ns;
    charged.push_back(row);
  }
  return charged;
}

}  // namespace clusterprof::report
