// SPDX-License-Identifier: BSD-3-Clause
// Reads the MPI events of a process from its event rings (wire::MpiEventRing), checks them, combines them
// with what samples say about the time between them (GapTimeline), and keeps them in two EventLogs: one with
// all events that the budget allows, and one with few events that is quickly written.
//
// If a log exceeds its budget, it raises its level and that of the wrappers (wire::event_is_selected), so
// that all ranks keep the same operations. The log with all events also keeps those of stretches of time
// (wire::EventStretches), and the wrappers are told which. Damaged events are counted ("damaged_mpi_event",
// "damaged_mpi_event_ring"). Times are in nanoseconds of the monotonic clock. The thread that polls the
// process calls this; a log that was handed out may be read by another thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "collector/mpi/call_sites.hpp"
#include "collector/mpi/event_log.hpp"
#include "collector/mpi/gap_timeline.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/recorded_windows.hpp"
#include "collector/rings/segment_view.hpp"

namespace clusterprof::collector {

// How much newer than the clock reading of this round events may be: the collector may be stopped within a
// round.
inline constexpr std::uint64_t kMaxStopNs = 60'000'000'000;

// The events of one thread that are on their way from its ring to the logs.
struct ThreadEvents {
  GapTimeline timeline;
  std::optional<std::uint32_t> number;  // among the threads with events
};

class MpiEventReader {
 public:
  // All of them must outlive it.
  MpiEventReader(const SegmentView& segment, const ProcessStart& start, RecordedWindows& windows,
                 MpiCallSites& sites, DropCounts& drops);

  // The largest number of events to keep, in all and for Events::kFew.
  void set_budget(std::size_t all, std::size_t few);
  // The clock that all nodes share minus CLOCK_MONOTONIC, modulo 2^64. Without it there are no stretches.
  void set_shared_clock(std::uint64_t offset_ns) { log(Events::kAll)->set_shared_clock(offset_ns); }
  // Before and after each round: looks whether the process uses MPI and has lost events, and agrees with its
  // wrappers on the level and the stretches.
  void begin_round(std::uint64_t now_ns);
  void agree_on_level();
  [[nodiscard]] bool uses_mpi() const noexcept { return uses_mpi_; }

  // The number of events that wait in the ring of a thread slot.
  [[nodiscard]] std::uint64_t waiting(std::uint32_t slot) const;
  // Takes the events that ended by `until_ns`. An event that ends after `latest_ns` (now) is damaged.
  void take(ThreadEvents& thread, std::uint32_t slot, std::uint64_t until_ns, std::uint64_t latest_ns);
  // All samples of the thread up to this time have been read.
  void sampled_until(ThreadEvents& thread, std::uint64_t time_ns);
  // The thread will have no more samples.
  void finish(ThreadEvents& thread);

  [[nodiscard]] const std::shared_ptr<EventLog>& log(Events which) const noexcept {
    return logs_[static_cast<std::size_t>(which)];
  }

 private:
  [[nodiscard]] bool is_sane(const ThreadEvents& thread, const wire::MpiEvent& event,
                             std::uint64_t latest_ns) const;
  // What passed unrecorded before this event counts as time inside MPI, so that what is left is the recorded
  // time outside.
  void leave_out_gaps(wire::MpiEvent& event, std::uint64_t latest_ns) const;
  void keep(const ThreadEvents& thread, const wire::MpiEvent& event, std::span<const GapPathTime> gap);
  void look_for_losses(std::uint64_t now_ns);

  const SegmentView& segment_;
  const ProcessStart& start_;
  RecordedWindows& windows_;
  MpiCallSites& sites_;
  DropCounts& drops_;
  bool uses_mpi_ = false;  // the rings of events may have been written
  std::uint64_t lost_events_ = 0, damaged_events_ = 0;
  // Of the last look at these, and the one before: a wrapper may take a while from a call to the count.
  std::uint64_t looked_ns_ = 0, looked_before_ns_ = 0;
  std::uint32_t threads_ = 0;
  std::array<std::shared_ptr<EventLog>, 2> logs_;  // by Events
};

}  // namespace clusterprof::collector
