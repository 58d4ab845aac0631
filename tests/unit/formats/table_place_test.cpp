// SPDX-License-Identifier: BSD-3-Clause
#include "formats/wire/table_place.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace clusterprof::wire {
namespace {

// Puts a key into the table as its writers do. False: there was no room within `probes`.
bool insert(std::vector<std::uint64_t>& table, std::uint64_t key, std::uint32_t probes) {
  for (std::uint32_t probe = 0; probe < probes; ++probe) {
    std::uint64_t& place = table[table_place(key, probe, static_cast<std::uint32_t>(table.size()))];
    if (place == 0) place = key;
    if (place == key) return true;
  }
  return false;
}

bool contains(const std::vector<std::uint64_t>& table, std::uint64_t key, std::uint32_t probes) {
  for (std::uint32_t probe = 0; probe < probes; ++probe) {
    const std::uint64_t there = table[table_place(key, probe, static_cast<std::uint32_t>(table.size()))];
    if (there == key) return true;
    if (there == 0) return false;
  }
  return false;
}

TEST(TablePlace, FewKeysTouchFewPages) {
  constexpr std::size_t kBytes = 24, kPage = 4096;
  std::vector<std::uint64_t> table(65536);
  std::mt19937_64 random(7);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(insert(table, random(), 96));
  std::set<std::size_t> pages;
  for (std::size_t i = 0; i < table.size(); ++i)
    if (table[i] != 0) pages.insert(i * kBytes / kPage);
  EXPECT_LE(pages.size(), 3u);
}

TEST(TablePlace, KeysAreFoundInATableThatIsThreeQuartersFull) {
  for (const std::size_t places : {std::size_t{64}, std::size_t{8191}, std::size_t{65536}}) {
    std::vector<std::uint64_t> table(places);
    std::mt19937_64 random(places);
    std::vector<std::uint64_t> keys(places / 4 * 3);
    for (std::uint64_t& key : keys) {
      key = random() | 1;
      ASSERT_TRUE(insert(table, key, 128)) << places;
    }
    for (const std::uint64_t key : keys) EXPECT_TRUE(contains(table, key, 128));
    EXPECT_FALSE(contains(table, random() & ~std::uint64_t{1}, 128));
  }
}

TEST(TablePlace, NearlyAllSlotsCanBeUsed) {
  for (const std::size_t places : {std::size_t{1}, std::size_t{64}, std::size_t{1000}, std::size_t{8191}}) {
    std::vector<std::uint64_t> table(places);
    std::mt19937_64 random(places);
    for (std::size_t i = 0; i < places - places / 16; ++i)
      ASSERT_TRUE(insert(table, random(), static_cast<std::uint32_t>(places))) << places;
  }
}

}  // namespace
}  // namespace clusterprof::wire
