// SPDX-License-Identifier: BSD-3-Clause
// The events of all ranks in one table, as the analysis of waiting works on them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/waits/call_sizes.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/wire/mpi_event.h"

namespace clusterprof::aggregator::waits {

using shard::kNone;
using wire::MpiEventKind;

// Who has to wait for whom in an operation.
enum class Sync : std::uint8_t { kBarrier, kNxN, kOneToAll, kAllToOne, kScan };
// Looks up a collective operation by its name in the wrappers' specification ("MPI_Ibcast",
// "MPI_Reduce_init_c").
Sync sync_of(std::string_view op);
// Whether no rank leaves the operation before the events that it waits for, whatever its arguments (unless a
// count is 0 on all ranks). The clocks of nodes may be adjusted by such operations.
bool always_synchronises(std::string_view op);

// Times are those of the node's clock until ClockModel::adjust() has put all on one clock. Within a lane
// enter_ns and exit_ns never decrease.
struct Event {
  std::int64_t enter_ns = 0, exit_ns = 0, start_ns = 0;
  // What the thread had spent outside MPI at enter_ns while it was recorded; only differences count.
  std::int64_t useful_ns = 0;
  std::uint32_t sequence = 0;
  std::uint32_t path = 0;         // row of the merged paths
  std::uint32_t channel = kNone;  // row of Trace::channels
  std::uint32_t peer = kNone;     // row of the merged ranks
  std::uint32_t lane = 0;
  std::uint32_t match = kNone;  // set by match_events()
  std::int32_t tag = 0;
  std::uint16_t op = 0;  // row of Trace::ops
  MpiEventKind kind = MpiEventKind::kSend;
  std::uint8_t flags = 0;  // wire::MpiEventFlags
};
static_assert(sizeof(Event) == 64);

// Part of the time between the previous event and this one, as samples showed it. For calls without events in
// between, whose path is an MPI function's, it is the time that the wrappers recorded.
struct Gap {
  std::uint32_t event = 0, path = 0;
  float wall_ns = 0;
  float cpu_ns = 0;  // of it, on a processor
};

// The pauses of the recording between a call (its first event) and the thread's event before, if there were
// any. Where they were is known of the last one: all count as one that ended then.
struct Pause {
  std::uint32_t event = 0;
  std::int64_t ns = 0;
  std::int64_t before_enter_ns = 0;  // it ended so long before the call
};

// The events of one thread: rows first .. end of Trace::events, in order of time.
struct Lane {
  std::uint32_t rank = 0, node = 0;  // rows of the merged tables
  std::uint32_t thread = 0;          // 0: the rank's main thread
  std::uint32_t first = 0, end = 0;
  // Of the rank (thread 0), else of the events. head_ns and tail_ns are times outside MPI before the first
  // and after the last event.
  std::int64_t begin_ns = 0, end_ns = 0, head_ns = 0, tail_ns = 0;
  // Pauses that no event tells of: from begin_ns on, and up to end_ns.
  std::int64_t head_paused_ns = 0, tail_paused_ns = 0;
  std::uint32_t init_path = 0;  // call site of the rank's MPI_Init; 0 not known
  // When the rank was in MPI_Init and MPI_Finalize, since begin_ns; empty where not known.
  struct Stretch {
    std::int64_t begin_ns = 0, length_ns = 0;
  };
  Stretch init, finalize;
};

struct Channel {
  std::uint64_t identity = 0;
  std::uint32_t size = 0;     // 0: not known
  std::uint32_t restart = 0;  // of its members: those of different starts have nothing in common
};

struct Op {
  std::string name;
  Sync sync = Sync::kNxN;
  bool always_synchronises = false;
};

// Memory that the kernel clears on first touch. A large table that is filled while others are freed thus
// never takes its full memory beside them.
template <typename T>
struct ClearedAllocator {
  using value_type = T;
  ClearedAllocator() = default;
  template <typename U>
  explicit ClearedAllocator(const ClearedAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    void* memory = std::calloc(count, sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  void construct(T*) noexcept { static_assert(std::is_trivially_copyable_v<T>); }
  template <typename... Arguments>
  void construct(T* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) T(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const ClearedAllocator&, const ClearedAllocator&) noexcept { return true; }
};

struct Trace {
  std::vector<Event, ClearedAllocator<Event>> events;  // by lane, then time
  std::vector<Gap> gaps;                               // by event, then path
  std::vector<Pause> pauses;                           // by event
  std::vector<std::uint64_t> bytes;                    // of messages, per event; empty unless asked for
  std::vector<Lane> lanes;                             // by rank, then thread
  std::vector<Channel> channels;
  std::vector<Op> ops;
  // Per row of the merged paths: for a path of an MPI function, the path of the code outside MPI that made
  // the call; else the path itself.
  std::vector<std::uint32_t> outside;
  // Per row of the merged paths: whether it stands for a thread that is ready but has no processor. Empty:
  // none does.
  std::vector<bool> lacks_processor;
  std::uint32_t level = 0;  // the events are those selected at this one, but see TraceBuilder::Keep
  CallSizes call_sizes;     // above level 0: of calls in stretches

  // Events with the same times are operations of one call.
  [[nodiscard]] bool same_call(std::uint32_t a, std::uint32_t b) const {
    return events[a].enter_ns == events[b].enter_ns && events[a].exit_ns == events[b].exit_ns;
  }
  // The first event of the call that event e belongs to, and the event after its last. A call may complete as
  // many operations as there are ranks.
  [[nodiscard]] std::uint32_t call_begin(std::uint32_t e) const {
    std::uint32_t low = lanes[events[e].lane].first, step = 1;
    for (; e - low >= step && same_call(e - step, e); step *= 2) e -= step;
    if (e - low >= step) low = e - step + 1;
    while (low < e) {
      const std::uint32_t middle = low + (e - low) / 2;
      if (same_call(middle, e))
        e = middle;
      else
        low = middle + 1;
    }
    return e;
  }
  [[nodiscard]] std::uint32_t call_end(std::uint32_t e) const {
    std::uint32_t high = lanes[events[e].lane].end - 1, step = 1;
    for (; high - e >= step && same_call(e, e + step); step *= 2) e += step;
    if (high - e >= step) high = e + step - 1;
    while (e < high) {
      const std::uint32_t middle = high - (high - e) / 2;
      if (same_call(e, middle))
        e = middle;
      else
        high = middle - 1;
    }
    return e + 1;
  }
  // The path of MPI time without events between a call (its first event; lane.end: the end) and the call
  // before it. Before the first call that is MPI_Init; else, as a rule, a polling call.
  [[nodiscard]] std::uint32_t path_before(const Lane& lane, std::uint32_t call) const {
    if (call == lane.end) return 0;
    return call == lane.first && lane.thread == 0 ? lane.init_path : events[call].path;
  }
  // That of the rank's main thread; the lane itself if it is one. null: it has no events.
  [[nodiscard]] const Lane* main_lane(const Lane& lane) const;
  // The first event of the lane that was entered at that time or later; lane.end: none.
  [[nodiscard]] std::uint32_t first_entered(const Lane& lane, std::int64_t time_ns) const;
  // The same in e's lane, but never later than e. Fast if it is near e.
  [[nodiscard]] std::uint32_t first_entered_until(std::uint32_t e, std::int64_t time_ns) const;
  // Those of a lane, and from when to when one of them counts.
  [[nodiscard]] std::span<const Pause> pauses_of(const Lane& lane) const;
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> times_of(const Lane& lane, const Pause& pause) const;
  // The pause before the call that begins with this event; null: there was none.
  [[nodiscard]] const Pause* pause_before(std::uint32_t call) const;
};

// Builds a trace from the shards. The result does not depend on their order.
class TraceBuilder {
 public:
  enum class Keep : std::uint8_t {
    kSample,     // what the highest level of the ranks selects
    kAllOfRanks  // also what other ranks, and stretches of time, have beside that; and the bytes of messages
  };
  explicit TraceBuilder(Keep keep = Keep::kSample) : keep_(keep) {}
  void add(const shard::ShardData& shard);
  // Empties the builder.
  [[nodiscard]] Trace finish(const shard::ShardData& merged);
  // Rows of the builder's tables refer to the merged rows by content.
  [[nodiscard]] const std::vector<shard::ClockOffset>& clock_offsets() const { return clock_offsets_; }
  // With kAllOfRanks, after finish(): by shared_begin_ns, then rank.
  [[nodiscard]] const std::vector<shard::EventStretch>& event_stretches() const { return stretches_; }

 private:
  struct PathIdHash {
    std::size_t operator()(const shard::PathId& id) const noexcept {
      return static_cast<std::size_t>(id.low);
    }
  };
  struct Source {  // one rank of one shard
    shard::Rank rank;
    std::string node;
    std::uint64_t events = 0;
  };
  struct PausedUntil {  // how long a thread had been paused by then, and when the last pause ended
    std::uint32_t event = 0;
    std::int64_t paused_ns = 0, resumed_ns = 0;
  };
  struct Part {  // one shard; lane of its events: row of lanes, with rank: row of sources_
    std::vector<Event> events;
    std::vector<std::uint64_t> bytes;  // per event, or empty
    std::vector<Gap> gaps;
    std::vector<PausedUntil> pauses;  // by event, where it is not that of the thread's event before
    std::vector<Lane> lanes;
  };
  struct Number {  // of a rank in a communicator, see shard::GroupNumber
    std::uint32_t channel = 0, source = 0;
    std::int32_t number = 0;
  };
  struct SourceOffset {
    std::uint32_t source = 0;
    shard::ClockOffset offset;
  };
  // Rows of the merged tables, indexed by rows of the builder's tables.
  struct NewRows {
    std::unordered_map<std::int32_t, std::uint32_t> rank_of_number;  // by world rank
    std::vector<std::uint32_t> rank;                                 // by row of sources_; kNone: left out
    std::vector<std::uint32_t> path, channel, op;
    std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t>
        rank_of_member;       // by channel_index_, number
    std::uint32_t level = 0;  // the highest that the ranks have
  };
  void choose_sources(const shard::ShardData& merged, NewRows& rows) const;
  void arrange_clock_offsets(const NewRows& rows);
  void arrange_stretches(const NewRows& rows);
  // The lane in the trace, by part and the part's lane; kNone: none.
  std::vector<std::vector<std::uint32_t>> place_lanes(const shard::ShardData& merged, const NewRows& rows,
                                                      Trace& trace) const;
  static void take_events(const shard::ShardData& merged, const NewRows& rows, Part part,
                          const std::vector<std::uint32_t>& lane_of, Trace& trace);
  // Of the calls of a lane of which all events are there.
  static void add_call_sizes(const shard::ShardData& merged, const NewRows& rows, const Part& part,
                             const Lane& lane, std::uint32_t rank, Trace& trace);
  // Whether a level keeps an event.
  static bool is_selected(const shard::ShardData& merged, const NewRows& rows, const Trace& trace,
                          std::uint32_t level, const Part& part, std::uint32_t e);

  Keep keep_;
  std::vector<Source> sources_;
  std::vector<Part> parts_;
  std::vector<SourceOffset> offsets_;
  std::vector<Number> numbers_;
  std::vector<shard::ClockOffset> clock_offsets_;  // rank: row of the merged ranks
  std::vector<shard::EventStretch> stretches_;  // rank: row of sources_; after finish() of the merged ranks
  std::unordered_map<shard::PathId, std::uint32_t, PathIdHash> path_index_{{shard::PathId{}, 0}};
  std::vector<shard::PathId> path_ids_{shard::PathId{}};
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> channel_index_;  // by identity, restart
  std::vector<Channel> channels_;
  std::unordered_map<std::string, std::uint16_t> op_index_;
  std::vector<std::string> op_names_;
};

}  // namespace clusterprof::aggregator::waits
