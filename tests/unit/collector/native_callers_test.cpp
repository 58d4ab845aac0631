// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/native_callers.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

constexpr std::uint64_t kSamplePeriod = 10 * kMs;
constexpr std::uint32_t kLibrary = 3, kOtherLibrary = 4;

class Callers : public testing::Test {
 protected:
  Callers() {
    first_ = store_.node(0, store_.frame({RawKind::kPython, 0, 10}));
    second_ = store_.node(0, store_.frame({RawKind::kPython, 0, 20}));
    calls_first_ = store_.node(first_, store_.frame({RawKind::kNativeReturn, kOtherLibrary, 100}));
    calls_second_ = store_.node(second_, store_.frame({RawKind::kNativeReturn, kOtherLibrary, 100}));
    in_first_ = in_library(calls_first_, 1);
    also_in_first_ = in_library(calls_first_, 2);
    in_second_ = in_library(calls_second_, 1);
  }
  // Called from `from`: a function of the library that calls one of another, which is called back.
  std::uint32_t in_library(std::uint32_t from, std::uint64_t address) {
    std::uint32_t path = store_.node(from, store_.frame({RawKind::kNativeReturn, kLibrary, address}));
    path = store_.node(path, store_.frame({RawKind::kNativeReturn, kOtherLibrary, address}));
    return store_.leaf(path, store_.frame({RawKind::kNativeExact, kLibrary, address + 5}));
  }
  std::uint32_t caller(std::uint64_t ms) {
    return callers_.caller(ms * kMs, kLibrary, kSamplePeriod, store_.tables());
  }
  void sample(std::uint32_t slot, std::uint64_t ms, std::uint32_t path, bool blocked = false) {
    callers_.sample(slot, ms * kMs, blocked, path);
  }

  RawStore store_;
  NativeCallers callers_;
  std::uint32_t first_, second_, calls_first_, calls_second_, in_first_, also_in_first_, in_second_;
};

TEST_F(Callers, AreThoseWhoseSamplesOnBothSidesAreInTheSameCall) {
  sample(0, 100, first_);
  sample(0, 110, in_first_);
  sample(0, 120, also_in_first_);
  sample(0, 130, in_second_);
  sample(0, 140, in_second_);
  EXPECT_EQ(caller(90), 0u) << "before all samples";
  EXPECT_EQ(caller(105), 0u) << "it was in no call";
  EXPECT_EQ(caller(115), calls_first_);
  EXPECT_EQ(caller(125), 0u) << "another call followed";
  EXPECT_EQ(caller(135), calls_second_);
  EXPECT_EQ(callers_.caller(115 * kMs, kOtherLibrary + 1, kSamplePeriod, store_.tables()), 0u)
      << "of another library";
}

TEST_F(Callers, BehindTheLastSampleACallGoesOnForAWhile) {
  sample(0, 100, in_first_);
  EXPECT_EQ(caller(120), calls_first_);
  EXPECT_EQ(caller(121), 0u);
  sample(0, 150, in_first_);
  EXPECT_EQ(caller(199), calls_first_) << "its samples are that far apart";
  EXPECT_EQ(caller(201), 0u);
  sample(0, 210, in_first_, true);
  EXPECT_EQ(caller(5000), calls_first_) << "it is blocked there";
  sample(0, 6000, 0);
  EXPECT_EQ(caller(6001), 0u) << "it has ended";
}

TEST_F(Callers, ABlockedCallEndsAtMostAPeriodBeforeTheNextSample) {
  sample(0, 100, in_first_, true);
  sample(0, 300, first_);
  EXPECT_EQ(caller(290), calls_first_);
  EXPECT_EQ(caller(291), 0u);
  sample(0, 310, in_first_);
  sample(0, 400, first_);
  EXPECT_EQ(caller(320), 0u) << "not blocked";
}

TEST_F(Callers, AreKnownUntilTheLastSampleOfARunningThreadInACall) {
  constexpr std::uint64_t kEver = std::numeric_limits<std::uint64_t>::max();
  const auto known_until_ns = [&] { return callers_.known_until_ns(kLibrary, store_.tables()); };
  EXPECT_EQ(known_until_ns(), kEver);
  sample(0, 100, first_);
  EXPECT_EQ(known_until_ns(), kEver) << "it is in no call";
  sample(0, 110, in_first_);
  sample(1, 120, in_second_);
  EXPECT_EQ(known_until_ns(), 110 * kMs);
  sample(0, 130, in_first_, true);
  EXPECT_EQ(known_until_ns(), 120 * kMs) << "a blocked call goes on";
  sample(1, 140, 0);
  EXPECT_EQ(known_until_ns(), kEver) << "it has ended";
}

TEST_F(Callers, OfTwoThreadsInDifferentCallsNothingIsKnown) {
  sample(0, 100, in_first_);
  sample(0, 200, in_first_);
  sample(1, 150, in_second_);
  sample(1, 200, in_second_);
  EXPECT_EQ(caller(140), calls_first_);
  EXPECT_EQ(caller(160), 0u);
  sample(2, 100, also_in_first_);
  sample(2, 140, also_in_first_);
  EXPECT_EQ(caller(130), calls_first_) << "two threads, one line";
}

TEST_F(Callers, AWalkThatWasCutHasTheLine) {
  const std::uint32_t cut = store_.leaf(first_, store_.frame({RawKind::kNativeExact, kLibrary, 7}));
  sample(0, 100, cut);
  sample(0, 110, in_first_);
  sample(0, 120, cut);
  sample(0, 130, cut);
  EXPECT_EQ(caller(105), calls_first_);
  EXPECT_EQ(caller(115), calls_first_);
  EXPECT_EQ(caller(125), first_);
}

TEST_F(Callers, CodeWithoutPythonIsNone) {
  const std::uint32_t native = in_library(0, 1);
  sample(0, 100, native);
  sample(0, 110, native);
  EXPECT_EQ(caller(105), 0u);
}

TEST_F(Callers, OfTooManyThreadsNothingIsKnown) {
  for (std::uint32_t slot = 0; slot < NativeCallers::kMostThreads; ++slot) sample(slot, 100, first_);
  sample(0, 110, in_first_);
  sample(0, 120, in_first_);
  EXPECT_EQ(caller(115), calls_first_);
  sample(NativeCallers::kMostThreads, 120, first_);
  EXPECT_EQ(caller(115), 0u);
}

}  // namespace
}  // namespace clusterprof::collector
