// SPDX-License-Identifier: BSD-3-Clause
// Waiting in MPI calls that had not returned when the run was last seen. These calls have no events, so
// their partners are found among the other calls under way.
#include "aggregator/waits/unfinished.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/waits/trace.hpp"
#include "formats/shard/open_operations.hpp"

namespace clusterprof::aggregator::waits {
namespace {

using shard::CallUnderWay;
using shard::ShardData;
using shard::WaitKind;

struct Cause {
  std::uint32_t rank = kNone;  // row of the ranks
  WaitKind kind = WaitKind::kLateSender;
};

class Unfinished {
 public:
  explicit Unfinished(const ShardData& merged) : merged_(merged), open_(merged) {
    measure_distances();
    follow_chains();
  }

  // The rank that the call waits for. No value: it waits for no rank, or this is not known. Of several ranks
  // it is the one nearest to a rank that is in no MPI call: the others only pass its delay on.
  [[nodiscard]] std::optional<Cause> cause_of(const CallUnderWay& call) const {
    std::optional<Cause> best;
    std::uint32_t best_distance = kFar;
    each_cause(call, [&](const Cause& cause) {
      if (best && distance_[cause.rank] >= best_distance) return;
      best = cause, best_distance = distance_[cause.rank];
    });
    return best;
  }

  // The call that the rank's main thread is in; 0: none.
  [[nodiscard]] std::uint32_t path_of(std::uint32_t rank) const {
    const CallUnderWay* const call = open_.main_call(rank);
    return call == nullptr ? 0 : call->path;
  }

  // The rank at the end of the chain of waiting ranks, which ends before it comes back to a rank.
  [[nodiscard]] std::uint32_t root_of(const CallUnderWay& call, std::uint32_t cause) const {
    if (cause == call.rank) return cause;
    if (open_.main_call(call.rank) == &call) return last_[call.rank];
    // Chains go on with the calls of main threads, so that another thread's may come back to its rank.
    std::uint32_t rank = cause;
    while (rank != last_[cause] && next_[rank] != call.rank) rank = next_[rank];
    return rank;
  }

 private:
  static constexpr std::uint32_t kFar = kNone;

  [[nodiscard]] std::string_view op_of(const CallUnderWay& call) const {
    const std::uint32_t frame = merged_.paths[call.path].frame;
    return frame == kNone ? std::string_view()
                          : std::string_view(merged_.strings[merged_.frames[frame].name]);
  }

  static std::optional<WaitKind> kind_of_message(std::string_view op) {
    if (op.find("Send") != std::string_view::npos && op.find("Sendrecv") == std::string_view::npos)
      return WaitKind::kLateReceiver;
    if (op.find("recv") != std::string_view::npos || op.find("Recv") != std::string_view::npos ||
        op.find("robe") != std::string_view::npos)
      return WaitKind::kLateSender;
    return {};
  }

  template <typename Visit>
  void each_cause(const CallUnderWay& call, const Visit& visit) const {
    const auto visit_peer = [&](std::int32_t peer, WaitKind kind) {
      const auto row = peer < 0 ? std::nullopt : open_.row(peer);
      if (row && *row != call.rank) visit(Cause{*row, kind});
    };
    if (shard::OpenOperations::is_collective(call)) {
      each_absent(call, visit);
    } else if (const auto pending = open_.pending(call); !pending.empty()) {
      for (const shard::PendingRequest& request : pending)
        visit_peer(request.peer, request.kind == shard::PendingKind::kSend ? WaitKind::kLateReceiver
                                                                           : WaitKind::kLateSender);
    } else if (const auto kind = kind_of_message(op_of(call))) {
      visit_peer(call.peer, *kind);
    }
  }

  template <typename Visit>
  void each_absent(const CallUnderWay& call, const Visit& visit) const {
    static constexpr WaitKind kKinds[] = {WaitKind::kWaitAtBarrier, WaitKind::kWaitAtNxN,
                                          WaitKind::kLateBroadcast, WaitKind::kEarlyReduce,
                                          WaitKind::kEarlyScan};
    const Sync sync = sync_of(op_of(call));
    const WaitKind kind = kKinds[static_cast<std::size_t>(sync)];
    if (sync == Sync::kOneToAll) {
      const auto root = open_.row(call.root);
      if (root && !open_.is_inside(call, *root) && !open_.is_beyond(call, *root)) visit(Cause{*root, kind});
      return;
    }
    for (const std::uint32_t rank : open_.absent(call).ranks) visit(Cause{rank, kind});
  }

  // Measures the distance of each rank, in waiting ranks, from one that is in no MPI call.
  void measure_distances() {
    distance_.assign(merged_.ranks.size(), kFar);
    std::vector<std::vector<std::uint32_t>> waiters(merged_.ranks.size());  // by who is waited for
    using Operation = std::pair<std::uint32_t, std::uint32_t>;
    std::map<Operation, std::vector<const CallUnderWay*>> operations;
    for (const CallUnderWay& call : merged_.calls_under_way) {
      if (!call.main_thread) continue;
      if (shard::OpenOperations::is_collective(call))
        operations[{call.communicator, call.sequence}].push_back(&call);
      else
        each_cause(call, [&](const Cause& cause) { waiters[cause.rank].push_back(call.rank); });
    }
    // All ranks in a collective operation wait for the same ranks.
    std::vector<std::vector<std::size_t>> awaited_by(merged_.ranks.size());
    std::vector<const std::vector<const CallUnderWay*>*> members;
    for (const auto& [operation, calls] : operations) {
      each_absent(*calls.front(),
                  [&](const Cause& cause) { awaited_by[cause.rank].push_back(members.size()); });
      members.push_back(&calls);
    }
    std::vector<std::uint32_t> reached;
    const auto ended_well = [&](std::uint32_t rank) {
      const shard::Rank& of = merged_.ranks[rank];
      return (of.flags & shard::kLost) == 0 && (of.flags & shard::kExitStatusKnown) != 0 &&
             of.exit_status == 0;
    };
    const auto begin_with = [&](bool ended) {
      for (std::uint32_t rank = 0; rank < merged_.ranks.size(); ++rank) {
        if (open_.main_call(rank) != nullptr || ended_well(rank) != ended) continue;
        distance_[rank] = ended ? static_cast<std::uint32_t>(merged_.ranks.size()) : 0;
        reached.push_back(rank);
      }
    };
    std::size_t next = 0;
    const auto go_on = [&] {
      for (; next < reached.size(); ++next) {
        const auto reach = [&](std::uint32_t rank) {
          if (distance_[rank] != kFar) return;
          distance_[rank] = distance_[reached[next]] + 1;
          reached.push_back(rank);
        };
        for (const std::uint32_t rank : waiters[reached[next]]) reach(rank);
        for (const std::size_t operation : awaited_by[reached[next]]) {
          if (members[operation] == nullptr) continue;
          for (const CallUnderWay* const call : *members[operation]) reach(call->rank);
          members[operation] = nullptr;
        }
      }
    };
    begin_with(false);
    go_on();
    // A rank that ended normally has hardly left out a message; more likely it was received since.
    begin_with(true);
    go_on();
  }

  // Of each rank whose main thread waits, whom it waits for and where the chain ends: at a rank that waits
  // for none, or before the first rank of a circle to which it comes a second time.
  void follow_chains() {
    const auto ranks = static_cast<std::uint32_t>(merged_.ranks.size());
    next_.assign(ranks, kNone);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      if (const CallUnderWay* const call = open_.main_call(rank); call != nullptr)
        if (const std::optional<Cause> cause = cause_of(*call)) next_[rank] = cause->rank;
    last_.assign(ranks, kNone);
    std::vector<std::uint32_t> chain, seen_from(ranks, kNone);
    for (std::uint32_t first = 0; first < ranks; ++first) {
      chain.clear();
      std::uint32_t rank = first;
      while (last_[rank] == kNone && seen_from[rank] != first) {
        seen_from[rank] = first;
        chain.push_back(rank);
        if (next_[rank] == kNone)
          last_[rank] = rank;
        else
          rank = next_[rank];
      }
      // In a circle, the chain of each rank ends at the rank before it.
      for (std::uint32_t before = chain.empty() ? kNone : chain.back(); last_[rank] == kNone;
           before = std::exchange(rank, next_[rank]))
        last_[rank] = before;
      for (const std::uint32_t member : chain)
        if (last_[member] == kNone) last_[member] = last_[rank];
    }
  }

  const ShardData& merged_;
  shard::OpenOperations open_;
  std::vector<std::uint32_t> distance_;
  std::vector<std::uint32_t> next_, last_;  // per rank; next_: kNone if its main thread waits for none
};

// Sorts the rows and unites those with equal keys.
template <typename Row, typename Key, typename Unite>
void unite_equal(std::vector<Row>& rows, const Key& key, const Unite& unite) {
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return key(a) < key(b); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kept != 0 && key(rows[kept - 1]) == key(rows[i])) {
      unite(rows[kept - 1], rows[i]);
    } else {
      rows[kept++] = rows[i];
    }
  }
  rows.resize(kept);
}

}  // namespace

void add_unfinished_waits(ShardData& merged) {
  if (merged.calls_under_way.empty()) return;
  const Unfinished unfinished(merged);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::set<std::uint32_t>>> roots;
  for (const CallUnderWay& call : merged.calls_under_way) {
    const std::optional<Cause> cause = unfinished.cause_of(call);
    if (!cause) continue;
    merged.wait_states.push_back(
        {call.rank, call.path, cause->kind, cause->rank, unfinished.path_of(cause->rank), call.lasted_ns, 1});
    const std::uint32_t root = unfinished.root_of(call, cause->rank);
    auto& [wait_ns, ranks] = roots[{root, unfinished.path_of(root)}];
    wait_ns += call.lasted_ns;
    ranks.insert(call.rank);
    if (!call.main_thread) continue;
    shard::Rank& rank = merged.ranks[call.rank];
    rank.mpi_wait_ns = std::min(rank.mpi_wait_ns + call.lasted_ns, rank.mpi_ns);
  }
  for (const auto& [place, sum] : roots)
    merged.root_causes.push_back(
        {place.first, place.second, sum.first, static_cast<std::uint32_t>(sum.second.size())});

  unite_equal(
      merged.wait_states,
      [](const shard::WaitState& row) {
        return std::tie(row.rank, row.path, row.kind, row.cause_rank, row.cause_path);
      },
      [](shard::WaitState& into, const shard::WaitState& row) {
        into.wait_ns += row.wait_ns;
        into.count += row.count;
      });
  unite_equal(
      merged.root_causes, [](const shard::RootCause& row) { return std::tie(row.rank, row.path); },
      [](shard::RootCause& into, const shard::RootCause& row) {
        into.wait_ns += row.wait_ns;
        into.waiting_ranks = std::max(into.waiting_ranks, row.waiting_ranks);
      });
}

}  // namespace clusterprof::aggregator::waits
