// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/unmatched.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace clusterprof::aggregator::waits {
namespace {

using shard::OpenRequests;
using shard::UnmatchedMessages;

// Sender, receiver, channel and tag: rows of the ranks, row of Trace::channels.
using Stream = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t>;

class UnmatchedSearch {
 public:
  UnmatchedSearch(const Trace& trace, shard::ShardData& merged) : trace_(trace), merged_(merged) {}

  void find() {
    find_sure_ranks();
    look_at_receives();
    for (std::uint32_t i = 0; i < merged_.open_requests.size(); ++i) {
      const OpenRequests& row = merged_.open_requests[i];
      const bool may_receive = row.kind == static_cast<std::uint8_t>(shard::PendingKind::kReceive) ||
                               row.kind == OpenRequests::kOther;
      if (may_receive) open_[row.rank].push_back(i);
    }
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::int32_t>,
             std::uint64_t>
        counts;
    for (const Event& event : trace_.events) {
      if (event.kind != MpiEventKind::kSend || event.match != kNone || !is_message(event)) continue;
      const Stream stream = stream_of(event);
      const auto [sender, receiver, channel, tag] = stream;
      if (!sends_sure_[sender] || !receives_sure_[receiver] || unclear_.contains({sender, receiver}) ||
          may_be_received(stream))
        continue;
      // Messages are received in order: one that is missing before others was not seen.
      const auto last = received_.find(stream);
      if (last != received_.end() && event.sequence <= last->second) continue;
      ++counts[{sender, event.path, communicator_of(channel), receiver, tag}];
    }
    keep(counts);
  }

 private:
  // Events of MPI messages, not of synchronisation and of other libraries.
  [[nodiscard]] bool is_message(const Event& event) const {
    return event.tag >= 0 && event.channel != kNone && event.peer != kNone &&
           trace_.ops[event.op].name.starts_with("MPI_");
  }

  [[nodiscard]] Stream stream_of(const Event& event) const {
    const std::uint32_t rank = trace_.lanes[event.lane].rank;
    return event.kind == MpiEventKind::kSend ? Stream{rank, event.peer, event.channel, event.tag}
                                             : Stream{event.peer, rank, event.channel, event.tag};
  }

  void find_sure_ranks() {
    constexpr std::uint32_t kUnsure = shard::kLost | shard::kStillRan | shard::kMpiUnwatched;
    for (const shard::Rank& rank : merged_.ranks) {
      const bool whole = (rank.flags & kUnsure) == 0 && (rank.flags & shard::kUsedMpi) != 0 &&
                         rank.mpi_init_end_ns != 0 && rank.mpi_finalize_begin_ns != 0 && rank.restart == 0 &&
                         rank.event_level == 0 && merged_.nodes[rank.node].as_of_utc_ns == 0;
      sends_sure_.push_back(whole && (rank.flags & shard::kSendsUnsure) == 0);
      receives_sure_.push_back(whole && (rank.flags & shard::kReceivesUnseen) == 0);
    }
    for (const shard::Drop& drop : merged_.drops)
      if (drop.count != 0 && drop.rank < receives_sure_.size() &&
          drop.reason.find("mpi") != std::string::npos)
        receives_sure_[drop.rank] = false;
    std::vector<std::uint64_t> operations(merged_.ranks.size());
    for (const Event& event : trace_.events)
      if (begins_operation(event.kind)) ++operations[trace_.lanes[event.lane].rank];
    for (std::size_t i = 0; i < operations.size(); ++i)
      if (operations[i] < merged_.ranks[i].mpi_operations) receives_sure_[i] = false;
  }

  static bool begins_operation(MpiEventKind kind) {
    return kind == MpiEventKind::kSend || kind == MpiEventKind::kReceive ||
           kind == MpiEventKind::kCollective || kind == MpiEventKind::kCollectiveStart;
  }

  // A receive without its send shows that the two sides are not numbered alike.
  void look_at_receives() {
    for (const Event& event : trace_.events) {
      if (event.kind != MpiEventKind::kReceive || event.tag < 0) continue;
      const std::uint32_t rank = trace_.lanes[event.lane].rank;
      if (event.channel == kNone || event.peer == kNone) {
        receives_sure_[rank] = false;
        continue;
      }
      if (event.match == kNone) unclear_.insert({event.peer, rank});
      std::uint32_t& last = received_[stream_of(event)];
      last = std::max(last, event.sequence);
    }
  }

  [[nodiscard]] bool may_be_received(const Stream& stream) const {
    const auto [sender, receiver, channel, tag] = stream;
    const auto open = open_.find(receiver);
    if (open == open_.end()) return false;
    return std::ranges::any_of(
        open->second, [&, from = merged_.ranks[sender].rank, channel = channel, tag = tag](std::uint32_t i) {
          const OpenRequests& row = merged_.open_requests[i];
          const bool same_peer = row.peer < 0 || row.peer == from;
          const bool same_tag = row.tag < 0 || row.tag == tag;
          const bool same_channel =
              row.communicator == kNone ||
              merged_.communicators[row.communicator].identity == trace_.channels[channel].identity;
          return same_peer && same_tag && same_channel;
        });
  }

  [[nodiscard]] std::uint32_t communicator_of(std::uint32_t channel) {
    if (communicators_.empty())
      for (std::uint32_t i = 0; i < merged_.communicators.size(); ++i)
        communicators_.emplace(merged_.communicators[i].identity, i);
    const auto found = communicators_.find(trace_.channels[channel].identity);
    return found == communicators_.end() ? kNone : found->second;
  }

  template <typename Counts>
  void keep(const Counts& counts) {
    std::vector<UnmatchedMessages>& rows = merged_.unmatched_messages;
    for (const auto& [place, count] : counts) {
      const auto& [sender, path, communicator, receiver, tag] = place;
      rows.push_back({sender, path, communicator, receiver, tag, count});
      merged_.wait_analysis.unreceived_messages += count;
    }
    if (rows.size() <= shard::kMaxUnmatchedRows) return;
    std::ranges::stable_sort(rows, std::greater(), &UnmatchedMessages::count);
    rows.resize(shard::kMaxUnmatchedRows);
    std::ranges::sort(rows, {}, [](const UnmatchedMessages& row) {
      return std::tuple(row.rank, row.path, row.communicator, row.receiver, row.tag);
    });
  }

  const Trace& trace_;
  shard::ShardData& merged_;
  std::vector<bool> sends_sure_, receives_sure_;               // by row of the ranks
  std::set<std::pair<std::uint32_t, std::uint32_t>> unclear_;  // senders and receivers
  std::map<Stream, std::uint32_t> received_;                   // highest number
  std::map<std::uint32_t, std::vector<std::uint32_t>> open_;   // open receives, by receiver
  std::map<std::uint64_t, std::uint32_t> communicators_;       // rows, by identity
};

}  // namespace

void find_unmatched(const Trace& trace, shard::ShardData& merged) {
  merged.unmatched_messages.clear();
  merged.wait_analysis.unreceived_messages = 0;
  if (trace.level != 0 || merged.run.standby || !merged.recording_windows.empty()) return;
  UnmatchedSearch(trace, merged).find();
}

}  // namespace clusterprof::aggregator::waits
