// SPDX-License-Identifier: BSD-3-Clause
// Keeps the MPI events of one process until the shard is written, in a few bytes each: what all events of a
// call site have in common is stored once, times and counts as differences. If there are more events than the
// budget, the level of wire::event_is_selected rises and events that it no longer selects are dropped. So the
// log is always a uniform sample of all operations so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
  friend bool operator==(const KeptEvent&, const KeptEvent&) = default;
};

// Time on a call path (node of the RawStore) between two events.
struct GapPathTime {
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  friend bool operator==(const GapPathTime&, const GapPathTime&) = default;
};

class EventLog {
 public:
  explicit EventLog(std::size_t budget);

  // How many events to keep. 0: none, and the level is the highest.
  void set_budget(std::size_t budget);
  // The process's rank in MPI_COMM_WORLD. Call this before the first event.
  void set_rank(std::int32_t rank) noexcept { rank_ = rank; }
  // Whether the current level selects the event.
  [[nodiscard]] bool selects(const KeptEvent& event) const noexcept {
    return level_ == 0 ||
           wire::event_is_selected(wire::event_stream(static_cast<wire::MpiEventKind>(event.kind),
                                                      event.channel, rank_, event.peer, event.tag),
                                   event.sequence, level_);
  }
  // Drops the events that this level does not select.
  void raise_level(std::uint32_t level);

  // Adds the next event of a thread, in order of exit_ns, with what the thread did since its event before. If
  // the event is not kept, its gap goes to the next event of the same call.
  void add(std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap);

  [[nodiscard]] std::size_t budget() const noexcept { return budget_; }
  [[nodiscard]] std::uint32_t level() const noexcept { return level_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
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
    std::uint64_t enter_ns = 0, exit_ns = 0, mpi_ns = 0;
  };
  struct Thread {
    std::vector<std::uint8_t> bytes;
    std::vector<Source> sources;
    FlatIndex source_index;  // by a hash; the next free number where two have the same
    std::vector<Latest> latest;
    Call call;
    std::size_t events = 0;
    Call orphan_call;  // whose gap is
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

  bool append_if_selected(Thread& thread, const KeptEvent& event, std::span<const GapPathTime> gap) const;
  void thin();

  std::size_t budget_;
  std::size_t size_ = 0;
  std::uint32_t level_ = 0;
  std::int32_t rank_ = -1;
  std::uint64_t refused_ = 0;
  std::map<std::uint32_t, Thread> threads_;
};

}  // namespace clusterprof::collector
