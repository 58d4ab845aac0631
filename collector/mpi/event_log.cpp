// SPDX-License-Identifier: BSD-3-Clause
// How events are packed: an event of a known source is a byte that says what differs from the source's last
// one, and the differences as numbers of variable length. Called by the MpiEventReader, one thread; read by
// the ShardBuilder.
#include "collector/mpi/event_log.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace clusterprof::collector {
namespace {

// What follows the first byte of an event; see EventLog::Thread::append.
constexpr std::uint8_t kNewCall = 1u << 0, kPeer = 1u << 1, kTag = 1u << 2, kBytes = 1u << 3,
                       kStart = 1u << 4, kGap = 1u << 5, kMpiTime = 1u << 6, kSequence = 1u << 7;

// Maps small signed numbers to small unsigned ones.
std::uint64_t folded(std::uint64_t difference) { return (difference << 1) ^ (0 - (difference >> 63)); }
std::uint64_t unfolded(std::uint64_t number) { return (number >> 1) ^ (0 - (number & 1)); }

}  // namespace

EventLog::EventLog(std::size_t budget) : budget_(0) { set_budget(budget); }

void EventLog::set_budget(std::size_t budget) {
  budget_ = budget;
  if (budget_ == 0) {
    raise_level(wire::kMaxEventLevel);
    threads_.clear();
    size_ = stretch_events_ = 0;
    end_stretches();
  }
  fit();
}

// Stretches with too many events get shorter, else the level rises.
void EventLog::fit() {
  while (size_ > budget_) {
    const bool has_stretches = level_ != 0 && !lengths_.empty();
    if (has_stretches && (stretch_events_ > budget_ / 2 || level_ == wire::kMaxEventLevel)) {
      shorten_stretches();
    } else if (level_ < wire::kMaxEventLevel) {
      // All is there so far, so stretches can be as long as the budget allows.
      if (level_ == 0 && has_shared_clock_) begin_stretches(last_ns_, 2);
      raise_level(level_ + 1);
    } else {
      return;
    }
  }
}

void EventLog::raise_level(std::uint32_t level) {
  level = std::min(level, wire::kMaxEventLevel);
  if (level <= level_) return;
  level_ = level;
  thin();
}

void EventLog::set_shared_clock(std::uint64_t offset_ns) {
  if (has_shared_clock_ && stretches_.offset_ns == offset_ns) return;
  has_shared_clock_ = true;
  stretches_.offset_ns = offset_ns;
  if (level_ == 0 || lengths_.empty()) return;
  end_stretches();
  thin();
}

// One of so many parts of each period.
void EventLog::begin_stretches(std::uint64_t now_ns, std::uint64_t parts) {
  const std::uint64_t elapsed_ns = first_ns_ && now_ns > *first_ns_ ? now_ns - *first_ns_ : 0;
  stretches_.period_ns = std::max(std::bit_floor(elapsed_ns / kLeastPeriods), parts * kShortestStretchNs);
  stretches_.length_ns = stretches_.period_ns / parts;
  lengths_ = {{0, stretches_.length_ns}};
}

void EventLog::end_stretches() {
  lengths_.clear();
  stretches_.length_ns = 0;
}

std::uint64_t EventLog::length_at(std::uint64_t shared_ns) const noexcept {
  const auto row = std::find_if(lengths_.rbegin(), lengths_.rend(),
                                [&](const Length& each) { return each.since_ns <= shared_ns; });
  return row == lengths_.rend() ? 0 : row->length_ns;
}

void EventLog::look_at_stretches(std::uint64_t now_ns) {
  constexpr std::uint64_t kParts = 16, kMostDelayNs = 1'000'000'000;
  if (!has_shared_clock_ || budget_ == 0 || too_dense_) return;
  if (level_ == 0) return begin_stretches(now_ns, kParts);
  if (std::exchange(just_began_, false)) note_loss(0, now_ns);
  if (lengths_.empty()) {
    begin_stretches(now_ns, kParts);
    note_loss(0, now_ns);
    just_began_ = true;
  } else if (stretch_events_ < budget_ / 8 && stretches_.length_ns <= stretches_.period_ns / 4) {
    // From where the stretches of before end that wrappers may be in when they are told.
    const std::uint64_t since_ns = stretches_.period_at(now_ns + kMostDelayNs) + stretches_.period_ns;
    if (since_ns <= lengths_.back().since_ns) return;
    stretches_.length_ns *= 2;
    lengths_.push_back({since_ns, stretches_.length_ns});
  }
}

void EventLog::shorten_stretches() {
  stretches_.length_ns /= 2;
  for (Length& row : lengths_) row.length_ns = std::min(row.length_ns, stretches_.length_ns);
  if (stretches_.length_ns < kShortestStretchNs) {
    end_stretches();
    too_dense_ = true;
  }
  thin();
}

void EventLog::lengthen_period(std::uint64_t now_ns) {
  if (level_ == 0 || lengths_.empty() || now_ns <= *first_ns_) return;
  const std::uint64_t before_ns = stretches_.period_ns;
  while ((now_ns - *first_ns_) / 2 / kLeastPeriods >= stretches_.period_ns) stretches_.period_ns *= 2;
  if (stretches_.period_ns != before_ns) thin();
}

void EventLog::note_loss(std::uint64_t from_ns, std::uint64_t until_ns) {
  constexpr std::size_t kMostLosses = 4096;
  // One after the other as a rule, and rarely one that reaches back.
  while (!losses_.empty() && (from_ns <= losses_.back().until_ns || losses_.size() >= kMostLosses)) {
    from_ns = std::min(from_ns, losses_.back().from_ns);
    until_ns = std::max(until_ns, losses_.back().until_ns);
    losses_.pop_back();
  }
  losses_.push_back({from_ns, until_ns});
}

std::vector<KeptStretch> EventLog::kept_stretches() const {
  std::vector<KeptStretch> kept;
  if (level_ == 0 || lengths_.empty() || !first_ns_) return kept;
  const std::uint64_t offset_ns = stretches_.offset_ns, first_ns = *first_ns_ + offset_ns;
  for (std::uint64_t shared_ns = stretches_.period_at(*first_ns_); shared_ns < last_ns_ + offset_ns;
       shared_ns += stretches_.period_ns) {
    const std::uint64_t begin_ns = shared_ns - offset_ns, end_ns = begin_ns + length_at(shared_ns);
    if (shared_ns < first_ns || end_ns > last_ns_) continue;
    const bool complete = std::none_of(losses_.begin(), losses_.end(), [&](const Loss& loss) {
      return loss.from_ns < end_ns && loss.until_ns >= begin_ns;
    });
    kept.push_back({shared_ns, begin_ns, end_ns, complete});
  }
  return kept;
}

void EventLog::add(std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap) {
  if (budget_ == 0) return;
  first_ns_ = std::min(first_ns_.value_or(event.enter_ns), event.enter_ns);
  last_ns_ = std::max(last_ns_, event.exit_ns);
  lengthen_period(last_ns_);
  const auto found = threads_.find(thread);
  wire::EventInterval interval = found == threads_.end() ? wire::EventInterval{} : found->second.interval;
  interval.advance(event.exit_ns);
  const bool selected = selects(event);
  if (!selected && !is_in_stretch(interval)) {
    // Only if the thread has an entry already, so that threads without kept events take no room.
    if (found != threads_.end()) append_if_kept(found->second, event, gap);
    return;
  }
  if (selected && size_ >= budget_ && level_ == wire::kMaxEventLevel) {
    ++refused_;
    note_loss(event.enter_ns, event.exit_ns);
    return;
  }
  append_if_kept(found == threads_.end() ? threads_[thread] : found->second, event, gap);
  ++size_;
  if (!selected) ++stretch_events_;
  fit();
}

void EventLog::append_if_kept(Thread& thread, const KeptEvent& event,
                              std::span<const GapPathTime> gap) const {
  const auto is_orphan_s = [&] {
    return thread.orphan_call.enter_ns == event.enter_ns && thread.orphan_call.exit_ns == event.exit_ns;
  };
  thread.interval.advance(event.exit_ns);
  const bool selected = selects(event);
  if (!selected && !is_in_stretch(thread.interval)) {
    if (!gap.empty()) {
      thread.orphan_call = {event.enter_ns, event.exit_ns, 0};
      thread.orphan_gap.assign(gap.begin(), gap.end());
    }
    return;
  }
  if (gap.empty() && !thread.orphan_gap.empty() && is_orphan_s()) gap = thread.orphan_gap;
  thread.append(event, gap);
  if (!selected) ++thread.stretch_events;
  thread.orphan_gap.clear();
}

void EventLog::thin() {
  size_ = stretch_events_ = 0;
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread fresh;
    Reader reader(it->second);
    while (reader.next()) append_if_kept(fresh, reader.event, reader.gap);
    size_ += fresh.events;
    stretch_events_ += fresh.stretch_events;
    if (fresh.events == 0) {
      it = threads_.erase(it);
    } else {
      fresh.interval = it->second.interval;
      if (!it->second.orphan_gap.empty()) {  // later than any event that is kept
        fresh.orphan_call = it->second.orphan_call;
        fresh.orphan_gap = std::move(it->second.orphan_gap);
      }
      it->second = std::move(fresh);
      ++it;
    }
  }
}

std::size_t EventLog::memory_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [number, thread] : threads_)
    bytes += thread.bytes.capacity() + thread.sources.capacity() * sizeof(Source) +
             thread.latest.capacity() * sizeof(Latest) + 4 * 16 * thread.source_index.size();
  return bytes;
}

std::uint32_t EventLog::Thread::source(const Source& source) {
  const std::uint64_t rest = (std::uint64_t{source.path} << 32) | (std::uint64_t{source.op} << 16) |
                             (std::uint64_t{source.kind} << 8) | source.flags;
  for (std::uint64_t hash = source.channel ^ mix(rest);; ++hash) {
    const std::uint32_t found = source_index.find(hash);
    if (found == FlatIndex::kAbsent) {
      const auto index = static_cast<std::uint32_t>(sources.size());
      sources.push_back(source);
      latest.emplace_back();
      source_index.insert(hash, index);
      return index;
    }
    if (sources[found] == source) return found;
  }
}

void EventLog::Thread::put(std::uint64_t value) {
  for (; value >= 128; value >>= 7) bytes.push_back(static_cast<std::uint8_t>(value | 128));
  bytes.push_back(static_cast<std::uint8_t>(value));
}

void EventLog::Thread::append(const KeptEvent& event, std::span<const GapPathTime> gap) {
  const std::uint32_t index =
      source({event.channel, event.path, event.op, event.kind, event.flags, event.communicator_size});
  Latest& last = latest[index];
  const bool new_call = events == 0 || event.enter_ns != call.enter_ns || event.exit_ns != call.exit_ns;
  const std::uint64_t expected_mpi_ns = new_call ? call.mpi_ns + (call.exit_ns - call.enter_ns) : call.mpi_ns;
  const auto bit = [](bool set, std::uint8_t which) { return set ? which : std::uint8_t{0}; };
  const auto what = static_cast<std::uint8_t>(
      bit(new_call, kNewCall) | bit(event.peer != last.peer, kPeer) | bit(event.tag != last.tag, kTag) |
      bit(event.bytes != last.bytes, kBytes) | bit(event.start_ns != event.enter_ns, kStart) |
      bit(!gap.empty(), kGap) |
      bit(event.mpi_ns != expected_mpi_ns || event.paused_ns != call.paused_ns, kMpiTime) |
      bit(event.sequence != last.sequence + 1, kSequence));
  bytes.push_back(what);
  put(index);
  if ((what & kNewCall) != 0) {
    put(folded(event.enter_ns - call.exit_ns));
    put(event.exit_ns - event.enter_ns);
  }
  const auto difference = [](std::int32_t now, std::int32_t before) {
    return folded(static_cast<std::uint64_t>(std::int64_t{now} - before));
  };
  if ((what & kPeer) != 0) put(difference(event.peer, last.peer));
  if ((what & kTag) != 0) put(difference(event.tag, last.tag));
  if ((what & kBytes) != 0) put(event.bytes);
  if ((what & kStart) != 0) put(folded(event.enter_ns - event.start_ns));
  if (event.paused_ns != call.paused_ns) call.resumed_ns = event.resumed_ns;
  if ((what & kMpiTime) != 0) {
    put(folded(event.mpi_ns - expected_mpi_ns));
    put(folded(event.paused_ns - call.paused_ns));
    if (event.paused_ns != call.paused_ns) put(folded(event.enter_ns - event.resumed_ns));
  }
  if ((what & kSequence) != 0)
    put(folded(static_cast<std::uint64_t>(std::int64_t{event.sequence} - std::int64_t{last.sequence})));
  if ((what & kGap) != 0) {
    put(gap.size());
    for (const GapPathTime& time : gap) {
      put(time.path);
      put(time.wall_ns);
      put(time.wall_ns - std::min(time.cpu_ns, time.wall_ns));  // mostly little
    }
  }
  last = {event.bytes, event.sequence, event.peer, event.tag};
  call = {event.enter_ns, event.exit_ns, event.mpi_ns, event.paused_ns, call.resumed_ns};
  ++events;
}

std::uint64_t EventLog::Reader::get() {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t byte = from.bytes[at++];
    value |= std::uint64_t{byte & 127u} << shift;
    if (byte < 128) return value;
  }
}

bool EventLog::Reader::next() {
  if (at == from.bytes.size()) return false;
  const std::uint8_t what = from.bytes[at++];
  const std::size_t index = get();
  const Source& source = from.sources[index];
  Latest& last = latest[index];
  std::uint64_t expected_mpi_ns = call.mpi_ns;
  if ((what & kNewCall) != 0) {
    expected_mpi_ns += call.exit_ns - call.enter_ns;
    call.enter_ns = call.exit_ns + unfolded(get());
    call.exit_ns = call.enter_ns + get();
  }
  const auto number = [&](std::int32_t before) {
    return static_cast<std::int32_t>(static_cast<std::int64_t>(unfolded(get())) + before);
  };
  if ((what & kPeer) != 0) last.peer = number(last.peer);
  if ((what & kTag) != 0) last.tag = number(last.tag);
  if ((what & kBytes) != 0) last.bytes = get();
  event.start_ns = (what & kStart) != 0 ? call.enter_ns - unfolded(get()) : call.enter_ns;
  call.mpi_ns = expected_mpi_ns;
  if ((what & kMpiTime) != 0) {
    call.mpi_ns += unfolded(get());
    const std::uint64_t paused_ns = call.paused_ns + unfolded(get());
    if (paused_ns != call.paused_ns) call.resumed_ns = call.enter_ns - unfolded(get());
    call.paused_ns = paused_ns;
  }
  last.sequence = (what & kSequence) != 0 ? static_cast<std::uint32_t>(unfolded(get()) + last.sequence)
                                          : last.sequence + 1;
  gap.clear();
  if ((what & kGap) != 0) {
    for (std::uint64_t left = get(); left > 0; --left) {
      const auto path = static_cast<std::uint32_t>(get());
      const std::uint64_t wall_ns = get();
      gap.push_back({path, wall_ns, wall_ns - get()});
    }
  }
  event.enter_ns = call.enter_ns;
  event.exit_ns = call.exit_ns;
  event.mpi_ns = call.mpi_ns;
  event.paused_ns = call.paused_ns;
  event.resumed_ns = call.resumed_ns;
  event.channel = source.channel;
  event.path = source.path;
  event.op = source.op;
  event.kind = source.kind;
  event.flags = source.flags;
  event.communicator_size = source.communicator_size;
  event.bytes = last.bytes;
  event.sequence = last.sequence;
  event.peer = last.peer;
  event.tag = last.tag;
  return true;
}

}  // namespace clusterprof::collector
