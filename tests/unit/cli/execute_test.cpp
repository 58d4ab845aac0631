// SPDX-License-Identifier: BSD-3-Clause
#include "cli/execute.hpp"

#include <gtest/gtest.h>

#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

TEST(Execute, AsksForHugePagesUnlessTheUserHasSaid) {
  const auto tunables = [](const char* own) {
    return tunables_with_huge_pages(fake_environment({{"GLIBC_TUNABLES", own}}));
  };
  EXPECT_EQ(tunables_with_huge_pages(fake_environment({})), "glibc.malloc.hugetlb=1");
  EXPECT_EQ(tunables(""), "glibc.malloc.hugetlb=1");
  EXPECT_EQ(tunables("glibc.malloc.arena_max=1"), "glibc.malloc.arena_max=1:glibc.malloc.hugetlb=1");
  EXPECT_EQ(tunables("glibc.malloc.hugetlb=0"), "");
  EXPECT_EQ(tunables("glibc.malloc.hugetlb=2:glibc.malloc.arena_max=1"), "");
}

}  // namespace
}  // namespace clusterprof::cli
