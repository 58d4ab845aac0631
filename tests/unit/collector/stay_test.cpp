// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/stay.hpp"

#include <gtest/gtest.h>

namespace clusterprof::collector {
namespace {

using shard::Category;

constexpr std::uint64_t kSecond = 1'000'000'000, kPeriod = 10'000'000;

Place asleep(std::uint32_t path) { return {path, 0, 0, 0, Category::kIdle, false, 0}; }
Place at(std::uint32_t path, std::uint64_t instruction) {
  return {path, 7, instruction, Place::kPythonLoopUnits, Category::kPython, false, 0};
}
// In a native loop of few bytes.
Place native(std::uint64_t data) {
  return {3, 7, 0x1000, Place::kNativeLoopBytes, Category::kNative, true, data};
}

TEST(Stay, OfABlockedThreadEndsWithItsNextSample) {
  Stay stay;
  EXPECT_EQ(stay.unmoved_ns(5 * kSecond), 0u);
  stay.sample(asleep(3), 1 * kSecond, 100);
  EXPECT_EQ(stay.unmoved_ns(9 * kSecond), 8 * kSecond);
  EXPECT_EQ(stay.category(), Category::kIdle);
  // It has woken up, and sleeps again at the same place.
  stay.sample(asleep(3), 10 * kSecond, 180);
  EXPECT_EQ(stay.unmoved_ns(12 * kSecond), 2 * kSecond);
  EXPECT_EQ(stay.cpu_ns(), 0u);
}

// `while (!stop) {}` reads one place. A sum over an array has as few instructions.
TEST(Stay, IsInANativeLoopThatReadsOnePlaceOnly) {
  const auto unmoved_ns = [](std::uint64_t begin, std::uint64_t step) {
    Stay stay;
    for (std::uint64_t i = 0; i < 300; ++i)
      stay.sample(native(i % 3 == 0 ? 0 : begin + i * step), kSecond + i * kPeriod, i * kPeriod);
    return stay.unmoved_ns(kSecond + 300 * kPeriod);
  };
  EXPECT_EQ(unmoved_ns(0x5000, 0), 300 * kPeriod);
  EXPECT_EQ(unmoved_ns(0x5000, 8), 0u);
  EXPECT_EQ(unmoved_ns(0, 0), 0u) << "it waits for nothing in memory";
}

// Samples of a loop from instruction 20 on, of this many; what the stay is two seconds later.
std::uint64_t unmoved_in_loop(std::uint64_t instructions, std::uint64_t samples) {
  Stay stay;
  for (std::uint64_t i = 0; i < samples; ++i)
    stay.sample(at(3, 20 + i % instructions), kSecond + i * kPeriod, i * kPeriod);
  return stay.unmoved_ns(kSecond + samples * kPeriod);
}

TEST(Stay, IsInALoopThatHasFewInstructions) {
  EXPECT_EQ(unmoved_in_loop(Place::kPythonLoopUnits, 300), 300 * kPeriod);
  EXPECT_LT(unmoved_in_loop(Place::kPythonLoopUnits + 1, 300), 10 * kPeriod);
}

TEST(Stay, OfFewSamplesOfALoopIsNotKnown) {
  EXPECT_EQ(unmoved_in_loop(2, 99), 0u);
  EXPECT_EQ(unmoved_in_loop(2, 100), 100 * kPeriod);
}

TEST(Stay, EndsInAnotherFunctionWithTheSameCaller) {
  Stay stay;
  for (std::uint64_t i = 0; i < 200; ++i) stay.sample(at(3, 20), kSecond + i * kPeriod, i * kPeriod);
  Place other = at(3, 20);
  other.code = 8;
  stay.sample(other, 4 * kSecond, 0);
  EXPECT_EQ(stay.unmoved_ns(5 * kSecond), 0u);
}

}  // namespace
}  // namespace clusterprof::collector
