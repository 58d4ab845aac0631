// SPDX-License-Identifier: BSD-3-Clause
// Which allocations are recorded, and what each of them stands for.
//
// Of every byte that is allocated, one in `interval` is chosen, at random and independently of all others;
// the block with a chosen byte is recorded. So a block of s bytes is recorded with the probability p = 1 -
// exp(-s / interval), and stands for s / p bytes in 1 / p calls: sums of these are true on average, however
// large the blocks are. Blocks of kExactIntervals intervals or more are all recorded, and stand for
// themselves.
#pragma once

#include <cstdint>

namespace clusterprof::memory_wrap {

inline constexpr std::uint64_t kExactIntervals = 5;

constexpr bool is_exact(std::uint64_t bytes, std::uint64_t interval) noexcept {
  return bytes >= kExactIntervals * interval;
}

// xorshift64*. The state is never 0.
constexpr std::uint64_t next_random(std::uint64_t& state) noexcept {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545'f491'4f6c'dd1dull;
}

// In (0, 1].
constexpr double as_fraction(std::uint64_t random) noexcept {
  return static_cast<double>((random >> 11) + 1) * 0x1p-53;
}

// -ln(x) for x in (0, 1]. There is no libm here. Error below 1e-6.
constexpr double minus_log(double x) noexcept {
  constexpr double kLn2 = 0.693'147'180'559'945'3;
  int halvings = 0;
  for (; x < 0.5; x *= 2) ++halvings;
  // Now x is in [1/2, 1], and s in [-1/3, 0].
  const double s = (x - 1) / (x + 1), q = s * s;
  const double log = 2 * s * (1 + q * (1.0 / 3 + q * (1.0 / 5 + q * (1.0 / 7 + q * (1.0 / 9 + q / 11)))));
  return halvings * kLn2 - log;
}

// 1 - exp(-x) for x >= 0, with a small relative error for small x, too.
constexpr double one_minus_exp(double x) noexcept {
  constexpr double kSure = 40;
  if (x > kSure) return 1;
  int halvings = 0;
  for (; x > 0.25; x /= 2) ++halvings;
  double y = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
  for (; halvings > 0; --halvings) y *= 2 - y;
  return y;
}

// How many bytes are allocated until the next chosen one; at least 1.
constexpr std::uint64_t bytes_to_next(std::uint64_t random, std::uint64_t interval) noexcept {
  return 1 + static_cast<std::uint64_t>(minus_log(as_fraction(random)) * static_cast<double>(interval));
}

struct Weight {
  std::uint64_t bytes, calls;
  std::uint64_t variance;  // of `bytes`, in units of wire::kVarianceUnit
};

// Of a recorded block. `random`: decides how a number of calls is rounded, so that it is true on average.
constexpr Weight weight_of(std::uint64_t bytes, std::uint64_t interval, std::uint64_t random,
                           double variance_unit) noexcept {
  if (is_exact(bytes, interval) || bytes == 0) return {bytes, 1, 0};
  const double p = one_minus_exp(static_cast<double>(bytes) / static_cast<double>(interval));
  const double weight = static_cast<double>(bytes) / p;
  return {static_cast<std::uint64_t>(weight + 0.5),
          static_cast<std::uint64_t>(1 / p + 1 - as_fraction(random)),
          static_cast<std::uint64_t>((1 - p) * weight * weight / variance_unit)};
}

// Counts down to the next chosen byte. `left` never exceeds kExactIntervals intervals, so that a single
// comparison finds blocks that are exact, too; `rest` is what comes behind it. All zero: nothing is known
// yet.
struct Countdown {
  std::int64_t left, rest;
  std::uint64_t interval;  // with which they were drawn

  void begin(std::uint64_t random, std::uint64_t new_interval) noexcept {
    interval = new_interval;
    rest = static_cast<std::int64_t>(bytes_to_next(random, interval));
    refill();
  }

  // Of a block for which `left` did not suffice: whether it is recorded. After a chosen byte, begin() is to
  // follow.
  bool takes(std::uint64_t bytes) noexcept {
    if (is_exact(bytes, interval)) return true;  // not one of those that are chosen by their bytes
    auto need = static_cast<std::int64_t>(bytes);
    while (need >= left) {
      if (rest == 0) return true;
      need -= left;
      refill();
    }
    left -= need;
    return false;
  }

 private:
  void refill() noexcept {
    const auto most = static_cast<std::int64_t>(kExactIntervals * interval);
    left = rest < most ? rest : most;
    rest -= left;
  }
};

}  // namespace clusterprof::memory_wrap
