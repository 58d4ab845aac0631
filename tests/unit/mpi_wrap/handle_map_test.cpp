// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/handle_map.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace clusterprof::mpi_wrap {
namespace {

TEST(HandleMap, AgreesWithStdMapUnderRandomUse) {
  static HandleMap<int, 64> map;
  std::map<std::uint64_t, int*> expected;
  int objects[50];
  std::mt19937_64 random(1);
  for (int step = 0; step < 200'000; ++step) {
    const std::uint64_t key = 100 + random() % 50;
    int* object = &objects[random() % 50];
    if (random() % 2 == 0) {
      bool full = true;
      int* const before = map.insert(key, object, full);
      ASSERT_FALSE(full);
      ASSERT_EQ(before, expected.contains(key) ? expected[key] : nullptr);
      expected[key] = object;
    } else {
      ASSERT_EQ(map.erase(key), expected.contains(key) ? expected[key] : nullptr);
      expected.erase(key);
    }
    const std::uint64_t other = 100 + random() % 50;
    ASSERT_EQ(map.find(other), expected.contains(other) ? expected[other] : nullptr);
  }
}

TEST(HandleMap, HasNoNullHandle) {
  static HandleMap<int, 8> map;
  int object = 1, other = 2;
  bool full = false;
  map.insert(5, &object, full);
  map.erase(5);
  EXPECT_EQ(map.insert(0, &other, full), nullptr);
  EXPECT_TRUE(full);
  EXPECT_EQ(map.find(0), nullptr);
  EXPECT_EQ(map.erase(0), nullptr);
}

TEST(HandleMap, ForgetsAll) {
  static HandleMap<int, 8> map;
  int objects[] = {1, 2, 3};
  bool full = false;
  for (std::uint64_t key = 10; key < 13; ++key) map.insert(key, &objects[key - 10], full);
  map.erase(11);
  int sum = 0;
  map.clear([&](const int* object) { sum += *object; });
  EXPECT_EQ(sum, 4);
  for (std::uint64_t key = 10; key < 13; ++key) EXPECT_EQ(map.find(key), nullptr);
  for (std::uint64_t key = 20; key < 28; ++key) {
    map.insert(key, &objects[0], full);
    EXPECT_FALSE(full);
  }
}

TEST(HandleMap, ReportsThatItIsFull) {
  static HandleMap<int, 8> map;
  int object = 0;
  bool full = false;
  for (std::uint64_t key = 10; key < 18; ++key) {
    map.insert(key, &object, full);
    ASSERT_FALSE(full);
  }
  EXPECT_EQ(map.insert(100, &object, full), nullptr);
  EXPECT_TRUE(full);
  EXPECT_EQ(map.find(100), nullptr);
  EXPECT_EQ(map.insert(12, nullptr, full), &object);
  EXPECT_FALSE(full);
  map.erase(11);
  map.insert(100, &object, full);
  EXPECT_FALSE(full);
  EXPECT_EQ(map.find(100), &object);
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
