// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/change_points.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

namespace clusterprof::report {
namespace {

std::vector<double> draw(std::mt19937_64& random, std::initializer_list<std::pair<std::size_t, double>> parts,
                         double noise) {
  std::normal_distribution<double> normal;
  std::vector<double> values;
  for (const auto& [count, mean] : parts)
    for (std::size_t i = 0; i < count; ++i) values.push_back(mean * (1 + noise * normal(random)));
  return values;
}

TEST(ChangePoints, AreFoundWhereTheMeanChanges) {
  const std::vector<double> values = {10, 10.1, 9.9, 10, 12, 12.1, 11.9, 12, 12};
  const std::vector<ChangePoint> changes = find_change_points(values);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].first, 4u);
  EXPECT_NEAR(changes[0].before, 10, 1e-9);
  EXPECT_NEAR(changes[0].after, 12, 1e-9);
  EXPECT_GT(changes[0].half_width, 0.05);
  EXPECT_LT(changes[0].half_width, 0.3);
}

TEST(ChangePoints, SeveralOfThem) {
  std::mt19937_64 random(1);
  const std::vector<ChangePoint> changes =
      find_change_points(draw(random, {{20, 10}, {10, 12}, {15, 9}}, 0.02));
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].first, 20u);
  EXPECT_EQ(changes[1].first, 30u);
  EXPECT_NEAR(changes[1].before, 12, 0.2) << "of the part between both, not of all before";
  EXPECT_NEAR(changes[1].after, 9, 0.2);
}

TEST(ChangePoints, NeedRunsOnBothSides) {
  EXPECT_TRUE(find_change_points(std::vector<double>{}).empty());
  EXPECT_TRUE(find_change_points(std::vector<double>{1, 1, 1, 2, 2}).empty())
      << "of 5, none has 3 on both sides";
  EXPECT_EQ(find_change_points(std::vector<double>{1, 1, 1, 2, 2, 2}).size(), 1u) << "without any noise";
  EXPECT_TRUE(find_change_points(std::vector<double>{1, 1, 1, 1, 1, 1}).empty());
  EXPECT_TRUE(find_change_points(std::vector<double>{1, 1, 1, 1.019, 1.019, 1.019}).empty()) << "small";
  // A single run that was disturbed is no change.
  EXPECT_TRUE(find_change_points(std::vector<double>{10, 10.1, 9.9, 10, 20, 10, 10.1, 9.9, 10}).empty());
}

std::vector<double> steps(std::initializer_list<double> levels) {
  std::vector<double> values;
  for (const double level : levels) values.insert(values.end(), 20, level);
  return values;
}

// What is too small to be told of divides nothing.
TEST(ChangePoints, SmallOnesAreNoBorders) {
  const std::vector<ChangePoint> behind = find_change_points(steps({10, 10.1, 12}));
  ASSERT_EQ(behind.size(), 1u);
  EXPECT_EQ(behind[0].first, 40u);
  EXPECT_NEAR(behind[0].before, 10.05, 1e-9) << "of all 40 runs before it";
  const std::vector<ChangePoint> before = find_change_points(steps({12, 10, 10.1}));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_NEAR(before[0].after, 10.05, 1e-9);
  // Each step is 1.5 %, and all together are 3 %.
  const std::vector<ChangePoint> many = find_change_points(steps({10, 10.15, 10.3}));
  ASSERT_EQ(many.size(), 1u);
  EXPECT_EQ(many[0].first, 20u);
  EXPECT_NEAR(many[0].after, 10.225, 1e-9);
}

// What ChangeTest::false_alarm promises.
TEST(ChangePoints, SeldomWhereThereAreNone) {
  std::mt19937_64 random(2);
  int alarms = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i)
    alarms += find_change_points(draw(random, {{40, 10}}, 0.05)).empty() ? 0 : 1;
  EXPECT_LE(alarms, 8) << "about 2 are expected";
}

// Both parts of a series share its false alarms: all three tests together have them about once.
TEST(ChangePoints, SeldomBesideOneThatIsThere) {
  std::mt19937_64 random(7);
  int alarms = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i)
    alarms += find_change_points(draw(random, {{20, 10}, {20, 20}}, 0.05), {0.05, 0}).size() != 1 ? 1 : 0;
  EXPECT_GT(alarms, 10) << "that it is divided at all";
  EXPECT_LE(alarms, 0.05 * kDraws) << "with each part at the level of the whole it would be about 140";
}

TEST(ChangePoints, ValuesVaryByWhatTheyAreCountedInAtLeast) {
  const std::vector<double> values = {1, 1, 1, 1, 2, 2, 2, 2};
  EXPECT_EQ(find_change_points(values).size(), 1u);
  EXPECT_TRUE(find_change_points(values, {0.001, 1}).empty()) << "one sample more or less";
  // Else they vary by half a per cent of their mean, 1.5.
  EXPECT_NEAR(find_change_points(values)[0].half_width, 2.4469 * 0.005 * 1.5 * std::sqrt(0.5), 1e-4);
  const auto noise = noise_of(std::vector<double>{2, 2, 2, 2, 2, 2}, {}, {0.001, 1});
  ASSERT_TRUE(noise);
  EXPECT_DOUBLE_EQ(noise->deviation, 0.5);
}

TEST(ChangePoints, AtAPlaceThatIsKnown) {
  const std::vector<double> before = {10, 10.1, 9.9}, after = {10.5, 10.6, 10.4}, near = {10.1, 10.2, 10};
  EXPECT_TRUE(is_change(before, after, {0.01, 0}));
  EXPECT_FALSE(is_change(before, after, {0.001, 0})) << "t(4) is 6.1, and 8.6 is asked for";
  EXPECT_FALSE(is_change(before, after, {0.01, 0.5}));
  EXPECT_FALSE(is_change(before, near, {0.5, 0})) << "of 1 %";
  EXPECT_FALSE(is_change(before, {}, {0.01, 0}));
  EXPECT_FALSE(is_change(std::vector<double>{1}, std::vector<double>{2}, {0.5, 0}));
}

TEST(ChangePoints, OfTwelvePerCentAreFoundInFivePerCentNoise) {
  std::mt19937_64 random(3);
  int found = 0;
  constexpr int kDraws = 200;
  for (int i = 0; i < kDraws; ++i) {
    const std::vector<ChangePoint> changes = find_change_points(draw(random, {{20, 10}, {20, 11.2}}, 0.05));
    found += changes.size() == 1 && changes[0].first >= 16 && changes[0].first <= 24 ? 1 : 0;
  }
  EXPECT_GE(found, 180);
}

TEST(ChangePoints, NoiseIsThatWithinTheParts) {
  std::mt19937_64 random(4);
  const std::vector<double> values = draw(random, {{40, 10}, {40, 20}}, 0.03);
  const auto noise = noise_of(values, find_change_points(values));
  ASSERT_TRUE(noise);
  EXPECT_NEAR(noise->deviation, 0.03, 0.006);
  EXPECT_EQ(noise->freedom, 78);
  EXPECT_FALSE(noise_of(std::vector<double>{1, 2, 3, 4}, {})) << "too few to know";
  EXPECT_TRUE(noise_of(std::vector<double>{1, 2, 3, 4, 5}, {}));
}

}  // namespace
}  // namespace clusterprof::report
