// SPDX-License-Identifier: BSD-3-Clause
// Matches events: the two sides of a message, and the members of a collective operation.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {

// One rank's part in a collective operation.
struct Member {
  std::uint32_t rank = 0;
  std::uint32_t arrival = kNone;  // event in which the rank came: the blocking call, or the one that started
  std::uint32_t completion = kNone;  // event in which it left; kNone: not seen
  std::int32_t place = 0;            // the rank's number in the communicator

  // The order of members in scans.
  [[nodiscard]] bool is_before(const Member& other) const {
    return place != other.place ? place < other.place : rank < other.rank;
  }
};

struct Instance {
  std::uint32_t first = 0, count = 0;  // rows of Matches::members, by rank
  std::uint32_t root = kNone;          // rank
  std::uint16_t op = 0;
  bool whole = false;  // all ranks that the run has of it are there; others are not looked at
};

struct Matches {
  std::vector<Member> members;
  std::vector<Instance> instances;
  std::uint64_t messages = 0, unmatched_messages = 0;
  std::uint64_t unmatched_collectives = 0;
  std::uint64_t cut_collectives = 0;  // instances of which a member was outside of its window

  // When the member arrived, by the clock of its events.
  [[nodiscard]] static std::int64_t arrival_ns(const Trace& trace, const Member& member) {
    const Event& event = trace.events[member.arrival];
    return event.kind == MpiEventKind::kCollectiveDone ? event.start_ns : event.enter_ns;
  }
  // kNone without one
  [[nodiscard]] std::uint32_t member_of(const Instance& instance, std::uint32_t rank) const;
};

// Sets Event::match. For kReceive, kProbe and kSendDone it is the kSend; for kSend the kReceive; for
// collectives the row of Matches::instances. missing_ranks: how many ranks of the job have no events; a
// collective operation may lack as many members. has_windows: events were only recorded in windows, so the
// other side of a message or collective operation may have been outside of one; such an operation is not
// counted.
[[nodiscard]] Matches match_events(Trace& trace, std::uint32_t missing_ranks, bool has_windows = false);

}  // namespace clusterprof::aggregator::waits
