// SPDX-License-Identifier: BSD-3-Clause
#include "memory-wrap/filter.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace clusterprof::memory_wrap {
namespace {

struct Filters : testing::Test {
  struct Room {
    Filter filter = {};
  };
  std::unique_ptr<Room> room = std::make_unique<Room>();
  Filter& filter = room->filter;
  static const void* at(std::uintptr_t number) { return reinterpret_cast<const void*>(number * 16); }
};

TEST_F(Filters, ForgetsWhatWasRemoved) {
  filter_add(filter, at(1000));
  EXPECT_TRUE(filter_may_have(filter, at(1000)));
  EXPECT_FALSE(filter_may_have(filter, at(1001)));
  filter_remove(filter, at(1000));
  EXPECT_FALSE(filter_may_have(filter, at(1000)));
  filter_remove(filter, at(1000));
  EXPECT_FALSE(filter_may_have(filter, at(1000)));
}

TEST_F(Filters, CountsThoseThatShareAPlace) {
  std::uintptr_t other = 1001;
  while (filter_place(at(other)) != filter_place(at(1000))) ++other;
  filter_add(filter, at(1000));
  filter_add(filter, at(other));
  filter_remove(filter, at(1000));
  EXPECT_TRUE(filter_may_have(filter, at(other)));
  filter_remove(filter, at(other));
  EXPECT_FALSE(filter_may_have(filter, at(1000)));
}

TEST_F(Filters, NeverForgetsOneThatLives) {
  for (int i = 0; i < 300; ++i) filter_add(filter, at(1000));
  for (int i = 0; i < 299; ++i) filter_remove(filter, at(1000));
  EXPECT_TRUE(filter_may_have(filter, at(1000)));
}

// Addresses of large blocks, which begin behind a page's start, are spread as well as others.
TEST_F(Filters, SpreadsAddresses) {
  for (const std::uintptr_t step : {1u, 2u, 3u, 7u, 256u, 257u, 5u << 8, 65536u, 3u << 16}) {
    auto fresh = std::make_unique<Room>();
    for (std::uintptr_t i = 0; i < 10'000; ++i)
      filter_add(fresh->filter, reinterpret_cast<const void*>(0x7f00'0000'0010u + i * step * 16));
    std::size_t used = 0;
    for (const auto& counter : fresh->filter) used += counter.load() != 0 ? 1 : 0;
    EXPECT_GT(used, 9'000u) << step;
  }
}

}  // namespace
}  // namespace clusterprof::memory_wrap
