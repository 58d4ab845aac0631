// SPDX-License-Identifier: BSD-3-Clause
// Where in a table of events a time is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {
namespace {

TEST(WaitsTrace, FirstEventThatWasEnteredByThen) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  Trace trace;
  for (const std::uint32_t events : {1u, 2u, 3u, 40u, 333u}) {
    Lane lane;
    lane.first = static_cast<std::uint32_t>(trace.events.size());
    lane.end = lane.first + events;
    std::int64_t ns = 0;
    for (std::uint32_t e = lane.first; e < lane.end; ++e) {
      Event& event = trace.events.emplace_back();
      event.lane = static_cast<std::uint32_t>(trace.lanes.size());
      event.enter_ns = ns += static_cast<std::int64_t>(random() % 3);  // operations of one call have one time
    }
    trace.lanes.push_back(lane);
  }
  for (const Lane& lane : trace.lanes)
    for (std::int64_t ns = -1; ns <= trace.events[lane.end - 1].enter_ns + 1; ++ns) {
      std::uint32_t expected = lane.first;
      while (expected != lane.end && trace.events[expected].enter_ns < ns) ++expected;
      EXPECT_EQ(trace.first_entered(lane, ns), expected);
      for (std::uint32_t e = lane.first; e < lane.end; ++e)
        ASSERT_EQ(trace.first_entered_until(e, ns), std::min(e, expected)) << e - lane.first << " " << ns;
    }
}

}  // namespace
}  // namespace clusterprof::aggregator::waits
