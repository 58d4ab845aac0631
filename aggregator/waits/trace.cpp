// SPDX-License-Identifier: BSD-3-Clause
// Collects the events of all shards in one table with indices into the merged data, and looks up what kind
// of synchronisation an MPI function is.
#include "aggregator/waits/trace.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "formats/wire/c10d_functions.h"

namespace clusterprof::aggregator::waits {
namespace {

// "MPI_Iallreduce_c" -> "allreduce", "MPI_Comm_idup" -> "comm_dup"
std::string base_name(std::string_view op) {
  std::string name(op.starts_with("MPI_") ? op.substr(4) : op);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const std::string_view suffix : {std::string_view("_c"), std::string_view("_init")})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  constexpr std::array<std::string_view, 17> kNonblocking = {"barrier",
                                                             "bcast",
                                                             "gather",
                                                             "gatherv",
                                                             "scatter",
                                                             "scatterv",
                                                             "allgather",
                                                             "allgatherv",
                                                             "alltoall",
                                                             "alltoallv",
                                                             "alltoallw",
                                                             "reduce",
                                                             "allreduce",
                                                             "scan",
                                                             "exscan",
                                                             "reduce_scatter",
                                                             "reduce_scatter_block"};
  if (name.starts_with("i") && std::find(kNonblocking.begin(), kNonblocking.end(),
                                         std::string_view(name).substr(1)) != kNonblocking.end())
    name.erase(0, 1);
  return name;
}

template <std::size_t N>
bool is_in(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A damaged file may hold any number; sums of a few of these do not overflow.
constexpr std::int64_t kMaxNs = std::int64_t{1} << 60;  // 36 years of a monotonic clock
std::int64_t signed_ns(std::uint64_t ns) {
  return static_cast<std::int64_t>(std::min(ns, static_cast<std::uint64_t>(kMaxNs)));
}
std::int64_t utc_ns(const shard::Rank& rank) {
  return std::clamp<std::int64_t>(rank.start_utc_ns, 0, 4 * kMaxNs - 1);
}
bool is_sane(const shard::ClockOffset& offset) {
  return offset.local_ns <= static_cast<std::uint64_t>(kMaxNs) &&
         offset.error_ns <= static_cast<std::uint64_t>(kMaxNs) && offset.offset_ns >= -kMaxNs &&
         offset.offset_ns <= kMaxNs;
}
// Indices of events have 32 bits, and steps among them.
constexpr std::uint64_t kMaxEvents = std::uint64_t{1} << 31;

// The order of `rows` sorted by `less`: new row per old row.
template <typename Row, typename Less>
std::vector<std::uint32_t> sort_rows(std::vector<Row>& rows, Less less) {
  std::vector<std::uint32_t> order(rows.size()), place(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return less(rows[a], rows[b]); });
  std::vector<Row> sorted;
  sorted.reserve(rows.size());
  for (const std::uint32_t row : order) {
    place[row] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(rows[row]));
  }
  rows = std::move(sorted);
  return place;
}

// Among events first .. end of a lane.
template <typename Events>
std::uint32_t first_entered_among(const Events& events, std::uint32_t first, std::uint32_t end,
                                  std::int64_t time_ns) {
  const auto found =
      std::lower_bound(events.begin() + first, events.begin() + end, time_ns,
                       [](const Event& event, std::int64_t ns) { return event.enter_ns < ns; });
  return static_cast<std::uint32_t>(found - events.begin());
}

}  // namespace

Sync sync_of(std::string_view op) {
  const std::string name = base_name(op);
  if (is_in<7>(name, {"barrier", "monitored_barrier", "finalize", "win_fence", "win_free", "file_close",
                      "comm_disconnect"}))
    return Sync::kBarrier;
  if (is_in<4>(name, {"bcast", "broadcast", "scatter", "scatterv"})) return Sync::kOneToAll;
  if (is_in<3>(name, {"reduce", "gather", "gatherv"})) return Sync::kAllToOne;
  if (is_in<2>(name, {"scan", "exscan"})) return Sync::kScan;
  return Sync::kNxN;
}

bool always_synchronises(std::string_view op) {
  return is_in<12>(base_name(op), {"barrier", "allreduce", "allgather", "alltoall", "bcast", "reduce",
                                   "reduce_scatter_block", "monitored_barrier", "all_reduce", "all_gather",
                                   "all_to_all", "broadcast"});
}

const Lane* Trace::main_lane(const Lane& lane) const {
  const Lane* main = &lane;
  while (main->thread != 0) {
    if (main == lanes.data() || (main - 1)->rank != lane.rank) return nullptr;
    --main;
  }
  return main;
}

std::uint32_t Trace::first_entered(const Lane& lane, std::int64_t time_ns) const {
  return first_entered_among(events, lane.first, lane.end, time_ns);
}

std::uint32_t Trace::first_entered_until(std::uint32_t e, std::int64_t time_ns) const {
  const std::uint32_t first = lanes[events[e].lane].first;
  // Goes back twice as far each time, until it finds an event that was entered earlier.
  std::uint32_t end = e;
  for (std::uint32_t step = 1; end - first >= step; step *= 2) {
    if (events[end - step].enter_ns < time_ns)
      return first_entered_among(events, end - step + 1, end, time_ns);
    end -= step;
  }
  return first_entered_among(events, first, end, time_ns);
}

std::span<const Pause> Trace::pauses_of(const Lane& lane) const {
  const auto before = [](const Pause& pause, std::uint32_t e) { return pause.event < e; };
  const auto first = std::lower_bound(pauses.begin(), pauses.end(), lane.first, before);
  return {first, std::lower_bound(first, pauses.end(), lane.end, before)};
}

const Pause* Trace::pause_before(std::uint32_t call) const {
  const auto pause = std::ranges::lower_bound(pauses, call, {}, &Pause::event);
  return pause != pauses.end() && pause->event == call ? &*pause : nullptr;
}

std::pair<std::int64_t, std::int64_t> Trace::times_of(const Lane& lane, const Pause& pause) const {
  const std::int64_t begin_ns = pause.event == lane.first ? lane.begin_ns : events[pause.event - 1].exit_ns;
  const std::int64_t room_ns = std::max<std::int64_t>(events[pause.event].enter_ns - begin_ns, 0);
  const std::int64_t ns = std::min(pause.ns, room_ns);
  const std::int64_t until_ns = begin_ns + room_ns - std::min(pause.before_enter_ns, room_ns - ns);
  return {until_ns - ns, until_ns};
}

void TraceBuilder::add(const shard::ShardData& shard) {
  const auto first_source = static_cast<std::uint32_t>(sources_.size());
  for (const shard::Rank& rank : shard.ranks) sources_.push_back({rank, shard.nodes[rank.node].name, 0});
  for (const shard::ClockOffset& offset : shard.clock_offsets)
    if (is_sane(offset)) offsets_.push_back({first_source + offset.rank, offset});
  for (const shard::EventStretch& stretch : shard.event_stretches) {
    if (keep_ != Keep::kAllOfRanks) break;
    stretches_.push_back(stretch);
    stretches_.back().rank += first_source;
  }
  // Rows of channels_ by those of the shard, for ranks that were started as often before.
  std::map<std::uint32_t, std::vector<std::uint32_t>> channels_of;
  const auto channel_of = [&](std::uint32_t communicator, std::uint32_t rank) {
    const std::uint32_t restart = shard.ranks[rank].restart;
    std::vector<std::uint32_t>& rows = channels_of[restart];
    rows.resize(shard.communicators.size(), kNone);
    std::uint32_t& row = rows[communicator];
    if (row != kNone) return row;
    const shard::Communicator& known = shard.communicators[communicator];
    const auto [entry, added] =
        channel_index_.try_emplace({known.identity, restart}, static_cast<std::uint32_t>(channels_.size()));
    if (added) channels_.push_back({known.identity, 0, restart});
    channels_[entry->second].size = std::max(channels_[entry->second].size, known.size);
    return row = entry->second;
  };
  for (const shard::GroupNumber& row : shard.group_numbers)
    numbers_.push_back({channel_of(row.communicator, row.rank), first_source + row.rank, row.number});
  if (shard.mpi_events.empty()) return;

  std::vector<std::uint32_t> new_path(shard.paths.size());
  for (std::size_t i = 1; i < shard.paths.size(); ++i) {
    const auto [entry, added] =
        path_index_.try_emplace(shard.paths[i].id, static_cast<std::uint32_t>(path_ids_.size()));
    if (added) path_ids_.push_back(shard.paths[i].id);
    new_path[i] = entry->second;
  }
  std::vector<std::uint16_t> new_op(shard.strings.size(), 0xffff);

  Part& part = parts_.emplace_back();
  part.events.reserve(shard.mpi_events.size());
  const shard::MpiEvent* before = nullptr;
  for (const shard::MpiEvent& event : shard.mpi_events) {
    const std::uint32_t rank = first_source + event.rank;
    if (part.lanes.empty() || part.lanes.back().rank != rank || part.lanes.back().thread != event.thread) {
      Lane lane;
      lane.rank = rank;
      lane.thread = event.thread;
      lane.first = lane.end = static_cast<std::uint32_t>(part.events.size());
      part.lanes.push_back(lane);
    }
    std::uint16_t& op = new_op[event.op];
    if (op == 0xffff) {
      const auto [entry, added] =
          op_index_.try_emplace(shard.strings[event.op], static_cast<std::uint16_t>(op_names_.size()));
      if (added) op_names_.push_back(shard.strings[event.op]);
      op = entry->second;
    }
    Event& row = part.events.emplace_back();
    row.enter_ns = signed_ns(event.enter_ns);
    row.exit_ns = std::max(row.enter_ns, signed_ns(event.exit_ns));
    row.useful_ns = row.enter_ns - signed_ns(event.mpi_ns);
    const bool is_same_thread =
        before != nullptr && before->rank == event.rank && before->thread == event.thread;
    if (is_same_thread) {
      const Event& last = part.events[part.events.size() - 2];
      // Calls of a thread do not overlap, whatever the file says.
      row.enter_ns = before->enter_ns == event.enter_ns && before->exit_ns == event.exit_ns
                         ? last.enter_ns
                         : std::max(row.enter_ns, last.exit_ns);
      row.exit_ns = std::max(row.enter_ns, row.exit_ns);
    }
    row.start_ns = std::min(row.enter_ns, signed_ns(event.start_ns));
    if (event.paused_ns != (is_same_thread ? before->paused_ns : 0))
      part.pauses.push_back({static_cast<std::uint32_t>(part.events.size() - 1), signed_ns(event.paused_ns),
                             signed_ns(event.resumed_ns)});
    before = &event;
    row.sequence = event.sequence;
    row.path = new_path[event.path];
    row.channel = event.communicator == kNone ? kNone : channel_of(event.communicator, event.rank);
    row.peer = static_cast<std::uint32_t>(event.peer);
    row.lane = static_cast<std::uint32_t>(part.lanes.size() - 1);
    row.tag = event.tag;
    row.op = op;
    row.kind = static_cast<MpiEventKind>(event.kind);
    row.flags = event.flags;
    if (keep_ == Keep::kAllOfRanks) part.bytes.push_back(event.bytes);
    part.lanes.back().end = static_cast<std::uint32_t>(part.events.size());
    ++sources_[rank].events;
  }
  part.gaps.reserve(shard.event_gaps.size());
  for (const shard::EventGap& gap : shard.event_gaps)
    part.gaps.push_back({gap.event, new_path[gap.path], static_cast<float>(gap.wall_ns),
                         static_cast<float>(std::min(gap.cpu_ns, gap.wall_ns))});
}

// When a rank has several records, takes the one that the merge took.
void TraceBuilder::choose_sources(const shard::ShardData& merged, NewRows& rows) const {
  std::vector<std::uint32_t> taken(merged.ranks.size(), kNone);
  rows.rank.assign(sources_.size(), kNone);
  for (std::uint32_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    const auto found = rows.rank_of_number.find(source.rank.rank);
    if (found == rows.rank_of_number.end()) continue;
    const shard::Rank& row = merged.ranks[found->second];
    shard::Rank same = source.rank;
    same.node = row.node;  // rows of other tables
    // Fields that the merge has corrected.
    same.main_thread_ns = row.main_thread_ns;
    same.raw_main_thread_ns = row.raw_main_thread_ns;
    same.mpi_ns = row.mpi_ns;
    for (const auto text : shard::kRankTexts) same.*text = row.*text;
    if (same != row || merged.nodes[row.node].name != source.node) continue;
    std::uint32_t& best = taken[found->second];
    if (best == kNone || sources_[best].events < source.events) best = i;
  }
  for (std::uint32_t i = 0; i < taken.size(); ++i) {
    if (taken[i] == kNone) continue;
    rows.rank[taken[i]] = i;
    if (sources_[taken[i]].events != 0)
      rows.level = std::max(rows.level, std::min(merged.ranks[i].event_level, wire::kMaxEventLevel));
  }
}

void TraceBuilder::arrange_clock_offsets(const NewRows& rows) {
  for (const SourceOffset& row : offsets_) {
    if (rows.rank[row.source] == kNone) continue;
    clock_offsets_.push_back(row.offset);
    clock_offsets_.back().rank = rows.rank[row.source];
  }
  std::sort(clock_offsets_.begin(), clock_offsets_.end(),
            [](const shard::ClockOffset& a, const shard::ClockOffset& b) {
              return std::tie(a.rank, a.local_ns, a.reference_rank, a.offset_ns) <
                     std::tie(b.rank, b.local_ns, b.reference_rank, b.offset_ns);
            });
}

void TraceBuilder::arrange_stretches(const NewRows& rows) {
  std::erase_if(stretches_,
                [&](const shard::EventStretch& stretch) { return rows.rank[stretch.rank] == kNone; });
  for (shard::EventStretch& stretch : stretches_) stretch.rank = rows.rank[stretch.rank];
  std::sort(stretches_.begin(), stretches_.end(),
            [](const shard::EventStretch& a, const shard::EventStretch& b) {
              return std::tie(a.shared_begin_ns, a.rank, a.begin_ns) <
                     std::tie(b.shared_begin_ns, b.rank, b.begin_ns);
            });
}

bool TraceBuilder::is_selected(const shard::ShardData& merged, const NewRows& rows, const Trace& trace,
                               std::uint32_t level, const Part& part, std::uint32_t e) {
  if (level == 0) return true;
  const Event& event = part.events[e];
  const std::uint64_t channel =
      event.channel == kNone ? 0 : trace.channels[rows.channel[event.channel]].identity;
  const std::int32_t rank = merged.ranks[rows.rank[part.lanes[event.lane].rank]].rank;
  return wire::event_is_selected(
      wire::event_stream(event.kind, channel, rank, static_cast<std::int32_t>(event.peer), event.tag,
                         event.flags),
      event.sequence, level);
}

// Raises the level until the events fit, and makes the lanes of the trace. Lanes of left-out ranks and lanes
// without an event at this level get no place.
std::vector<std::vector<std::uint32_t>> TraceBuilder::place_lanes(const shard::ShardData& merged,
                                                                  const NewRows& rows, Trace& trace) const {
  struct Place {
    std::uint32_t part, lane, events;
  };
  std::vector<Place> places;
  for (;; ++trace.level) {
    places.clear();
    std::uint64_t all = 0;
    for (std::uint32_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      for (std::uint32_t l = 0; l < part.lanes.size(); ++l) {
        const Lane& lane = part.lanes[l];
        if (rows.rank[lane.rank] == kNone) continue;
        std::uint32_t kept = 0;
        for (std::uint32_t e = lane.first; e < lane.end; ++e)
          kept += is_selected(merged, rows, trace, trace.level, part, e) ? 1 : 0;
        all += kept;
        if (kept != 0) places.push_back({p, l, kept});
      }
    }
    if (all < kMaxEvents) break;
    if (trace.level == wire::kMaxEventLevel) throw std::length_error("more MPI events than can be analysed");
  }
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
    const Lane &x = parts_[a.part].lanes[a.lane], &y = parts_[b.part].lanes[b.lane];
    return std::pair(rows.rank[x.rank], x.thread) < std::pair(rows.rank[y.rank], y.thread);
  });
  std::vector<std::vector<std::uint32_t>> lane_of(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p) lane_of[p].assign(parts_[p].lanes.size(), kNone);
  std::uint32_t events = 0;
  for (const Place& place : places) {
    const Lane& old = parts_[place.part].lanes[place.lane];
    Lane lane;
    lane.rank = rows.rank[old.rank];
    lane.node = merged.ranks[lane.rank].node;
    lane.thread = old.thread;
    lane.first = events;
    lane.end = events += place.events;
    lane_of[place.part][place.lane] = static_cast<std::uint32_t>(trace.lanes.size());
    trace.lanes.push_back(lane);
  }
  trace.events.resize(events);
  if (keep_ == Keep::kAllOfRanks) trace.bytes.resize(events);
  return lane_of;
}

// An event that is not in its rank's sample is there because all of its call's are, in a stretch. A rank
// without a level has all of all calls.
void TraceBuilder::add_call_sizes(const shard::ShardData& merged, const NewRows& rows, const Part& part,
                                  const Lane& lane, std::uint32_t rank, Trace& trace) {
  const std::uint32_t level = merged.ranks[rank].event_level;
  for (std::uint32_t e = lane.first; e < lane.end;) {
    const Event& first = part.events[e];
    std::uint32_t events = 0, sampled = 0;
    for (;
         e < lane.end && part.events[e].enter_ns == first.enter_ns && part.events[e].exit_ns == first.exit_ns;
         ++e, ++events)
      sampled += is_selected(merged, rows, trace, level, part, e) ? 1 : 0;
    if (level == 0 || sampled != events) trace.call_sizes.add(rank, rows.path[first.path], events);
  }
}

// Moves the events of a part to their lanes in the trace and translates them to rows of the merged tables.
void TraceBuilder::take_events(const shard::ShardData& merged, const NewRows& rows, Part part,
                               const std::vector<std::uint32_t>& lane_of, Trace& trace) {
  std::size_t gap = 0, pause = 0;
  for (std::uint32_t l = 0; l < part.lanes.size(); ++l) {
    const Lane& old = part.lanes[l];
    const std::uint32_t lane = lane_of[l];
    std::uint32_t next = lane == kNone ? 0 : trace.lanes[lane].first;
    while (gap < part.gaps.size() && part.gaps[gap].event < old.first) ++gap;
    PausedUntil paused;
    std::int64_t told_ns = 0;  // of its pauses, by events that are kept
    if (trace.level != 0 && lane != kNone)
      add_call_sizes(merged, rows, part, old, trace.lanes[lane].rank, trace);
    for (std::uint32_t e = old.first; e < old.end; ++e) {
      // Gaps before an event that is left out count for the next event that is kept.
      for (; gap < part.gaps.size() && part.gaps[gap].event == e; ++gap)
        if (lane != kNone && next < trace.lanes[lane].end)
          trace.gaps.push_back(
              {next, rows.path[part.gaps[gap].path], part.gaps[gap].wall_ns, part.gaps[gap].cpu_ns});
      for (; pause < part.pauses.size() && part.pauses[pause].event <= e; ++pause)
        paused = part.pauses[pause];
      if (lane == kNone || !is_selected(merged, rows, trace, trace.level, part, e)) continue;
      if (paused.paused_ns > told_ns) {
        trace.pauses.push_back({next, paused.paused_ns - told_ns,
                                std::max<std::int64_t>(part.events[e].enter_ns - paused.resumed_ns, 0)});
        told_ns = paused.paused_ns;
      }
      if (!part.bytes.empty()) trace.bytes[next] = part.bytes[e];
      Event& event = trace.events[next++] = part.events[e];
      event.lane = lane;
      event.path = rows.path[event.path];
      event.op = static_cast<std::uint16_t>(rows.op[event.op]);
      const auto number = static_cast<std::int32_t>(event.peer);  // negative: none
      const std::uint32_t channel = event.channel;
      if (channel != kNone) event.channel = rows.channel[channel];
      if ((event.flags & wire::kEventPeerInGroup) != 0) {
        if (event.kind >= MpiEventKind::kCollective) continue;  // CollectiveMatcher finds the root
        const auto member = rows.rank_of_member.find({channel, number});
        event.peer = member == rows.rank_of_member.end() ? kNone : member->second;
        continue;
      }
      const auto peer = number < 0 ? rows.rank_of_number.end() : rows.rank_of_number.find(number);
      event.peer = peer == rows.rank_of_number.end() ? kNone : peer->second;
    }
  }
}

namespace {

// The recorded windows of a rank.
std::span<const shard::RecordingWindow> windows_of(const shard::ShardData& merged, std::uint32_t rank) {
  const auto before = [](const shard::RecordingWindow& a, const shard::RecordingWindow& b) {
    return a.rank < b.rank;
  };
  const auto [begin, end] = std::equal_range(merged.recording_windows.begin(), merged.recording_windows.end(),
                                             shard::RecordingWindow{rank, 0, 0}, before);
  return {begin, end};
}

// The largest number that, added to the lane's times, can make them times since its rank began: no event
// ended after the rank did, or after the window in which it was recorded. The last event is taken to be of
// the last window, but in a run on standby, whose events tell more.
std::int64_t most_since_start(const shard::ShardData& merged, const Trace& trace, const Lane& lane) {
  const shard::Rank& rank = merged.ranks[lane.rank];
  const std::span<const shard::RecordingWindow> windows = windows_of(merged, lane.rank);
  const auto until_ns = [&](std::uint64_t ns) { return signed_ns(std::min(ns, rank.elapsed_ns)); };
  // Events count what was left out before them since the process last executed a program, which was before
  // MPI_Init.
  const std::int64_t init_ns = signed_ns(rank.mpi_init_end_ns);
  if (windows.empty() || !merged.run.standby || init_ns == 0)
    return until_ns(windows.empty() ? rank.elapsed_ns : windows.back().end_ns) -
           trace.events[lane.end - 1].exit_ns;

  std::int64_t most_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t left_out_ns = signed_ns(windows[0].begin_ns), calls_ns = 0, paused_ns = 0;
  std::size_t window = 0;
  const std::span<const Pause> pauses = trace.pauses_of(lane);
  auto pause = pauses.begin();
  for (std::uint32_t e = lane.first; e != lane.end; e = trace.call_end(e)) {
    const Event& event = trace.events[e];
    for (; pause != pauses.end() && pause->event <= e; ++pause) paused_ns += pause->ns;
    // Before the event's end. A call that lasts over several windows counts as one stretch.
    const std::int64_t most_left_out_ns = event.exit_ns - event.useful_ns - calls_ns - paused_ns + init_ns;
    for (; window + 1 != windows.size(); ++window) {
      const std::int64_t until_next_ns =
          left_out_ns + signed_ns(windows[window + 1].begin_ns) - signed_ns(windows[window].end_ns);
      if (until_next_ns > most_left_out_ns) break;
      left_out_ns = until_next_ns;
    }
    most_ns = std::min(most_ns, until_ns(windows[window].end_ns) - event.exit_ns);
    calls_ns += event.exit_ns - event.enter_ns;
  }
  return most_ns;
}

// Sets when each thread began and ended, on the clock of the events. The offset between a node's real-time
// and monotonic clocks is chosen so that the first of its ranks to end does so with its last event, and
// likewise with windows.
void set_begin_and_end(const shard::ShardData& merged, Trace& trace) {
  std::vector<std::int64_t> utc_minus_local(merged.nodes.size(), std::numeric_limits<std::int64_t>::max());
  for (const Lane& lane : trace.lanes) {
    const shard::Rank& rank = merged.ranks[lane.rank];
    if (rank.elapsed_ns == 0) continue;
    utc_minus_local[lane.node] =
        std::min(utc_minus_local[lane.node], utc_ns(rank) + most_since_start(merged, trace, lane));
  }
  for (Lane& lane : trace.lanes) {
    const shard::Rank& rank = merged.ranks[lane.rank];
    const Event &first = trace.events[lane.first], &last = trace.events[lane.end - 1];
    lane.begin_ns = first.enter_ns;
    lane.end_ns = last.exit_ns;
    if (lane.thread != 0 || rank.elapsed_ns == 0) continue;
    const std::int64_t mpi_before = first.enter_ns - first.useful_ns;
    lane.begin_ns = std::min(utc_ns(rank) - utc_minus_local[lane.node],
                             first.enter_ns - std::max<std::int64_t>(mpi_before, 0));
    lane.begin_ns = std::max(lane.begin_ns, first.enter_ns - kMaxNs);
    lane.head_ns = first.enter_ns - lane.begin_ns - mpi_before;
    lane.end_ns = std::max(lane.begin_ns + signed_ns(rank.elapsed_ns), last.exit_ns);
    const std::int64_t mpi_until = last.exit_ns - last.useful_ns;
    // mpi_until has what was not recorded before the last event, too.
    const std::int64_t standby_ns = signed_ns(rank.standby_ns);
    const std::int64_t left_out_ns = std::max(signed_ns(rank.paused_ns), standby_ns);
    lane.tail_ns = std::max<std::int64_t>(
        lane.end_ns - last.exit_ns -
            std::max<std::int64_t>(signed_ns(rank.mpi_ns) + left_out_ns - mpi_until, 0),
        0);
    // Where the program ended in a pause; what is more is of a program that the process executed before.
    std::int64_t paused_ns = left_out_ns - standby_ns;
    for (const Pause& pause : trace.pauses_of(lane)) paused_ns -= std::min(pause.ns, paused_ns);
    lane.tail_paused_ns = std::min(paused_ns, lane.end_ns - last.exit_ns);
    lane.head_paused_ns = std::clamp<std::int64_t>(lane.head_ns, 0, paused_ns - lane.tail_paused_ns);
    lane.head_ns -= lane.head_paused_ns;
  }
}

// When each rank was in MPI_Init and in MPI_Finalize.
void set_init_and_finalize(const shard::ShardData& merged, Trace& trace) {
  struct Startup {
    std::uint32_t path = 0;
    std::int64_t init_ns = 0, finalize_ns = 0;
  };
  std::vector<Startup> startups(merged.ranks.size());
  for (const shard::MpiCall& call : merged.mpi_calls) {
    const std::uint32_t frame = merged.paths[call.path].frame;
    if (frame == kNone) continue;
    const std::string_view name = merged.strings[merged.frames[frame].name];
    Startup& startup = startups[call.rank];
    if (name == "MPI_Init" || name == "MPI_Init_thread") {
      startup.path = call.path;
      startup.init_ns = signed_ns(call.time_ns);
    } else if (name == "MPI_Finalize") {
      startup.finalize_ns = signed_ns(call.time_ns);
    }
  }
  for (Lane& lane : trace.lanes) {
    const shard::Rank& rank = merged.ranks[lane.rank];
    const Startup& startup = startups[lane.rank];
    lane.init_path = startup.path;
    const std::int64_t init_end_ns = signed_ns(rank.mpi_init_end_ns);
    if (init_end_ns != 0) {
      lane.init.length_ns = std::min(startup.init_ns, init_end_ns);
      lane.init.begin_ns = init_end_ns - lane.init.length_ns;
    }
    if (rank.mpi_finalize_begin_ns != 0)
      lane.finalize = {signed_ns(rank.mpi_finalize_begin_ns), startup.finalize_ns};
  }
}

// Finds for each call path what called MPI, and whether a thread lacked a processor there.
void set_paths(const shard::ShardData& merged, Trace& trace) {
  trace.outside.resize(merged.paths.size());
  for (std::uint32_t i = 1; i < merged.paths.size(); ++i) {
    const shard::Path& path = merged.paths[i];
    const shard::Frame& frame = merged.frames[path.frame];
    trace.outside[i] = frame.kind == shard::FrameKind::kMpi ? path.parent : i;
    if (frame.kind != shard::FrameKind::kKernel || merged.strings[frame.name] != shard::kRunnableName)
      continue;
    trace.lacks_processor.resize(merged.paths.size());
    trace.lacks_processor[i] = true;
  }
}

}  // namespace

Trace TraceBuilder::finish(const shard::ShardData& merged) {
  Trace trace;
  NewRows rows;
  for (std::uint32_t i = 0; i < merged.ranks.size(); ++i)
    rows.rank_of_number.emplace(merged.ranks[i].rank, i);
  choose_sources(merged, rows);
  arrange_clock_offsets(rows);
  arrange_stretches(rows);
  trace.level = keep_ == Keep::kSample ? rows.level : 0;

  for (const Number& number : numbers_)
    if (rows.rank[number.source] != kNone)
      rows.rank_of_member.try_emplace({number.channel, number.number}, rows.rank[number.source]);
  rows.path.resize(path_ids_.size());
  for (std::uint32_t i = 1; i < merged.paths.size(); ++i) {
    const auto found = path_index_.find(merged.paths[i].id);
    if (found != path_index_.end()) rows.path[found->second] = i;
  }
  rows.channel = sort_rows(channels_, [](const Channel& a, const Channel& b) {
    return std::tie(a.identity, a.restart) < std::tie(b.identity, b.restart);
  });
  trace.channels = std::move(channels_);
  rows.op = sort_rows(op_names_, std::less<std::string>());
  for (const std::string& name : op_names_)
    trace.ops.push_back({name, sync_of(name), always_synchronises(name)});

  const std::vector<std::vector<std::uint32_t>> lane_of = place_lanes(merged, rows, trace);
  for (std::size_t p = 0; p < parts_.size(); ++p)
    take_events(merged, rows, std::exchange(parts_[p], {}), lane_of[p], trace);
  trace.level = std::max(trace.level, rows.level);
  std::sort(trace.gaps.begin(), trace.gaps.end(), [](const Gap& a, const Gap& b) {
    return std::tie(a.event, a.path, a.wall_ns, a.cpu_ns) < std::tie(b.event, b.path, b.wall_ns, b.cpu_ns);
  });
  std::sort(trace.pauses.begin(), trace.pauses.end(),
            [](const Pause& a, const Pause& b) { return a.event < b.event; });
  set_begin_and_end(merged, trace);
  set_init_and_finalize(merged, trace);
  set_paths(merged, trace);

  auto offsets = std::move(clock_offsets_);
  auto stretches = std::move(stretches_);
  *this = TraceBuilder(keep_);
  clock_offsets_ = std::move(offsets);
  stretches_ = std::move(stretches);
  return trace;
}

}  // namespace clusterprof::aggregator::waits
