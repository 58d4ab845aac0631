// SPDX-License-Identifier: BSD-3-Clause
#include "formats/shard/open_operations.hpp"

#include <algorithm>
#include <tuple>

namespace clusterprof::shard {
namespace {

auto call_of(const PendingRequest& request) {
  return std::tuple(request.rank, request.tid, request.enter_ns);
}

}  // namespace

OpenOperations::OpenOperations(const ShardData& data) : data_(data), pending_(data.pending_requests) {
  for (std::uint32_t i = 0; i < data.ranks.size(); ++i) row_of_.emplace(data.ranks[i].rank, i);
  std::stable_sort(pending_.begin(), pending_.end(),
                   [](const PendingRequest& x, const PendingRequest& y) { return call_of(x) < call_of(y); });
  for (const CallUnderWay& call : data.calls_under_way) {
    if (call.main_thread) main_call_.emplace(call.rank, &call);
    if (!is_collective(call) || call.communicator >= data.communicators.size()) continue;
    inside_[{call.communicator, call.sequence}].insert(call.rank);
    std::uint32_t& latest = latest_.try_emplace({call.communicator, call.rank}, call.sequence).first->second;
    latest = std::max(latest, call.sequence);
  }
  if (inside_.empty()) return;

  std::map<std::uint32_t, std::set<std::uint32_t>> called;  // ranks that have called something on it
  for (const MpiCall& call : data.mpi_calls)
    if (call.communicator != kNone) called[call.communicator].insert(call.rank);
  const bool one_world = std::none_of(data.ranks.begin(), data.ranks.end(),
                                      [](const Rank& rank) { return (rank.flags & kSpawned) != 0; });
  std::uint32_t of_members = kNone;
  std::vector<std::uint32_t> members;
  for (const auto& [operation, inside] : inside_) {
    const std::uint32_t communicator = operation.first;
    if (of_members != communicator) {
      of_members = communicator;
      members.clear();
      if (one_world && data.communicators[communicator].size == data.run.world_size) {
        for (std::uint32_t row = 0; row < data.ranks.size(); ++row) members.push_back(row);
      } else if (const auto known = called.find(communicator); known != called.end()) {
        members.assign(known->second.begin(), known->second.end());
      }
    }
    find_absent(operation, inside, members);
  }
}

void OpenOperations::find_absent(const Operation& operation, const std::set<std::uint32_t>& inside,
                                 const std::vector<std::uint32_t>& members) {
  Absent& absent = absent_[operation];
  absent.inside = inside.size();
  const auto& [communicator, sequence] = operation;
  std::size_t beyond = 0;
  for (auto later = latest_.lower_bound({communicator, 0});
       later != latest_.end() && later->first.first == communicator; ++later)
    beyond += later->second > sequence && !inside.contains(later->first.second);
  if (const std::uint32_t size = data_.communicators[communicator].size; size != 0)
    absent.all = size - std::min<std::size_t>(size, inside.size() + beyond);

  std::vector<std::uint32_t> in_calls;
  for (const std::uint32_t member : members) {
    if (absent.ranks.size() == kMaxAbsent) break;
    if (inside.contains(member)) continue;
    const auto latest = latest_.find({communicator, member});
    if (latest != latest_.end() && latest->second > sequence) continue;
    std::vector<std::uint32_t>& which = main_call_.contains(member) ? in_calls : absent.ranks;
    if (which.size() < kMaxAbsent) which.push_back(member);
  }
  for (const std::uint32_t member : in_calls)
    if (absent.ranks.size() < kMaxAbsent) absent.ranks.push_back(member);
}

bool OpenOperations::is_beyond(const CallUnderWay& operation, std::uint32_t rank) const {
  const auto latest = latest_.find({operation.communicator, rank});
  return latest != latest_.end() && latest->second > operation.sequence;
}

std::span<const PendingRequest> OpenOperations::pending(const CallUnderWay& call) const {
  const auto [first, last] = std::equal_range(
      pending_.begin(), pending_.end(), PendingRequest{call.rank, call.tid, call.enter_ns},
      [](const PendingRequest& x, const PendingRequest& y) { return call_of(x) < call_of(y); });
  return {first, last};
}

}  // namespace clusterprof::shard
