// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/threads.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

namespace clusterprof::aggregator::whatif {
namespace {

using shard::OmpKind;

bool lets_one_through(OmpKind kind) {
  return kind == OmpKind::kSingle || kind == OmpKind::kLock || kind == OmpKind::kCritical ||
         kind == OmpKind::kAtomic || kind == OmpKind::kOrdered;
}

// Of regions that a main thread has begun, and that are in no other.
template <typename Row>
bool is_of_main(const Row& row) {
  return row.main != 0 && row.level == 0 && row.threads != 0;
}

}  // namespace

std::vector<float> factors_of_threads(const shard::ShardData& merged, double threads) {
  // While one thread works at a time, the others of the team wait: they cannot all wait for less time than
  // this.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, double>
      one_by_one_ns;  // rank, path, threads
  for (const shard::OmpConstruct& row : merged.omp_constructs)
    if (is_of_main(row) && row.threads > 1 && lets_one_through(row.kind))
      one_by_one_ns[{row.rank, row.region_path, row.threads}] +=
          static_cast<double>(row.wait_ns) / static_cast<double>(row.threads - 1);
  struct Time {
    double before_ns = 0, after_ns = 0;
  };
  std::map<std::uint32_t, Time> of_path;
  for (const shard::OmpRegion& row : merged.omp_regions) {
    if (!is_of_main(row) || row.path == 0 || row.path >= merged.paths.size()) continue;
    const double outside_ns = static_cast<double>(row.time_ns - std::min(row.mpi_ns, row.time_ns));
    const auto found = one_by_one_ns.find({row.rank, row.path, row.threads});
    const double serial_ns = found == one_by_one_ns.end() ? 0 : std::min(found->second, outside_ns);
    Time& time = of_path[row.path];
    time.before_ns += outside_ns;
    time.after_ns += serial_ns + (outside_ns - serial_ns) * static_cast<double>(row.threads) / threads;
  }
  if (of_path.empty()) return {};
  // What the threads of a region do is below its path.
  std::vector<float> factors(merged.paths.size(), 1);
  std::vector<bool> inside(merged.paths.size());
  for (std::uint32_t path = 1; path < merged.paths.size(); ++path) {
    const std::uint32_t parent = merged.paths[path].parent;
    const auto found = of_path.find(path);
    if (inside[parent]) {
      inside[path] = true;
      factors[path] = factors[parent];
    } else if (found != of_path.end()) {
      inside[path] = true;
      if (found->second.before_ns > 0)
        factors[path] = static_cast<float>(found->second.after_ns / found->second.before_ns);
    }
  }
  return factors;
}

}  // namespace clusterprof::aggregator::whatif
