// SPDX-License-Identifier: BSD-3-Clause
// Which thread of a process has made and joined which one, and what each did in between: the life of a thread
// is divided into spans, each of which ends where it makes or joins another one, or ends itself.
//
// Each thread has a GapTimeline of its own that divides samples among spans, as those of MPI events are
// divided among the gaps between calls. Everything is bounded: a process with too many spans has none. Times
// are in nanoseconds of the monotonic clock. Only the thread that polls the process calls this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collector/mpi/gap_timeline.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/thread_tie.h"

namespace clusterprof::collector {

// A span of a thread. Times on call paths are of [begin, call), nodes of the RawStore.
struct RawThreadSpan {
  std::uint32_t thread = 0;            // the main thread is 0
  std::uint32_t other = shard::kNone;  // that it has made or joined; kNone: not known
  shard::SpanEnd how = shard::SpanEnd::kEnd;
  std::uint64_t begin_ns = 0;
  std::uint64_t call_ns = 0;                // when it called what makes or joins the other one
  std::uint64_t end_ns = 0;                 // when that returned
  std::uint32_t mpi_thread = shard::kNone;  // its number among the threads with MPI events
  std::vector<GapPathTime> times;
};

// Of one thread; empty for one that has no number.
struct ThreadTimeline {
  static constexpr std::size_t kMostPaths = 256;  // of a span

  std::optional<std::uint32_t> number;
  GapTimeline timeline;
};

class ThreadTies {
 public:
  static constexpr std::size_t kMaxSpans = shard::kMaxThreadSpans;
  static constexpr std::size_t kMaxThreads = kMaxSpans;

  void begin(ThreadTimeline& thread, bool main, std::int32_t tid, std::uint64_t begin_ns);
  // A record of the thread. False: it is damaged, as one that ends after latest_ns.
  [[nodiscard]] bool take(ThreadTimeline& thread, const wire::ThreadTie& tie, std::uint64_t latest_ns);
  // All samples of the thread up to this time have been read.
  void sampled_until(ThreadTimeline& thread, std::uint64_t time_ns);
  // `mpi_thread`: its number among the threads with MPI events, if it has one.
  void end(ThreadTimeline& thread, std::uint64_t end_ns, std::optional<std::uint32_t> mpi_thread);

  // Of threads that have ended, by thread and time. Empty: there were too many.
  [[nodiscard]] std::vector<RawThreadSpan> spans() const;

 private:
  struct Known {
    std::int32_t tid = 0;
    std::uint64_t begin_ns = 0, span_ns = 0;    // span_ns: when the present span began
    std::uint64_t created_ns = 0, pthread = 0;  // 0: not known
    std::int32_t creator = 0;
    std::uint32_t mpi_thread = shard::kNone;
  };
  struct Span {
    RawThreadSpan span;
    std::uint64_t created_ns = 0, pthread = 0;  // of what was made; that was joined
  };

  void put(ThreadTimeline& thread, shard::SpanEnd how, std::uint64_t call_ns, std::uint64_t end_ns,
           std::uint64_t pthread);
  void keep(std::uint32_t number, const wire::MpiEvent& event, std::span<const GapPathTime> times);
  void give_up();
  [[nodiscard]] std::uint32_t other_of(const Span& span) const;

  static constexpr std::size_t kManyTimes = 65536;  // of all spans; further ones keep few
  std::vector<Known> threads_{Known{}};             // by number
  std::vector<Span> spans_;
  std::size_t times_ = 0;
  bool too_many_ = false;
};

}  // namespace clusterprof::collector
