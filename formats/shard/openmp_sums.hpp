// SPDX-License-Identifier: BSD-3-Clause
// What a rank's OpenMP regions took, as sums: of the whole run (of tables omp_regions and omp_constructs) and
// over time (series, whose bins have the parts of the same sums).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::shard {

// Whether those that wait there can do so only because another thread works.
constexpr bool lets_one_through(OmpKind kind) {
  return kind == OmpKind::kSingle || kind == OmpKind::kLock || kind == OmpKind::kCritical ||
         kind == OmpKind::kAtomic || kind == OmpKind::kOrdered;
}

// Of the regions that the rank's main thread has begun and that are in no other one. Each number only grows
// while the rank runs.
struct OmpSums {
  std::uint64_t region_ns = 0;  // elapsed
  std::uint64_t mpi_ns = 0;     // of that, in MPI: of the main thread
  std::uint64_t team_ns = 0;    // region_ns times the threads of the team
  // Of all threads of the teams, as in OmpThread.
  std::uint64_t threads_ns = 0, wait_ns = 0, inner_wait_ns = 0, schedule_ns = 0;
  std::uint64_t one_by_one_ns = 0;  // of inner_wait_ns, in constructs that let one thread through at a time
  std::uint64_t asking_ns = 0;      // of threads_ns, for parts of loops

  static constexpr bool counts(std::uint8_t main, std::uint8_t level) { return main != 0 && level == 0; }
  void add(const OmpRegion& region) {
    region_ns += region.time_ns;
    mpi_ns += region.mpi_ns;
    team_ns += region.time_ns * region.threads;
    threads_ns += region.threads_ns;
    wait_ns += region.wait_ns;
    inner_wait_ns += region.inner_wait_ns;
    schedule_ns += region.schedule_ns;
  }
  void add(const OmpConstruct& construct) {
    if (lets_one_through(construct.kind)) one_by_one_ns += construct.wait_ns;
    asking_ns += construct.schedule_ns;
  }
  void add(const OmpSums& other);
  friend bool operator==(const OmpSums&, const OmpSums&) = default;
};

// The names of their series.
inline constexpr std::array<std::pair<std::string_view, std::uint64_t OmpSums::*>, 9> kOmpSeries = {{
    {"openmp_region_ns", &OmpSums::region_ns},
    {"openmp_region_mpi_ns", &OmpSums::mpi_ns},
    {"openmp_team_ns", &OmpSums::team_ns},
    {"openmp_threads_ns", &OmpSums::threads_ns},
    {"openmp_wait_ns", &OmpSums::wait_ns},
    {"openmp_inner_wait_ns", &OmpSums::inner_wait_ns},
    {"openmp_schedule_ns", &OmpSums::schedule_ns},
    {"openmp_one_by_one_ns", &OmpSums::one_by_one_ns},
    {"openmp_asking_ns", &OmpSums::asking_ns},
}};

inline void OmpSums::add(const OmpSums& other) {
  for (const auto& [name, field] : kOmpSeries) this->*field += other.*field;
}

}  // namespace clusterprof::shard
