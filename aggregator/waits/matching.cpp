// SPDX-License-Identifier: BSD-3-Clause
// Matches sends with receives by sender, receiver, communicator, tag and sequence number, and the members
// of each collective operation by communicator and sequence number. Wrappers number both alike on all
// ranks, so nothing has to be sent along with messages.
#include "aggregator/waits/matching.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "formats/wire/c10d_functions.h"

namespace clusterprof::aggregator::waits {
namespace {

// The key of an event: a hash of what both sides have in common except the sequence number, and that number.
// Sorting these 16 bytes brings the two sides together without touching the events.
struct Key {
  std::uint64_t hash = 0;
  std::uint32_t sequence = 0, event = 0;
};

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e37'79b9'7f4a'7c15ull;
  return hash ^ hash >> 32;
}

bool is_message(const Event& event) { return event.kind <= MpiEventKind::kProbe; }
bool is_sent(const Event& event) { return event.kind <= MpiEventKind::kSendDone; }

// Source, destination, channel and tag of a message, or channel and operation of a collective one.
auto identity(const Trace& trace, const Event& event) {
  const std::uint32_t rank = trace.lanes[event.lane].rank;
  if (!is_message(event)) return std::tuple(event.channel, std::uint32_t{event.op}, 0u, 0);
  return is_sent(event) ? std::tuple(event.channel, rank, event.peer, event.tag)
                        : std::tuple(event.channel, event.peer, rank, event.tag);
}

Key key_of(const Trace& trace, std::uint32_t e) {
  const Event& event = trace.events[e];
  const auto [channel, source, destination, tag] = identity(trace, event);
  std::uint64_t hash = mixed(0x2545'f491'4f6c'dd1dull, channel);
  hash = mixed(hash, std::uint64_t{source} << 32 | destination);
  return {mixed(hash, static_cast<std::uint32_t>(tag)), event.sequence, e};
}

// Calls group(keys) for all keys with the same identity, by sequence.
template <typename Group>
void for_each_group(const Trace& trace, std::vector<Key>& keys, Group group) {
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return std::tie(a.hash, a.sequence, a.event) < std::tie(b.hash, b.sequence, b.event);
  });
  const auto id = [&](const Key& key) { return identity(trace, trace.events[key.event]); };
  for (std::size_t begin = 0; begin < keys.size();) {
    std::size_t end = begin + 1;
    bool same = true;
    for (; end < keys.size() && keys[end].hash == keys[begin].hash; ++end)
      same = same && id(keys[end]) == id(keys[begin]);
    if (!same)  // hashes may collide
      std::sort(keys.begin() + static_cast<std::ptrdiff_t>(begin),
                keys.begin() + static_cast<std::ptrdiff_t>(end), [&](const Key& a, const Key& b) {
                  return std::tuple(id(a), a.sequence, a.event) < std::tuple(id(b), b.sequence, b.event);
                });
    for (std::size_t i = begin; i < end;) {
      std::size_t next = i + 1;
      while (next < end && (same || id(keys[next]) == id(keys[i]))) ++next;
      group(std::span<Key>(keys).subspan(i, next - i));
      i = next;
    }
    begin = end;
  }
}

class MessageMatcher {
 public:
  MessageMatcher(Trace& trace, Matches& matches) : trace_(trace), matches_(matches) {
    for (const Op& op : trace.ops)
      takes_found_.push_back(op.name.starts_with("MPI_Mrecv") || op.name.starts_with("MPI_Imrecv"));
  }

  // All events of one (source, destination, channel, tag).
  void match(std::span<Key> stream) {
    put_receives_in_order(stream);
    for (std::size_t i = 0; i < stream.size();) {
      std::size_t next = i;
      std::uint32_t send = kNone, receive = kNone;
      for (; next < stream.size() && stream[next].sequence == stream[i].sequence; ++next) {
        const MpiEventKind kind = trace_.events[stream[next].event].kind;
        // Of several sends the last one counts: those before it were taken back.
        if (kind == MpiEventKind::kSend) send = stream[next].event;
        if (kind == MpiEventKind::kReceive && receive == kNone) receive = stream[next].event;
      }
      if (send != kNone || receive != kNone) {
        ++matches_.messages;
        if (send == kNone || receive == kNone) ++matches_.unmatched_messages;
      }
      if (send != kNone) {
        trace_.events[send].match = receive;
        for (std::size_t j = i; j < next; ++j) {
          Event& event = trace_.events[stream[j].event];
          if (event.kind != MpiEventKind::kSend &&
              (event.kind != MpiEventKind::kReceive || stream[j].event == receive))
            event.match = send;
        }
      }
      i = next;
    }
  }

 private:
  // Not those that have the number of a message that was found before (MPI_Mprobe), nor partitioned ones,
  // whose requests are matched, and which may be numbered in any order (wire::PartitionedName).
  [[nodiscard]] bool may_be_out_of_order(const Event& event) const {
    return event.kind == MpiEventKind::kReceive && event.tag >= wire::kTagWinComplete &&
           !takes_found_[event.op];
  }
  // Receives may be numbered by completion, but messages are received in the order in which the receives were
  // posted.
  void put_receives_in_order(std::span<Key> stream) {
    receives_.clear();
    bool in_order = true;
    for (const Key& key : stream) {
      const Event& event = trace_.events[key.event];
      if (!may_be_out_of_order(event)) continue;
      in_order = in_order && (receives_.empty() || receives_.back().first <= event.start_ns);
      receives_.emplace_back(event.start_ns, key.event);
    }
    if (in_order) return;
    std::stable_sort(receives_.begin(), receives_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::size_t next = 0;
    for (Key& key : stream)
      if (may_be_out_of_order(trace_.events[key.event])) key.event = receives_[next++].second;
  }

  Trace& trace_;
  Matches& matches_;
  std::vector<bool> takes_found_;                                 // per row of Trace::ops
  std::vector<std::pair<std::int64_t, std::uint32_t>> receives_;  // posted, event
};

class CollectiveMatcher {
 public:
  CollectiveMatcher(Trace& trace, Matches& matches, std::uint32_t missing_ranks)
      : trace_(trace), matches_(matches), missing_ranks_(missing_ranks) {}

  // All events of one operation on one channel.
  void match(std::span<Key> keys) {
    learn_size(keys);
    for (std::size_t i = 0; i < keys.size();) {
      std::size_t next = i;
      members_.clear();
      for (; next < keys.size() && keys[next].sequence == keys[i].sequence; ++next) add(keys[next].event);
      finish(keys.subspan(i, next - i));
      i = next;
    }
  }

 private:
  // When the size of a communicator is not known, it is the number of ranks that ever took part.
  void learn_size(std::span<const Key> keys) {
    const std::uint32_t row = trace_.events[keys[0].event].channel;
    size_ = 0;
    if (row == kNone || trace_.channels[row].size != 0) return;
    for (std::size_t i = 0, ranks = 0; i < keys.size(); ++i) {
      const bool same = i != 0 && keys[i].sequence == keys[i - 1].sequence;
      const auto rank = [&](const Key& key) { return trace_.lanes[trace_.events[key.event].lane].rank; };
      ranks = same ? ranks + (rank(keys[i]) != rank(keys[i - 1]) ? 1 : 0) : 1;
      size_ = std::max(size_, static_cast<std::uint32_t>(ranks));
    }
  }

  void add(std::uint32_t e) {
    const Event& event = trace_.events[e];
    const std::uint32_t rank = trace_.lanes[event.lane].rank;
    if (members_.empty() || members_.back().rank != rank) members_.push_back({rank, kNone, kNone, event.tag});
    Member& member = members_.back();
    // Events of a rank are in order: the start comes first where it was seen.
    if (event.kind != MpiEventKind::kCollectiveStart) member.completion = e;
    if (member.arrival == kNone || event.kind != MpiEventKind::kCollectiveDone) member.arrival = e;
  }

  // A rank; kNone if there is none, or it has no event here.
  [[nodiscard]] std::uint32_t root_of(const Event& event) const {
    if ((event.flags & wire::kEventPeerInGroup) == 0) return event.peer;
    for (const Member& member : members_)
      if (member.place == static_cast<std::int32_t>(event.peer)) return member.rank;
    return kNone;
  }

  void finish(std::span<const Key> keys) {
    const Event& first = trace_.events[keys[0].event];
    std::uint32_t size = first.channel == kNone ? 0 : trace_.channels[first.channel].size;
    if (size == 0) size = size_;
    Instance instance;
    instance.first = static_cast<std::uint32_t>(matches_.members.size());
    instance.count = static_cast<std::uint32_t>(members_.size());
    instance.op = first.op;
    instance.root = root_of(first);
    instance.whole = first.channel != kNone && instance.count <= size &&
                     (instance.count == size ||
                      (instance.count >= 2 && std::uint64_t{instance.count} + missing_ranks_ >= size));
    if (!instance.whole) ++matches_.unmatched_collectives;
    for (const Key& key : keys)
      trace_.events[key.event].match = static_cast<std::uint32_t>(matches_.instances.size());
    matches_.members.insert(matches_.members.end(), members_.begin(), members_.end());
    matches_.instances.push_back(instance);
  }

  Trace& trace_;
  Matches& matches_;
  std::uint32_t missing_ranks_;
  std::uint32_t size_ = 0;  // of a communicator that does not say
  std::vector<Member> members_;
};

}  // namespace

std::uint32_t Matches::member_of(const Instance& instance, std::uint32_t rank) const {
  const auto begin = members.begin() + instance.first, end = begin + instance.count;
  const auto found = std::lower_bound(begin, end, rank,
                                      [](const Member& member, std::uint32_t r) { return member.rank < r; });
  return found != end && found->rank == rank ? static_cast<std::uint32_t>(found - members.begin()) : kNone;
}

Matches match_events(Trace& trace, std::uint32_t missing_ranks, bool has_windows) {
  Matches matches;
  const auto events = static_cast<std::uint32_t>(trace.events.size());
  std::vector<Key> keys;
  const auto collect = [&](bool messages) {
    std::size_t count = 0;
    for (const Event& event : trace.events) count += is_message(event) == messages ? 1u : 0u;
    keys.clear();
    keys.reserve(count);
    for (std::uint32_t e = 0; e < events; ++e) {
      Event& event = trace.events[e];
      if (is_message(event) != messages) continue;
      event.match = kNone;
      if (!messages || (event.channel != kNone && event.peer != kNone)) {
        keys.push_back(key_of(trace, e));
      } else if ((event.flags & wire::kEventPeerInGroup) == 0 &&  // else nobody knows who that member is
                 (event.kind == MpiEventKind::kSend || event.kind == MpiEventKind::kReceive)) {
        ++matches.messages;
        ++matches.unmatched_messages;
      }
    }
  };
  collect(true);
  MessageMatcher messages(trace, matches);
  for_each_group(trace, keys, [&](std::span<Key> stream) { messages.match(stream); });
  collect(false);
  CollectiveMatcher collectives(trace, matches, missing_ranks);
  for_each_group(trace, keys, [&](std::span<Key> group) { collectives.match(group); });
  if (has_windows) {
    matches.messages -= std::exchange(matches.unmatched_messages, 0);
    matches.cut_collectives = std::exchange(matches.unmatched_collectives, 0);
  }
  return matches;
}

}  // namespace clusterprof::aggregator::waits
