// SPDX-License-Identifier: BSD-3-Clause
// When the imaginary program does what. Shards are made from these functions, and tests compare reports with
// them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats/synth/random.hpp"
#include "formats/synth/shape.hpp"

namespace clusterprof::synth {

inline constexpr std::uint64_t kElapsed_ns = 60'000'000'000;
inline constexpr std::uint64_t kPeriod_ns = 10'000'000;  // 100 Hz
inline constexpr std::int64_t kStart_utc_ns = 1'790'000'000'000'000'000;
inline constexpr std::uint64_t kIterations = 1200;
inline constexpr std::uint64_t kHaloBytes = 65536;
inline constexpr std::uint64_t kCheckpoints = 10;
inline constexpr std::uint64_t kCyclesPerNs = 3;

std::uint32_t world_of(const Shape& shape);

// The random numbers of a rank. Drawing starts with work_of().
Random random_of(const Shape& shape, std::uint32_t rank);
// The rank's work, in units of the others' work.
double work_of(const Shape& shape, std::uint32_t rank, Random& random);

// The time that a rank spends outside MPI.
std::uint64_t busy_ns_of(const Shape& shape, std::uint32_t rank);

// What a node's monotonic clock shows `ns` after the start of the run.
std::uint64_t clock_of(std::uint32_t node, std::uint64_t ns);

// When a rank uses files: it reads at its start, and writes at the end of every tenth of its time.
struct FileTimes {
  std::uint64_t read_ns = 0, write_ns = 0, sync_ns = 0;
  [[nodiscard]] std::uint64_t total_ns() const { return read_ns + write_ns + sync_ns; }
  // How long it has read and written by the time `now` since its start.
  [[nodiscard]] std::uint64_t reading(std::uint64_t now) const { return std::min(now, read_ns); }
  [[nodiscard]] std::uint64_t writing(std::uint64_t now) const {
    constexpr std::uint64_t kTenth_ns = kElapsed_ns / kCheckpoints;
    const std::uint64_t burst = (write_ns + sync_ns) / kCheckpoints, rest = now % kTenth_ns;
    return now / kTenth_ns * burst + (rest > kTenth_ns - burst ? rest - (kTenth_ns - burst) : 0);
  }
};

FileTimes file_times(std::uint64_t busy_ns);

// The share of `total` that corresponds to `part` of `whole`.
std::uint64_t portion(std::uint64_t total, std::uint64_t part, std::uint64_t whole);

// The rank that all others wait for.
std::uint32_t slowest_rank(const Shape& shape);

// One iteration of a rank, in nanoseconds since all ranks began it. It begins with work in Solver.step and
// ends with MPI_Allreduce; between MPI_Waitall and MPI_Allreduce the rank works in Solver.residual.
struct Iteration {
  std::uint64_t isend = 0, call = 0;  // start of the first MPI_Isend; how long each of the two takes
  std::uint64_t waitall = 0, waitall_exit = 0;
  std::uint64_t allreduce = 0, end = 0;  // start and end of MPI_Allreduce
};
Iteration iteration_of(const Shape& shape, std::uint32_t rank);
std::uint64_t iterations(const Shape& shape);

inline constexpr std::uint64_t kClockError_ns = 500;

}  // namespace clusterprof::synth
