// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/request_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace clusterprof::mpi_wrap {
namespace {

TEST(RequestTable, AgreesWithStdMapUnderRandomUse) {
  RequestTable table{};
  std::map<std::uint64_t, std::uint32_t> expected;
  std::mt19937_64 random(2);
  EXPECT_EQ(table.find(5), nullptr);
  for (std::uint32_t step = 0; step < 300'000; ++step) {
    // Handles of neighbouring objects, as many as make the table grow several times.
    const std::uint64_t key = 0x7f0000001000ull + random() % 6000 * 0x180;
    Request* found = table.find(key);
    ASSERT_EQ(found != nullptr, expected.contains(key));
    if (found != nullptr) {
      ASSERT_EQ(found->site, expected[key]);
      table.erase(found);
      expected.erase(key);
    } else {
      Request request{};
      request.key = key;
      request.site = step;
      ASSERT_TRUE(table.insert(request));
      expected[key] = step;
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  for (const auto& [key, site] : expected) {
    ASSERT_NE(table.find(key), nullptr);
    ASSERT_EQ(table.find(key)->site, site);
  }
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
