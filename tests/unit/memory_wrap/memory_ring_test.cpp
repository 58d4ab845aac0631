// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "formats/wire/memory.h"

namespace clusterprof::wire {
namespace {

struct Rings : testing::Test {
  std::unique_ptr<MemoryRing> ring = std::make_unique<MemoryRing>();
  struct Event {
    std::uint64_t time_ns;
    std::int64_t bytes;
    std::uint32_t site;
    friend bool operator==(const Event&, const Event&) = default;
  };
  std::vector<Event> events;
  bool drain(bool skip = false) {
    return drain_memory_events(*ring, skip,
                               [&](std::uint64_t time_ns, std::int64_t bytes, std::uint32_t site) {
                                 events.push_back({time_ns, bytes, site});
                               });
  }
};

TEST_F(Rings, GivesEventsInTheirOrder) {
  EXPECT_TRUE(push_memory_event(*ring, 10, 500, 3));
  EXPECT_TRUE(push_memory_event(*ring, 11, -500, 3));
  EXPECT_FALSE(drain());
  EXPECT_EQ(events, (std::vector<Event>{{10, 500, 3}, {11, -500, 3}}));
  EXPECT_FALSE(drain());
  EXPECT_EQ(events.size(), 2u);
}

TEST_F(Rings, TakesNoMoreThanItHasRoomFor) {
  for (std::uint32_t i = 0; i < kMemoryEvents; ++i) EXPECT_TRUE(push_memory_event(*ring, i, 1, 0));
  EXPECT_FALSE(push_memory_event(*ring, 1, 1, 0));
  EXPECT_FALSE(drain());
  EXPECT_EQ(events.size(), kMemoryEvents);
  EXPECT_TRUE(push_memory_event(*ring, 5, 7, 9));
  EXPECT_FALSE(drain());
  EXPECT_EQ(events.back(), (Event{5, 7, 9}));
}

TEST_F(Rings, WaitsForAWriterAndGivesItUp) {
  EXPECT_TRUE(push_memory_event(*ring, 1, 1, 0));
  ring->claimed.fetch_add(1);  // a writer that has a place and has written nothing
  EXPECT_TRUE(push_memory_event(*ring, 3, 3, 0));
  EXPECT_TRUE(drain());
  EXPECT_EQ(events.size(), 1u);
  EXPECT_TRUE(drain());
  EXPECT_EQ(events.size(), 1u);
  EXPECT_FALSE(drain(true));
  EXPECT_EQ(events.back(), (Event{3, 3, 0}));
}

TEST_F(Rings, IsEmptiedWhenItMakesNoSense) {
  ring->claimed.store(std::uint64_t{1} << 40);
  EXPECT_FALSE(drain());
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(ring->read.load(), std::uint64_t{1} << 40);
}

TEST_F(Rings, HasManyWriters) {
  constexpr std::int64_t kEach = 20'000;
  std::atomic<int> running = 4;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer)
    writers.emplace_back([&, writer] {
      for (std::int64_t i = 1; i <= kEach; ++i)
        while (
            !push_memory_event(*ring, static_cast<std::uint64_t>(i), i, static_cast<std::uint32_t>(writer)))
          std::this_thread::yield();
      --running;
    });
  while (running != 0) drain();
  for (std::thread& writer : writers) writer.join();
  EXPECT_FALSE(drain());
  std::vector<std::int64_t> last(4);
  for (const Event& event : events) {
    ASSERT_LT(event.site, 4u);
    EXPECT_EQ(event.bytes, last[event.site] + 1);
    last[event.site] = event.bytes;
  }
  EXPECT_EQ(last, (std::vector<std::int64_t>(4, kEach)));
}

}  // namespace
}  // namespace clusterprof::wire
