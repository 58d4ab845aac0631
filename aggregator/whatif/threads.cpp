// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/threads.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>

#include "formats/shard/openmp_sums.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

// Of the work of a region's threads: if one of them did so much of it, the others had nothing to do.
constexpr double kAllOfIt = 0.95;

// Of regions that a main thread has begun, and that are in no other.
template <typename Row>
bool is_of_main(const Row& row) {
  return row.main != 0 && row.level == 0 && row.threads != 0;
}

// Whether the team had several threads, and all work was one thread's.
bool is_one_threads_work(const shard::OmpRegion& row) {
  const std::uint64_t beside_ns = row.wait_ns + row.inner_wait_ns + row.schedule_ns;
  const std::uint64_t work_ns = row.threads_ns - std::min(beside_ns, row.threads_ns);
  return row.longest_ns != 0 &&
         static_cast<double>(row.longest_ns) >= kAllOfIt * static_cast<double>(work_ns);
}

}  // namespace

ThreadFactors::ThreadFactors(const shard::ShardData& merged, double threads) {
  // While one thread works at a time, the others of the team wait: they cannot all wait for less time than
  // this.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, double>
      one_by_one_ns;  // rank, path, threads
  for (const shard::OmpConstruct& row : merged.omp_constructs)
    if (is_of_main(row) && row.threads > 1 && shard::lets_one_through(row.kind))
      one_by_one_ns[{row.rank, row.region_path, row.threads}] +=
          static_cast<double>(row.wait_ns) / static_cast<double>(row.threads - 1);
  // A team of one thread has the program's reasons (`if`, `num_threads`), and keeps them, unless the rank was
  // set to one thread altogether.
  std::set<std::uint32_t> has_teams;  // ranks
  for (const shard::OmpRegion& row : merged.omp_regions)
    if (is_of_main(row) && row.threads > 1) has_teams.insert(row.rank);
  struct Time {
    double before_ns = 0, after_ns = 0;
  };
  std::map<std::uint64_t, Time> of_region;
  for (const shard::OmpRegion& row : merged.omp_regions) {
    if (!is_of_main(row) || row.path == 0 || row.path >= merged.paths.size()) continue;
    const double outside_ns = static_cast<double>(row.time_ns - std::min(row.mpi_ns, row.time_ns));
    const auto found = one_by_one_ns.find({row.rank, row.path, row.threads});
    const bool stays = row.threads > 1 ? is_one_threads_work(row) : has_teams.contains(row.rank);
    const double serial_ns = stays                          ? outside_ns
                             : found == one_by_one_ns.end() ? 0
                                                            : std::min(found->second, outside_ns);
    Time& time = of_region[std::uint64_t{row.rank} << 32 | row.path];
    time.before_ns += outside_ns;
    time.after_ns += serial_ns + (outside_ns - serial_ns) * static_cast<double>(row.threads) / threads;
  }
  bool any = false;
  for (const auto& [key, time] : of_region) {
    of_region_[key] = time.before_ns > 0 ? static_cast<float>(time.after_ns / time.before_ns) : 1;
    any = any || time.before_ns > 0;
  }
  if (!any) {
    of_region_.clear();
    return;
  }
  // What the threads of a region do is below its path.
  std::vector<bool> is_region(merged.paths.size());
  for (const auto& [key, time] : of_region) is_region[key & UINT32_MAX] = true;
  region_.resize(merged.paths.size());
  around_.resize(merged.paths.size());
  for (std::uint32_t path = 1; path < merged.paths.size(); ++path) {
    around_[path] = region_[merged.paths[path].parent];
    region_[path] = is_region[path] ? path : around_[path];
  }
}

}  // namespace clusterprof::aggregator::whatif
