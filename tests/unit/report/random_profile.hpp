// SPDX-License-Identifier: BSD-3-Clause
// Random profiles in which everything occurs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "profile_builder.hpp"

namespace clusterprof::report::testing {

inline shard::ShardData random_profile(std::uint64_t seed) {
  using shard::Category;
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t limit) { return static_cast<std::uint32_t>(random() % limit); };
  const auto one_in = [&](std::uint64_t n) { return below(n) == 0; };

  const std::uint32_t ranks = 2 + below(9);
  ProfileBuilder b(ranks, 1 + below(2));
  shard::ShardData& data = b.data;
  if (one_in(6)) data.run.clock = "cpu";
  for (shard::Node& node : data.nodes) {
    node.cpus = 64;
    node.cache_bytes = one_in(2) ? 1u << 20 : 256u << 20;
  }
  data.counters = {"page-faults", "PAPI_TOT_INS", "cache-misses"};
  if (one_in(2)) data.counters.pop_back();

  const std::array<const char*, 8> calls = {"read", "futex", "select", "nanosleep",
                                            "poll", "mmap",  "wait4",  "write"};
  const std::array<std::string_view, 4> below_calls = {shard::kGilWaitName, shard::kOnFileName,
                                                       shard::kOnSocketName, shard::kOnPipeName};
  std::vector<std::uint32_t> paths{0}, mpi_paths;
  const std::uint32_t size = 40 + below(80);
  while (paths.size() < size) {
    const std::uint32_t parent = paths[below(paths.size())];
    shard::Frame frame;
    const std::string number = std::to_string(below(12));
    switch (below(8)) {
      case 0:
      case 1:
        frame = b.python("f" + number, one_in(8) ? "<frozen importlib._bootstrap>" : "/u/a.py", below(30),
                         1 + below(9));
        break;
      case 2:
        frame = b.kernel(one_in(4)   ? shard::kPageFaultName
                         : one_in(3) ? below_calls[below(below_calls.size())]
                                     : std::string_view(calls[below(calls.size())]));
        break;
      case 3:
        frame = b.mpi(one_in(2) ? "MPI_Send" : "MPI_Allreduce");
        break;
      case 4:
        frame = parent == 0 || data.frames[data.paths[parent].frame].kind == shard::FrameKind::kRegion
                    ? b.region("r" + std::to_string(below(3)))
                    : b.native(shard::kGarbageName, "/usr/lib/libpython3.11.so");
        break;
      case 5:
        frame = b.native("g" + number, "/usr/lib/libc.so.6");
        break;
      default:
        frame = b.native("g" + number, "/u/a.out", one_in(2) ? "/u/a.c" : "", below(20));
    }
    const std::uint32_t path = b.child(parent, frame);
    if (path + 1 != data.paths.size() || path < paths.size()) continue;  // known
    paths.push_back(path);
    if (frame.kind == shard::FrameKind::kMpi) mpi_paths.push_back(path);
  }

  std::vector<std::int32_t> numbers;
  for (std::uint32_t r = 0; r < ranks; ++r) numbers.push_back(static_cast<std::int32_t>(r));
  std::shuffle(numbers.begin(), numbers.end(), random);
  const bool waits = !mpi_paths.empty() && one_in(2);
  data.wait_analysis.done = waits;
  data.wait_analysis.ideal_ns = waits ? 7'000'000'000 : 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    shard::Rank& rank = data.ranks[r];
    rank.rank = numbers[r];
    rank.elapsed_ns = 5'000'000'000 + below(1'000'000'000);
    rank.flags = shard::kFaultsApart | shard::kGarbageApart;
    if (waits) rank.flags |= shard::kWaitKnown;
    if (!one_in(4)) rank.flags |= shard::kUsedMpi;
    const bool sampled = !one_in(6);
    if (!one_in(8))
      for (const std::uint32_t path : paths)
        for (std::size_t c = 0; c < shard::kCategories; ++c)
          for (const bool main_thread : {true, false}) {
            if (!one_in(main_thread ? 5 : 12)) continue;
            shard::Value value{r, path, static_cast<Category>(c), main_thread, 0, 0, 0};
            value.wall_ns = one_in(9) ? 10 * kMs : random() % (200 * kMs);
            value.cpu_ns = random() % (value.wall_ns * 3 / 2 + 1);
            value.samples = sampled ? 1 + below(20) : 0;
            data.values.push_back(value);
            rank.samples += value.samples;
            if (main_thread && !one_in(20)) rank.main_thread_ns[c] += value.wall_ns;
          }
    for (const std::uint32_t path : paths) {
      for (std::uint32_t c = 0; c < data.counters.size(); ++c)
        if (one_in(4)) data.path_counters.push_back({r, path, c, random() % 100'000'000});
      if (one_in(4)) b.accessed(r, path, 1 + below(5000), below(300), 100 + below(300));
      if (one_in(6)) data.counter_values.push_back({r, below(data.counters.size()), random() % 1000});
      if (data.frames[path == 0 ? 0 : data.paths[path].frame].kind == shard::FrameKind::kRegion && path != 0)
        data.region_times.push_back({r, path, 1 + below(5), random() % kMs, 5, random() % kMs, 3});
    }
    for (const std::uint32_t path : mpi_paths) {
      if (one_in(2)) {
        data.mpi_calls.push_back({r, path, shard::kNone, 3, random() % (300 * kMs), 1, 9, 100, 100});
        rank.mpi_ns += data.mpi_calls.back().time_ns;
      }
      for (std::uint32_t i = 0; waits && i < below(3); ++i)
        data.wait_states.push_back({r, path, static_cast<shard::WaitKind>(below(shard::kWaitKinds)),
                                    below(ranks), paths[below(paths.size())], random() % (300 * kMs), 2});
    }
    if (!waits) continue;
    data.root_causes.push_back({r, paths[below(paths.size())], random() % (300 * kMs), 1});
    for (std::uint32_t i = 0; i < 3; ++i)
      data.critical_times.push_back({r, paths[below(paths.size())], random() % (300 * kMs)});
  }
  aggregator::correct_times(b.data);
  return std::move(b.data);
}

}  // namespace clusterprof::report::testing
