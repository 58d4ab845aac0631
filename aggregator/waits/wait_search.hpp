// SPDX-License-Identifier: BSD-3-Clause
// Finds where ranks waited and for whom. Definitions: docs/metrics.md.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/clock_model.hpp"
#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {

// The waiting in one call: the longest wait among the operations that the call completed.
struct Wait {
  std::uint32_t event = 0;  // whose operation waited
  // The call of the late rank before which it did what made it late.
  std::uint32_t cause = 0;
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t late_ns = 0;  // when the late rank came; end_ns unless the call returned before
  shard::WaitKind kind = shard::WaitKind::kLateSender;
};

struct Waits {
  std::vector<Wait> waits;                 // by event
  std::vector<std::uint32_t> of_call;      // row of waits per first event of a call; kNone
  std::vector<std::uint32_t> last_member;  // row of Matches::members per instance: who came last
};

// The times of the trace must be on one clock.
[[nodiscard]] Waits find_waits(const Trace& trace, const Matches& matches, const ClockModel& clocks);

}  // namespace clusterprof::aggregator::waits
