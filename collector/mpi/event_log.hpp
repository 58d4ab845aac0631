// SPDX-License-Identifier: BSD-3-Clause
// Keeps the MPI events of one process until the shard is written, in a few bytes each: what all events of a
// call site have in common is stored once, times and counts as differences. If there are more events than the
// budget, the level of wire::event_is_selected rises and events that it no longer selects are dropped. So the
// log always has a uniform sample of all operations so far. Beside it, with at most half of the budget, it
// has all events of stretches of time (wire::EventStretches): their period doubles as the run grows, they get
// shorter if they have too many events, and further ones get longer if they have few. Times are of
// CLOCK_MONOTONIC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "collector/stacks/flat_index.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::collector {

// Which of a process's MPI events a report contains.
enum class Events : std::uint8_t {
  kFew,  // few enough to be written every few seconds; of a higher level
  kAll,
};

// wire::MpiEvent with its call site as a node of the RawStore.
struct KeptEvent {
  std::uint64_t enter_ns = 0, exit_ns = 0, start_ns = 0, mpi_ns = 0;
  std::uint64_t channel = 0, bytes = 0;
  std::uint32_t path = 0, sequence = 0;
  std::int32_t peer = 0, tag = 0;
  std::uint16_t op = 0;
  std::uint8_t kind = 0, flags = 0;
  std::uint32_t communicator_size = 0;
  // resumed_ns is kept only where paused_ns is not that of the thread's event before; else it is that one's.
  std::uint64_t paused_ns = 0, resumed_ns = 0;
  friend bool operator==(const KeptEvent&, const KeptEvent&) = default;
};

// Time on a call path (node of the RawStore) between two events.
struct GapPathTime {
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;  // of it, on a processor
  friend bool operator==(const GapPathTime&, const GapPathTime&) = default;
};

// A stretch of time that is over, and whether the log has all of its events.
struct KeptStretch {
  std::uint64_t shared_begin_ns = 0;  // by the clock that all nodes share
  std::uint64_t begin_ns = 0, end_ns = 0;
  bool complete = false;
  friend bool operator==(const KeptStretch&, const KeptStretch&) = default;
};

class EventLog {
 public:
  // The run so far has so many periods of stretches, and less than twice as many.
  static constexpr std::uint64_t kLeastPeriods = 8;
  // If shorter stretches have too many events, there are none.
  static constexpr std::uint64_t kShortestStretchNs = std::uint64_t{1} << 16;

  explicit EventLog(std::size_t budget);

  // How many events to keep. 0: none, and the level is the highest.
  void set_budget(std::size_t budget);
  // The process's rank in MPI_COMM_WORLD. Call this before the first event.
  void set_rank(std::int32_t rank) noexcept { rank_ = rank; }
  // Whether the current level selects the event.
  [[nodiscard]] bool selects(const KeptEvent& event) const noexcept {
    return level_ == 0 || wire::event_is_selected(
                              wire::event_stream(static_cast<wire::MpiEventKind>(event.kind), event.channel,
                                                 rank_, event.peer, event.tag, event.flags),
                              event.sequence, level_);
  }
  // Drops the events that this level does not select and no stretch needs.
  void raise_level(std::uint32_t level);

  // From now on there are stretches, by a clock that is so much ahead of CLOCK_MONOTONIC (modulo 2^64). If
  // the offset changes above level 0, they begin anew.
  void set_shared_clock(std::uint64_t offset_ns);
  // It is now_ns, and wrappers are told of stretches() soon. At level 0: what they are if a wrapper raises
  // the level next. Above, where there are none yet: they begin, and what was before is incomplete. Else
  // further ones may get longer.
  void look_at_stretches(std::uint64_t now_ns);
  // Those that are to come.
  [[nodiscard]] const wire::EventStretches& stretches() const noexcept { return stretches_; }
  // Events of this time may be missing.
  void note_loss(std::uint64_t from_ns, std::uint64_t until_ns);
  // Those between the first event and the last; none at level 0, where all events are there.
  [[nodiscard]] std::vector<KeptStretch> kept_stretches() const;

  // Adds the next event of a thread, in order of exit_ns, with what the thread did since its event before. If
  // the event is not kept, its gap goes to the next event of the same call.
  void add(std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap);

  [[nodiscard]] std::size_t budget() const noexcept { return budget_; }
  [[nodiscard]] std::uint32_t level() const noexcept { return level_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // Of these, those that only a stretch needs.
  [[nodiscard]] std::size_t stretch_events() const noexcept { return stretch_events_; }
  // Events that were selected but did not fit, because the level cannot rise any further.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  // Calls visit(thread, const KeptEvent&, std::span<const GapPathTime>) for all events, by thread, then time.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [number, thread] : threads_) {
      Reader reader(thread);
      while (reader.next()) visit(number, reader.event, std::span<const GapPathTime>(reader.gap));
    }
  }

 private:
  // What events of one kind of a call site have in common.
  struct Source {
    std::uint64_t channel;
    std::uint32_t path;
    std::uint16_t op;
    std::uint8_t kind, flags;
    std::uint32_t communicator_size;
    friend bool operator==(const Source&, const Source&) = default;
  };
  // The latest values of a source: the next event of it is stored as the difference.
  struct Latest {
    std::uint64_t bytes = 0;
    std::uint32_t sequence = 0;
    std::int32_t peer = 0, tag = 0;
  };
  struct Call {
    std::uint64_t enter_ns = 0, exit_ns = 0, mpi_ns = 0, paused_ns = 0, resumed_ns = 0;
  };
  struct Thread {
    std::vector<std::uint8_t> bytes;
    std::vector<Source> sources;
    FlatIndex source_index;  // by a hash; the next free number where two have the same
    std::vector<Latest> latest;
    Call call;
    std::size_t events = 0;
    std::size_t stretch_events = 0;  // of these
    wire::EventInterval interval;    // of the latest event that came; it may begin too early
    Call orphan_call;                // whose gap is
    std::vector<GapPathTime> orphan_gap;

    std::uint32_t source(const Source& source);
    void put(std::uint64_t value);
    void append(const KeptEvent& event, std::span<const GapPathTime> gap);
  };
  struct Reader {
    explicit Reader(const Thread& thread) : from(thread), latest(thread.sources.size()) {}
    bool next();
    std::uint64_t get();
    const Thread& from;
    std::size_t at = 0;
    std::vector<Latest> latest;
    Call call;
    KeptEvent event;
    std::vector<GapPathTime> gap;
  };

  // Of the stretch that begins then, by the shared clock.
  [[nodiscard]] std::uint64_t length_at(std::uint64_t shared_ns) const noexcept;
  // Whether a stretch needs an event of this interval.
  [[nodiscard]] bool is_in_stretch(const wire::EventInterval& interval) const noexcept {
    if (level_ == 0 || lengths_.empty()) return false;
    wire::EventStretches stretches = stretches_;
    stretches.length_ns = length_at(stretches.period_at(interval.until_ns));
    return wire::touches_stretch(stretches, interval.from_ns, interval.until_ns);
  }
  void append_if_kept(Thread& thread, const KeptEvent& event, std::span<const GapPathTime> gap) const;
  void thin();
  void fit();
  void begin_stretches(std::uint64_t now_ns, std::uint64_t parts);
  void end_stretches();
  void shorten_stretches();
  void lengthen_period(std::uint64_t now_ns);

  std::size_t budget_;
  std::size_t size_ = 0, stretch_events_ = 0;
  std::uint32_t level_ = 0;
  std::int32_t rank_ = -1;
  std::uint64_t refused_ = 0;
  bool has_shared_clock_ = false;
  bool too_dense_ = false;   // for stretches
  bool just_began_ = false;  // wrappers may not yet know of the stretches
  wire::EventStretches stretches_;
  struct Length {
    std::uint64_t since_ns, length_ns;  // by the shared clock
  };
  std::vector<Length> lengths_;            // of stretches that begin then or later, up to the next row
  std::optional<std::uint64_t> first_ns_;  // when the first call with an event was entered
  std::uint64_t last_ns_ = 0;              // when the last one returned
  struct Loss {
    std::uint64_t from_ns, until_ns;
  };
  std::vector<Loss> losses_;  // in order
  std::map<std::uint32_t, Thread> threads_;
};

}  // namespace clusterprof::collector
