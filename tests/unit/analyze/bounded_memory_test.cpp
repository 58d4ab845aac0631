// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/bounded_memory.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace clusterprof::cli {
namespace {

constexpr std::uint64_t kBound_bytes = std::uint64_t{4} << 30;

[[noreturn]] void exit_within_bound(int status) {
  if (!bound_memory(kBound_bytes, "no room")) std::abort();
  std::exit(status);
}

TEST(BoundedMemory, AnEndOfALibraryIsOurs) {
  EXPECT_EXIT(exit_within_bound(-1), testing::ExitedWithCode(0), "^clusterprof: no room\n$");
}

TEST(BoundedMemory, AnEndOfOursStays) { EXPECT_EXIT(exit_within_bound(1), testing::ExitedWithCode(1), "^$"); }

}  // namespace
}  // namespace clusterprof::cli
