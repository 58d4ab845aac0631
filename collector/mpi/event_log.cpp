// SPDX-License-Identifier: BSD-3-Clause
// How events are packed: an event of a known source is a byte that says what differs from the source's last
// one, and the differences as numbers of variable length. Called by the MpiEventReader, one thread; read by
// the ShardBuilder.
#include "collector/mpi/event_log.hpp"

#include <algorithm>
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
    size_ = 0;
  }
  while (size_ > budget_ && level_ < wire::kMaxEventLevel) raise_level(level_ + 1);
}

void EventLog::raise_level(std::uint32_t level) {
  level = std::min(level, wire::kMaxEventLevel);
  if (level <= level_) return;
  level_ = level;
  thin();
}

void EventLog::add(std::uint32_t thread, const KeptEvent& event, std::span<const GapPathTime> gap) {
  if (budget_ == 0) return;
  if (!selects(event)) {
    // Only if the thread has an entry already, so that threads without kept events take no room.
    if (const auto found = threads_.find(thread); found != threads_.end())
      append_if_selected(found->second, event, gap);
    return;
  }
  if (size_ >= budget_ && level_ == wire::kMaxEventLevel) {
    ++refused_;
    return;
  }
  if (append_if_selected(threads_[thread], event, gap)) ++size_;
  while (size_ > budget_ && level_ < wire::kMaxEventLevel) raise_level(level_ + 1);
}

bool EventLog::append_if_selected(Thread& thread, const KeptEvent& event,
                                  std::span<const GapPathTime> gap) const {
  const auto is_orphan_s = [&] {
    return thread.orphan_call.enter_ns == event.enter_ns && thread.orphan_call.exit_ns == event.exit_ns;
  };
  if (!selects(event)) {
    if (!gap.empty()) {
      thread.orphan_call = {event.enter_ns, event.exit_ns, 0};
      thread.orphan_gap.assign(gap.begin(), gap.end());
    }
    return false;
  }
  if (gap.empty() && !thread.orphan_gap.empty() && is_orphan_s()) gap = thread.orphan_gap;
  thread.append(event, gap);
  thread.orphan_gap.clear();
  return true;
}

void EventLog::thin() {
  size_ = 0;
  for (auto it = threads_.begin(); it != threads_.end();) {
    Thread fresh;
    Reader reader(it->second);
    while (reader.next()) append_if_selected(fresh, reader.event, reader.gap);
    size_ += fresh.events;
    if (fresh.events == 0) {
      it = threads_.erase(it);
    } else {
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
      bit(!gap.empty(), kGap) | bit(event.mpi_ns != expected_mpi_ns, kMpiTime) |
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
  if ((what & kMpiTime) != 0) put(folded(event.mpi_ns - expected_mpi_ns));
  if ((what & kSequence) != 0)
    put(folded(static_cast<std::uint64_t>(std::int64_t{event.sequence} - std::int64_t{last.sequence})));
  if ((what & kGap) != 0) {
    put(gap.size());
    for (const GapPathTime& time : gap) {
      put(time.path);
      put(time.wall_ns);
    }
  }
  last = {event.bytes, event.sequence, event.peer, event.tag};
  call = {event.enter_ns, event.exit_ns, event.mpi_ns};
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
  call.mpi_ns = (what & kMpiTime) != 0 ? expected_mpi_ns + unfolded(get()) : expected_mpi_ns;
  last.sequence = (what & kSequence) != 0 ? static_cast<std::uint32_t>(unfolded(get()) + last.sequence)
                                          : last.sequence + 1;
  gap.clear();
  if ((what & kGap) != 0) {
    for (std::uint64_t left = get(); left > 0; --left) {
      const auto path = static_cast<std::uint32_t>(get());
      gap.push_back({path, get()});
    }
  }
  event.enter_ns = call.enter_ns;
  event.exit_ns = call.exit_ns;
  event.mpi_ns = call.mpi_ns;
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
