// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/waits/unfinished.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/waits/trace.hpp"

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
  explicit Unfinished(const ShardData& merged) : merged_(merged) {
    for (std::uint32_t i = 0; i < merged.ranks.size(); ++i) row_of_.emplace(merged.ranks[i].rank, i);
    for (const CallUnderWay& call : merged.calls_under_way) {
      if (is_collective(call)) inside_[{call.communicator, call.sequence}].insert(call.rank);
      if (call.main_thread) main_call_.emplace(call.rank, &call);
    }
    for (const shard::MpiCall& call : merged.mpi_calls)
      if (call.communicator != kNone) members_[call.communicator].insert(call.rank);
    for (const auto& [operation, ranks] : inside_) {
      const auto members = members_.find(operation.first);
      if (members == members_.end()) continue;
      const auto missing = std::find_if(members->second.begin(), members->second.end(),
                                        [&](std::uint32_t member) { return !ranks.contains(member); });
      if (missing != members->second.end()) missing_.emplace(operation, *missing);
    }
  }

  // Who the call waits for; no value: for nobody, or that is not known.
  [[nodiscard]] std::optional<Cause> cause_of(const CallUnderWay& call) const {
    const std::string_view op = op_of(call);
    if (is_collective(call)) return cause_of_collective(call, op);
    const auto peer = row_of_.find(call.peer);
    if (call.peer < 0 || peer == row_of_.end() || peer->second == call.rank) return {};
    if (op.find("Send") != std::string_view::npos && op.find("Sendrecv") == std::string_view::npos)
      return Cause{peer->second, WaitKind::kLateReceiver};
    if (op.find("recv") != std::string_view::npos || op.find("Recv") != std::string_view::npos ||
        op.find("robe") != std::string_view::npos || op.starts_with("MPI_Wait"))
      return Cause{peer->second, WaitKind::kLateSender};
    return {};
  }

  // What its main thread does: the call it is in; 0: it is in none.
  [[nodiscard]] std::uint32_t path_of(std::uint32_t rank) const {
    const auto call = main_call_.find(rank);
    return call == main_call_.end() ? 0 : call->second->path;
  }

  // The rank at the end of the chain of those that wait for each other.
  [[nodiscard]] std::uint32_t root_of(const CallUnderWay& call, std::uint32_t cause) const {
    std::set<std::uint32_t> seen{call.rank};
    while (seen.insert(cause).second) {
      const auto own = main_call_.find(cause);
      const std::optional<Cause> next = own == main_call_.end() ? std::nullopt : cause_of(*own->second);
      if (!next || seen.contains(next->rank)) break;
      cause = next->rank;
    }
    return cause;
  }

 private:
  static bool is_collective(const CallUnderWay& call) {
    return call.sequence != kNone && call.communicator != kNone;
  }
  [[nodiscard]] std::string_view op_of(const CallUnderWay& call) const {
    const std::uint32_t frame = merged_.paths[call.path].frame;
    return frame == kNone ? std::string_view()
                          : std::string_view(merged_.strings[merged_.frames[frame].name]);
  }
  [[nodiscard]] std::optional<Cause> cause_of_collective(const CallUnderWay& call,
                                                         std::string_view op) const {
    static constexpr WaitKind kKinds[] = {WaitKind::kWaitAtBarrier, WaitKind::kWaitAtNxN,
                                          WaitKind::kLateBroadcast, WaitKind::kEarlyReduce,
                                          WaitKind::kEarlyScan};
    const Sync sync = sync_of(op);
    const WaitKind kind = kKinds[static_cast<std::size_t>(sync)];
    const std::set<std::uint32_t>& inside = inside_.at({call.communicator, call.sequence});
    if (sync == Sync::kOneToAll) {
      const auto root = row_of_.find(call.root);
      if (root == row_of_.end() || inside.contains(root->second)) return {};
      return Cause{root->second, kind};
    }
    const auto missing = missing_.find({call.communicator, call.sequence});
    return missing == missing_.end() ? std::optional<Cause>() : Cause{missing->second, kind};
  }

  const ShardData& merged_;
  std::unordered_map<std::int32_t, std::uint32_t> row_of_;
  using Operation = std::pair<std::uint32_t, std::uint32_t>;  // communicator, sequence
  std::map<Operation, std::set<std::uint32_t>> inside_;
  std::map<Operation, std::uint32_t> missing_;                // the first rank that is not in it
  std::map<std::uint32_t, std::set<std::uint32_t>> members_;  // that have called something on it
  std::unordered_map<std::uint32_t, const CallUnderWay*> main_call_;
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
