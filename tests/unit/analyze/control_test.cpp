// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/control.hpp"

#include <gtest/gtest.h>

namespace clusterprof::cli {
namespace {

TEST(Control, TimesHaveUnits) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  EXPECT_EQ(parse_lasting_ns("60"), 60 * kSecond);
  EXPECT_EQ(parse_lasting_ns("60s"), 60 * kSecond);
  EXPECT_EQ(parse_lasting_ns("1.5s"), kSecond + kSecond / 2);
  EXPECT_EQ(parse_lasting_ns("5m"), 300 * kSecond);
  EXPECT_EQ(parse_lasting_ns("2h"), 7200 * kSecond);
  for (const char* const wrong :
       {"", "s", "0.5", "0", "-5s", "5 s", "5d", "5ss", "nan", "inf", "1e3", "9000h"})
    EXPECT_FALSE(parse_lasting_ns(wrong)) << wrong;
}

TEST(Control, TimesSinceTheStartMayBeShort) {
  EXPECT_EQ(parse_seconds("0"), 0.0);
  EXPECT_EQ(parse_seconds("0.25s"), 0.25);
  EXPECT_EQ(parse_seconds("2m"), 120.0);
  for (const char* const wrong : {"", "s", "-1", "1d", "1 s", "nan", "inf", "x"})
    EXPECT_FALSE(parse_seconds(wrong)) << wrong;
}

}  // namespace
}  // namespace clusterprof::cli
