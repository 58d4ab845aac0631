// SPDX-License-Identifier: BSD-3-Clause
#include "memory-wrap/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace clusterprof::memory_wrap {
namespace {

constexpr double kUnit = 256;

TEST(Sampling, Logarithm) {
  for (const double x : {1.0, 0.999999, 0.75, 0.5, 0.4999, 0.1, 1e-3, 1e-9, 0x1p-53})
    EXPECT_NEAR(minus_log(x), -std::log(x), 1e-6 + 1e-6 * -std::log(x)) << x;
}

TEST(Sampling, Exponential) {
  EXPECT_EQ(one_minus_exp(0), 0);
  for (const double x : {1e-9, 1e-4, 0.01, 0.25, 0.26, 1.0, 2.5, 5.0, 12.0, 39.0, 41.0})
    EXPECT_NEAR(one_minus_exp(x) / -std::expm1(-x), 1, 1e-6) << x;
}

TEST(Sampling, ExactBlocksStandForThemselves) {
  const Weight weight = weight_of(5 * 4096, 4096, 1, kUnit);
  EXPECT_EQ(weight.bytes, 5u * 4096);
  EXPECT_EQ(weight.calls, 1u);
  EXPECT_EQ(weight.variance, 0u);
  EXPECT_FALSE(is_exact(5 * 4096 - 1, 4096));
}

// Runs a countdown as malloc does, over blocks of these sizes in turn.
struct Total {
  double bytes = 0, calls = 0, variance = 0, true_bytes = 0, true_calls = 0;
  std::uint64_t samples = 0;
};
Total sample(const std::vector<std::uint64_t>& sizes, std::uint64_t interval, int rounds,
             std::uint64_t seed) {
  Total total;
  Countdown countdown = {};
  countdown.begin(next_random(seed), interval);
  for (int round = 0; round < rounds; ++round) {
    for (const std::uint64_t bytes : sizes) {
      total.true_bytes += static_cast<double>(bytes);
      total.true_calls += 1;
      if (bytes < static_cast<std::uint64_t>(countdown.left)) {
        countdown.left -= static_cast<std::int64_t>(bytes);
        continue;
      }
      EXPECT_LE(countdown.left, static_cast<std::int64_t>(kExactIntervals * interval));
      if (!countdown.takes(bytes)) continue;
      ++total.samples;
      const Weight weight = weight_of(bytes, interval, next_random(seed), kUnit);
      total.bytes += static_cast<double>(weight.bytes);
      total.calls += static_cast<double>(weight.calls);
      total.variance += static_cast<double>(weight.variance) * kUnit;
      if (!is_exact(bytes, interval)) countdown.begin(next_random(seed), interval);
    }
  }
  return total;
}

TEST(Sampling, SumsAreTrueWhateverTheSizes) {
  constexpr std::uint64_t kInterval = 4096;
  std::uint64_t seed = 88172645463325252ull;
  for (const std::vector<std::uint64_t>& sizes :
       {std::vector<std::uint64_t>{16}, {100}, {4000}, {20000}, {16, 64, 3000, 19000, 100000}}) {
    const Total total = sample(sizes, kInterval, 200'000, next_random(seed));
    const double sigma = std::sqrt(total.variance);
    EXPECT_NEAR(total.bytes, total.true_bytes, 5 * sigma + 1) << sizes[0];
    // The variance that is told is that of small blocks, interval times bytes, or less.
    EXPECT_LE(total.variance, 1.1 * static_cast<double>(kInterval) * total.true_bytes) << sizes[0];
    if (sizes.size() == 1) {
      EXPECT_NEAR(total.calls, total.true_calls,
                  (5 * sigma + static_cast<double>(kInterval)) / static_cast<double>(sizes[0]) +
                      5 * std::sqrt(static_cast<double>(total.samples)))
          << sizes[0];
    }
  }
}

TEST(Sampling, LargeBlocksDoNotChangeWhichSmallOnesAreTaken) {
  constexpr std::uint64_t kInterval = 4096, kSmall = 64;
  const auto samples_of_small = [](bool with_large) {
    std::uint64_t seed = 5, samples = 0;
    Countdown countdown = {};
    countdown.begin(next_random(seed), kInterval);
    for (int i = 0; i < 100'000; ++i) {
      if (with_large) {
        const std::int64_t left = countdown.left;
        EXPECT_TRUE(countdown.takes(10 * kInterval));
        EXPECT_EQ(countdown.left, left);
      }
      if (kSmall < static_cast<std::uint64_t>(countdown.left)) {
        countdown.left -= kSmall;
      } else if (countdown.takes(kSmall)) {
        ++samples;
        countdown.begin(next_random(seed), kInterval);
      }
    }
    return samples;
  };
  EXPECT_EQ(samples_of_small(false), samples_of_small(true));
}

TEST(Sampling, NothingIsTakenOfNoBytes) {
  std::uint64_t seed = 7;
  Countdown countdown = {};
  countdown.begin(next_random(seed), 4096);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(countdown.takes(0));
}

}  // namespace
}  // namespace clusterprof::memory_wrap
