// SPDX-License-Identifier: BSD-3-Clause
#include "collector/mpi/event_reader.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "formats/shard/shard_data.hpp"
#include "formats/wire/c10d_functions.h"

namespace clusterprof::collector {
namespace {

constexpr std::size_t kDefaultBudget = 1u << 18, kDefaultFew = 1u << 12;
constexpr std::uint32_t kNoSite = 0xffff'ffffu;

KeptEvent kept_event(const wire::MpiEvent& event) {
  KeptEvent kept;
  kept.enter_ns = event.enter_ns;
  kept.exit_ns = event.exit_ns;
  kept.start_ns = event.start_ns;
  kept.mpi_ns = event.mpi_ns;
  kept.channel = event.channel;
  kept.bytes = event.bytes;
  kept.sequence = event.sequence;
  kept.peer = event.peer;
  kept.tag = event.tag;
  kept.op = event.op;
  kept.kind = static_cast<std::uint8_t>(event.kind);
  kept.flags = event.flags;
  kept.communicator_size = event.communicator_size;
  kept.paused_ns = event.paused_ns;
  kept.resumed_ns = event.resumed_ns;
  return kept;
}

}  // namespace

MpiEventReader::MpiEventReader(const SegmentView& segment, const ProcessStart& start,
                               RecordedWindows& windows, MpiCallSites& sites, DropCounts& drops)
    : segment_(segment), start_(start), windows_(windows), sites_(sites), drops_(drops) {
  for (std::shared_ptr<EventLog>& log : logs_) log = std::make_shared<EventLog>(kDefaultBudget);
  set_budget(kDefaultBudget, kDefaultFew);
}

void MpiEventReader::set_budget(std::size_t all, std::size_t few) {
  log(Events::kAll)->set_budget(all);
  log(Events::kFew)->set_budget(std::min(all, few));
  agree_on_level();
}

void MpiEventReader::begin_round(std::uint64_t now_ns) {
  const wire::SegmentHeader& header = segment_.header();
  uses_mpi_ = uses_mpi_ || header.mpi_operations.load(std::memory_order_relaxed) != 0 ||
              header.mpi_state.load(std::memory_order_relaxed) != 0;
  look_for_losses(now_ns);
  agree_on_level();
  log(Events::kAll)->look_at_stretches(now_ns);
  agree_on_level();
}

// Which calls they were is not known, but when.
void MpiEventReader::look_for_losses(std::uint64_t now_ns) {
  std::uint64_t lost = damaged_events_;
  for (const wire::DropReason reason :
       {wire::DropReason::kMpiEventRingFull, wire::DropReason::kMpiStretchRingFull})
    lost += segment_.header().drops[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  if (std::exchange(lost_events_, lost) != lost) log(Events::kAll)->note_loss(looked_before_ns_, now_ns);
  looked_before_ns_ = std::exchange(looked_ns_, now_ns);
}

// Both the wrappers and the collector raise it. Stretches are told before the level, above which they count.
void MpiEventReader::agree_on_level() {
  EventLog& all = *log(Events::kAll);
  EventLog& few = *log(Events::kFew);
  std::atomic<std::uint32_t>& shared = segment_.header().mpi_event_level;
  std::uint32_t theirs = shared.load(std::memory_order_relaxed);
  all.raise_level(theirs);
  few.raise_level(all.level());
  const wire::EventStretches& stretches = all.stretches();
  wire::SegmentHeader& header = segment_.header();
  header.stretch_offset_ns.store(stretches.offset_ns, std::memory_order_relaxed);
  header.stretch_period_ns.store(stretches.period_ns, std::memory_order_relaxed);
  header.stretch_length_ns.store(stretches.length_ns, std::memory_order_relaxed);
  while (theirs < all.level() &&
         !shared.compare_exchange_weak(theirs, all.level(), std::memory_order_release)) {
  }
}

std::uint64_t MpiEventReader::waiting(std::uint32_t slot) const {
  if (!uses_mpi_ || slot >= segment_.layout().mpi_event_rings) return 0;
  const wire::MpiEventRing& ring = segment_.mpi_event_ring(slot);
  return ring.written.load(std::memory_order_acquire) - ring.read.load(std::memory_order_relaxed);
}

void MpiEventReader::take(ThreadEvents& thread, std::uint32_t slot, std::uint64_t until_ns,
                          std::uint64_t latest_ns) {
  const std::uint64_t count = waiting(slot);
  if (count == 0) return;
  wire::MpiEventRing& ring = segment_.mpi_event_ring(slot);
  std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  if (count > wire::kEventRingEvents) {
    drops_.add("damaged_mpi_event_ring");
    ++damaged_events_;
    ring.read.store(read + count, std::memory_order_release);
    return;
  }
  for (const std::uint64_t end = read + count; read != end; ++read) {
    wire::MpiEvent event;
    std::memcpy(&event, &ring.events[read & (wire::kEventRingEvents - 1)], sizeof event);
    // This also holds if this process was stopped since it read the clock.
    if (event.exit_ns > until_ns && event.exit_ns <= latest_ns + kMaxStopNs) break;
    if (!is_sane(thread, event, latest_ns)) {
      drops_.add("damaged_mpi_event");
      ++damaged_events_;
      continue;
    }
    leave_out_gaps(event, latest_ns);
    if (!thread.number) thread.number = threads_++;
    thread.timeline.event(event, [&](const wire::MpiEvent& next, std::span<const GapPathTime> gap) {
      keep(thread, next, gap);
    });
  }
  ring.read.store(read, std::memory_order_release);
}

void MpiEventReader::sampled_until(ThreadEvents& thread, std::uint64_t time_ns) {
  thread.timeline.sampled_until(time_ns, [&](const wire::MpiEvent& event, std::span<const GapPathTime> gap) {
    keep(thread, event, gap);
  });
}

void MpiEventReader::finish(ThreadEvents& thread) {
  thread.timeline.flush(
      [&](const wire::MpiEvent& event, std::span<const GapPathTime> gap) { keep(thread, event, gap); });
}

bool MpiEventReader::is_sane(const ThreadEvents& thread, const wire::MpiEvent& event,
                             std::uint64_t latest_ns) const {
  const auto& layout = segment_.layout();
  const std::uint64_t earliest = start_.not_after(latest_ns);
  return static_cast<std::uint8_t>(event.kind) < wire::kMpiEventKinds && event.op < layout.mpi_ops &&
         event.op < wire::kFunctionCount &&
         (event.site == kNoSite || event.site < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops)) &&
         event.peer >= -1 && event.peer < static_cast<std::int32_t>(shard::kMaxWorldSize) &&
         event.communicator_size <= shard::kMaxWorldSize && event.enter_ns >= earliest &&
         event.enter_ns <= event.exit_ns && event.exit_ns <= latest_ns &&
         event.exit_ns >= thread.timeline.last_exit_ns() && event.start_ns >= earliest &&
         event.start_ns <= event.exit_ns && event.mpi_ns <= event.enter_ns - earliest &&
         event.paused_ns <= event.mpi_ns && event.resumed_ns <= event.exit_ns &&
         event.between_ns <= event.enter_ns - earliest &&
         (event.between_ns == 0 ||
          event.between_site < wire::all_mpi_sites(layout.mpi_sites, layout.mpi_ops));
}

void MpiEventReader::leave_out_gaps(wire::MpiEvent& event, std::uint64_t latest_ns) const {
  if (!windows_.leaves_gaps()) return;
  if (!windows_.is_recorded(event.enter_ns)) windows_.look(segment_.header(), start_, latest_ns);
  const std::uint64_t begin_ns = start_.recorded_not_after(event.enter_ns);
  const std::uint64_t outside_ns = event.enter_ns - begin_ns - windows_.recorded_ns(begin_ns, event.enter_ns);
  // No more than has passed, whatever the process says.
  event.mpi_ns = std::min(event.mpi_ns + outside_ns, event.enter_ns - begin_ns);
}

void MpiEventReader::keep(const ThreadEvents& thread, const wire::MpiEvent& event,
                          std::span<const GapPathTime> gap) {
  KeptEvent kept = kept_event(event);
  const std::int32_t rank = segment_.header().mpi_rank.load(std::memory_order_relaxed);
  // Calls without an event are a part of the gap, too.
  std::array<GapPathTime, GapTimeline::kMaxPathsOfGap + 1> path_times;
  if (event.between_ns != 0 && gap.size() < path_times.size()) {
    const auto end = std::copy(gap.begin(), gap.end(), path_times.begin());
    *end = {sites_.path_of_event(event.between_site, event.op), event.between_ns};
    gap = {path_times.data(), gap.size() + 1};
  }
  // The log has to see every event to know which of them the stretches need.
  bool wanted = !gap.empty() || log(Events::kAll)->stretches().length_ns != 0;
  for (const std::shared_ptr<EventLog>& log : logs_) {
    log->set_rank(rank);
    wanted = wanted || log->selects(kept);
  }
  if (!wanted) return;
  kept.path = sites_.path_of_event(event.site, event.op);
  for (const std::shared_ptr<EventLog>& log : logs_) log->add(*thread.number, kept, gap);
}

}  // namespace clusterprof::collector
