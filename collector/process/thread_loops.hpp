// SPDX-License-Identifier: BSD-3-Clause
// The event loops of one thread: what its slot says of them, and where their blocked turns spent their time.
// Bounded: LongestTurns of each of at most wire::kThreadLoops loops. Times are in nanoseconds of the
// monotonic clock. Only the thread that polls the process may call this.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "collector/charge/loop_turns.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/stacks/raw_store.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// One loop as it is reported.
struct RawLoop {
  std::int32_t pid = 0, tid = 0;
  bool main_thread = false;
  std::string thread;             // its name
  std::uint32_t number = 0;       // of the thread's loops
  std::uint32_t wait_path = 0;    // where the thread waits for events; 0: no sample says
  std::int64_t start_utc_ns = 0;  // of the thread
  std::uint64_t turns = 0, idle_ns = 0, busy_ns = 0, blocked = 0, blocked_ns = 0, longest_ns = 0;
  std::int64_t longest_utc_ns = 0;  // when it began
  std::array<std::uint64_t, wire::kTurnBins> lengths{};
  struct Turn {
    std::int64_t begin_utc_ns = 0;
    RawTurn turn;
  };
  std::vector<Turn> longest;  // of the blocked turns, by begin
};

class ThreadLoops {
 public:
  // Whether samples of the thread are wanted.
  [[nodiscard]] bool has_loops() const noexcept { return has_loops_; }

  // A sample of the thread, in the order of their times. `waits`: in a wait for events.
  void sample(std::uint64_t time_ns, std::uint64_t cpu_ns, bool blocked, bool waits, std::uint32_t path);

  // Call it before the samples are read: turns that are known now have all their samples in the ring.
  void look(const wire::ThreadSlot& slot) noexcept;
  // Call it after that: charges these turns. `last`: there will be no further look.
  void charge(const wire::ThreadSlot& slot, std::uint64_t now_ns, bool last, const RawTables& tables,
              DropCounts& drops);

  // The loops, as they are now. `not_before`: when the thread began. Fills in what the slot knows and the
  // thread's longest turns, but not the thread's identity. `utc_ns(ns)` converts times.
  template <typename UtcOf>
  [[nodiscard]] std::vector<RawLoop> report(const wire::ThreadSlot& slot, std::uint64_t not_before_ns,
                                            std::uint64_t now_ns, const RawTables& tables,
                                            const UtcOf& utc_ns) const {
    std::vector<RawLoop> loops;
    for (std::uint32_t i = 0; i < wire::kThreadLoops; ++i) {
      RawLoop loop;
      std::uint64_t longest_began_ns = 0;
      std::vector<RawTurn> turns;
      if (!read(slot.event_loops.loops[i], {not_before_ns, now_ns}, tables, loop, longest_began_ns, turns))
        continue;
      loop.number = i;
      if (loop.longest_ns != 0) loop.longest_utc_ns = utc_ns(longest_began_ns);
      for (RawTurn& turn : turns) loop.longest.push_back({utc_ns(turn.begin_ns), std::move(turn)});
      loops.push_back(std::move(loop));
    }
    return loops;
  }

 private:
  struct Span {
    std::uint64_t begin_ns, end_ns;
  };
  // False: it is none.
  bool read(const wire::EventLoop& from, const Span& when, const RawTables& tables, RawLoop& loop,
            std::uint64_t& longest_began_ns, std::vector<RawTurn>& turns) const;
  [[nodiscard]] RawTurn turn_of(std::uint64_t begin_ns, std::uint64_t end_ns, const RawTables& tables) const;

  bool has_loops_ = false;
  std::uint64_t seen_ = 0, charged_ = 0;  // blocked turns, counted as the slot does
  std::uint32_t wait_path_ = 0;
  TurnSamples samples_;
  std::map<std::uint32_t, LongestTurns> longest_;  // by descriptor plus one
};

}  // namespace clusterprof::collector
