// SPDX-License-Identifier: BSD-3-Clause
#include "formats/synth/timing.hpp"

namespace clusterprof::synth {

double work_of(const Shape& shape, std::uint32_t rank, Random& random) {
  return rank == slowest_rank(shape) ? 1.5 : 1.0 + 0.02 * random.uniform();
}

Random random_of(const Shape& shape, std::uint32_t rank) {
  return Random(shape.seed * 0x1'0000'0001ull + rank + 1);
}

std::uint32_t world_of(const Shape& shape) { return shape.nodes * shape.ranks_per_node; }

std::uint64_t busy_ns_of(const Shape& shape, std::uint32_t rank) {
  if (world_of(shape) == 1) return kElapsed_ns;
  Random random = random_of(shape, rank);
  return static_cast<std::uint64_t>(static_cast<double>(kElapsed_ns) * 0.95 * work_of(shape, rank, random) /
                                    1.5);
}

std::uint64_t clock_of(std::uint32_t node, std::uint64_t ns) {
  const std::uint64_t ppm = node % 5 * 10;
  return 1'000'000'000'000 + node * 7'654'321'000ull + ns + ns / 1'000'000 * ppm;
}

FileTimes file_times(std::uint64_t busy_ns) {
  FileTimes times;
  times.read_ns = busy_ns / 200;
  times.write_ns = busy_ns / 80 / kCheckpoints * kCheckpoints;
  times.sync_ns = busy_ns / 160 / kCheckpoints * kCheckpoints;
  return times;
}

std::uint64_t portion(std::uint64_t total, std::uint64_t part, std::uint64_t whole) {
  return static_cast<std::uint64_t>(static_cast<double>(total) *
                                    (static_cast<double>(part) / static_cast<double>(whole)));
}

std::uint32_t slowest_rank(const Shape& shape) {
  return static_cast<std::uint32_t>(shape.seed % (std::uint64_t{shape.nodes} * shape.ranks_per_node));
}

std::uint64_t iterations(const Shape& shape) {
  return shape.events == 0 ? kIterations : std::max(1u, shape.events / kEventsPerIteration);
}

Iteration iteration_of(const Shape& shape, std::uint32_t rank) {
  const std::uint32_t world = world_of(shape);
  const std::uint64_t count = iterations(shape);
  Iteration iteration;
  iteration.end = kElapsed_ns / count;
  iteration.call = std::min<std::uint64_t>(1000, iteration.end / 100);
  // Nine tenths of the work come before the exchange.
  const auto isend_of = [&](std::uint32_t other) { return busy_ns_of(shape, other) / count / 10 * 9; };
  iteration.isend = isend_of(rank);
  iteration.waitall = iteration.isend + 2 * iteration.call;
  const std::uint64_t last_send =
      std::max(isend_of((rank + 1) % world) + iteration.call, isend_of((rank + world - 1) % world));
  iteration.waitall_exit = std::max(iteration.waitall, last_send + iteration.call) + iteration.call;
  iteration.allreduce = iteration.waitall_exit + busy_ns_of(shape, rank) / count - iteration.isend;
  return iteration;
}

}  // namespace clusterprof::synth
