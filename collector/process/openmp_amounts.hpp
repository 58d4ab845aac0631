// SPDX-License-Identifier: BSD-3-Clause
// What a process has told of its OpenMP regions (formats/wire/openmp.h). Paths are nodes of the RawStore;
// times are in nanoseconds. Plain data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "formats/wire/segment.h"

namespace clusterprof::collector {

// The process may have written anything: sums of it stay at the largest number.
inline void add_amount(std::uint64_t& sum, std::uint64_t amount) {
  sum += std::min(amount, std::numeric_limits<std::uint64_t>::max() - sum);
}

// A region: the call that began it, and what tells apart the teams that run it.
struct RawOmpRegionKey {
  std::uint32_t path = 0;
  std::uint32_t threads = 0;
  wire::OmpConstruct construct = wire::OmpConstruct::kParallel;
  std::uint8_t level = 0;
  bool main = true;  // begun by the main thread of the rank, outside all regions
  friend auto operator<=>(const RawOmpRegionKey&, const RawOmpRegionKey&) = default;
};

struct RawOmpThread {
  std::uint64_t count = 0, time_ns = 0, wait_ns = 0, inner_wait_ns = 0, schedule_ns = 0;
  void add(const RawOmpThread& other) {
    add_amount(count, other.count);
    add_amount(time_ns, other.time_ns);
    add_amount(wait_ns, other.wait_ns);
    add_amount(inner_wait_ns, other.inner_wait_ns);
    add_amount(schedule_ns, other.schedule_ns);
  }
};

struct RawOmpConstructKey {
  std::uint32_t path = 0;  // below that of the region
  wire::OmpConstruct construct = wire::OmpConstruct::kBarrier;
  friend auto operator<=>(const RawOmpConstructKey&, const RawOmpConstructKey&) = default;
};

// Sums over the threads of the team.
struct RawOmpConstruct {
  std::uint64_t count = 0, time_ns = 0, wait_ns = 0, schedule_ns = 0, chunks = 0, iterations = 0;
  std::uint64_t longest_ns = 0;  // what the thread with the most time spent there, waiting left out
  std::uint32_t threads = 0;     // that were there
  std::uint8_t schedules = 0;    // wire::OmpSchedules
  void add(const RawOmpConstruct& other) {
    add_amount(count, other.count);
    add_amount(time_ns, other.time_ns);
    add_amount(wait_ns, other.wait_ns);
    add_amount(schedule_ns, other.schedule_ns);
    add_amount(chunks, other.chunks);
    add_amount(iterations, other.iterations);
    add_amount(longest_ns, other.longest_ns);
    threads = other.threads > threads ? other.threads : threads;
    schedules |= other.schedules;
  }
};

struct RawOmpRegion {
  std::uint64_t count = 0, time_ns = 0, mpi_ns = 0, longest_ns = 0;
  std::uint64_t unfinished = 0;  // under way: in time_ns and mpi_ns, and in nothing else
  std::uint64_t asked = 0;
  std::map<std::uint32_t, RawOmpThread> threads;  // by number
  std::map<RawOmpConstructKey, RawOmpConstruct> constructs;
  void add(const RawOmpRegion& other) {
    add_amount(count, other.count);
    add_amount(time_ns, other.time_ns);
    add_amount(mpi_ns, other.mpi_ns);
    add_amount(longest_ns, other.longest_ns);
    add_amount(unfinished, other.unfinished);
    asked = other.asked > asked ? other.asked : asked;
    for (const auto& [number, thread] : other.threads) threads[number].add(thread);
    for (const auto& [key, construct] : other.constructs) constructs[key].add(construct);
  }
};

struct RawOpenMp {
  wire::OmpMethod method = wire::OmpMethod::kNone;
  std::uint32_t flags = 0;  // wire::OmpFlags
  std::string runtime;
  std::array<std::uint64_t, wire::kOmpProcessorWords> processors{};  // that threads of teams may run on
  std::map<RawOmpRegionKey, RawOmpRegion> regions;
  // Another process of the same rank, or what this one did before it executed another program. `keep_main`:
  // its main thread is the rank's.
  void add(const RawOpenMp& other, bool keep_main) {
    if (method == wire::OmpMethod::kNone) {
      method = other.method;
      runtime = other.runtime;
    }
    flags |= other.flags;
    if (keep_main)
      for (std::size_t i = 0; i < processors.size(); ++i) processors[i] |= other.processors[i];
    for (const auto& [other_key, region] : other.regions) {
      RawOmpRegionKey key = other_key;
      key.main = key.main && keep_main;
      regions[key].add(region);
    }
  }
};

}  // namespace clusterprof::collector
