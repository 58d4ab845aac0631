// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/growing_run.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "formats/synth/random.hpp"
#include "formats/synth/timing.hpp"

namespace clusterprof::synth {

using namespace shard;

const std::array<GrowingPart, kGrowingParts> kGrowing = {{
    {"solve", -1, [](double p) { return 4000 / p; }},
    {"setup", 0, [](double) { return 1.0; }},
    {"search", 0, [](double p) { return 0.2 + 0.3 * std::log2(p); }},
    {"halo", 0.5, [](double p) { return 0.2 + 0.2 * std::sqrt(p); }},
    {"gather", 1, [](double p) { return 0.2 + 0.05 * p; }},
    {"sort", 1, [](double p) { return 0.2 + 0.01 * p * std::log2(p); }},
    {"compare", 1.5, [](double p) { return 0.2 + 0.01 * p * std::sqrt(p); }},
    {"reduce", 0, [](double p) { return 0.1 + 0.2 * std::log2(p); }},
}};

namespace {

constexpr std::string_view kFile = "/home/user/growing/grow.py";
constexpr std::uint64_t kReductions = 100;

// Nearly normal, of mean 0 and variance 1.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

std::uint64_t nanoseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

}  // namespace

ShardData growing_run(const GrowingShape& shape) {
  ShardData data;
  PathInterner interner(data);
  Random random(shape.seed * 0x1'0000'0001ull + shape.ranks);
  std::array<std::uint64_t, kGrowingParts> time_ns{};
  std::array<std::uint32_t, kGrowingParts> paths{};
  const auto python = [&](std::string_view name, std::uint32_t line, std::uint32_t start) {
    return interner.frame(
        {FrameKind::kPython, false, interner.string(name), interner.string(kFile), 0, line, start});
  };
  std::uint64_t elapsed_ns = 0;
  const std::uint32_t main = interner.path(0, python("<module>", 200, 1));
  for (std::size_t i = 0; i < kGrowingParts; ++i) {
    const bool is_solve = i == 0;
    const double rank_s = shape.weak && is_solve ? kWeakSolve_s : kGrowing[i].rank_s(shape.ranks);
    time_ns[i] = nanoseconds(rank_s * std::max(0.1, 1 + shape.noise * normal(random)));
    elapsed_ns += time_ns[i];
    const auto start = static_cast<std::uint32_t>(10 + 20 * i);
    paths[i] = interner.path(main, python(kGrowing[i].name, start + 5, start));
  }
  const std::size_t reduce = kGrowingParts - 1;
  paths[reduce] = interner.path(
      paths[reduce], interner.frame({FrameKind::kMpi, false, interner.string("MPI_Allreduce"), 0, 0, 0, 0}));

  data.run.id = "growing-" + std::to_string(shape.ranks) + "-" + std::to_string(shape.seed);
  data.run.command = {"python3", "grow.py", "--seed=" + std::to_string(shape.seed)};
  data.run.start_utc_ns = kStart_utc_ns + static_cast<std::int64_t>(shape.seed) * 1'000'000'000;
  data.run.world_size = shape.ranks;
  data.run.rate_hz = 100;
  data.run.clock = "wall";
  data.run.version = "synthetic";
  data.run.mpi_library = "Synthetic MPI 1.0";
  data.run.complete = true;
  Node node;
  node.name = "node0000";
  node.start_utc_ns = data.run.start_utc_ns;
  node.elapsed_ns = elapsed_ns;
  node.cpus = shape.ranks;
  data.communicators = {{1, shape.ranks, "MPI_COMM_WORLD"}};
  std::string command;
  for (const std::string& word : data.run.command) command.append(word).push_back('\0');
  for (std::uint32_t r = 0; r < shape.ranks; ++r) {
    Rank rank;
    rank.rank = static_cast<std::int32_t>(r);
    rank.pid = 4000 + rank.rank;
    rank.flags = kRunDelayKnown | kExitStatusKnown | kUsedMpi;
    rank.command = interner.string(command);
    rank.start_utc_ns = node.start_utc_ns;
    rank.elapsed_ns = elapsed_ns;
    rank.threads = rank.processes = 1;
    for (std::size_t i = 0; i < kGrowingParts; ++i) {
      const Category category = i == reduce ? Category::kMpi : Category::kPython;
      const std::uint64_t samples = time_ns[i] / kPeriod_ns;
      data.values.push_back({r, paths[i], category, true, time_ns[i], time_ns[i], samples});
      rank.main_thread_ns[static_cast<std::size_t>(category)] += time_ns[i];
      rank.samples += samples;
      rank.cpu_ns += time_ns[i];
    }
    rank.mpi_ns = time_ns[reduce];
    data.mpi_calls.push_back({r, paths[reduce], 0, kReductions, time_ns[reduce],
                              time_ns[reduce] / kReductions / 2, time_ns[reduce] / kReductions * 2, 0, 0});
    node.cpu_ns += rank.cpu_ns;
    data.ranks.push_back(rank);
  }
  data.nodes = {node};
  return data;
}

}  // namespace clusterprof::synth
