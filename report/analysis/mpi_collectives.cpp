// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/mpi_collectives.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/mpi_calls.hpp"

namespace clusterprof::report {
namespace {

// How data travel in the plain algorithm.
enum class Flow : std::uint8_t {
  kFromRoot,  // the root sends to each
  kToRoot,    // each sends to the root
  kReduceAll,
  kReduceScatter,
  kGatherAll,
  kChain,  // each passes on to the next
};

// "MPI_Iallreduce_c" is a reduction to all. No value: the operation addresses what it sends, or moves
// nothing.
std::optional<Flow> flow_of(std::string_view op) {
  static const std::map<std::string_view, Flow> kFlows = {
      {"bcast", Flow::kFromRoot},
      {"scatter", Flow::kFromRoot},
      {"scatterv", Flow::kFromRoot},
      {"gather", Flow::kToRoot},
      {"gatherv", Flow::kToRoot},
      {"reduce", Flow::kToRoot},
      {"allreduce", Flow::kReduceAll},
      {"reduce_scatter", Flow::kReduceScatter},
      {"reduce_scatter_block", Flow::kReduceScatter},
      {"allgather", Flow::kGatherAll},
      {"allgatherv", Flow::kGatherAll},
      {"scan", Flow::kChain},
      {"exscan", Flow::kChain},
  };
  static const std::map<std::string_view, Flow> kFlowsOfTorch = {
      {"broadcast", Flow::kFromRoot},   {"scatter", Flow::kFromRoot},
      {"gather", Flow::kToRoot},        {"reduce", Flow::kToRoot},
      {"all_reduce", Flow::kReduceAll}, {"reduce_scatter", Flow::kReduceScatter},
      {"all_gather", Flow::kGatherAll},
  };
  if (const auto found = kFlowsOfTorch.find(op); found != kFlowsOfTorch.end()) return found->second;
  constexpr std::string_view kPrefix = "MPI_";
  if (!op.starts_with(kPrefix)) return {};
  op.remove_prefix(kPrefix.size());
  for (const std::string_view suffix : {std::string_view("_c"), std::string_view("_init")})
    if (op.ends_with(suffix)) op.remove_suffix(suffix.size());
  std::string name(op);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  auto found = kFlows.find(name);
  if (found == kFlows.end() && name.starts_with("i")) found = kFlows.find(std::string_view(name).substr(1));
  return found == kFlows.end() ? std::optional<Flow>() : found->second;
}

// From this many pairs of roots and receivers on, roots are no longer distinguished.
constexpr std::size_t kMaxPairs = 1u << 18;

struct Member {
  std::int32_t rank = 0;
  double sent = 0, received = 0;
};

class Estimate {
 public:
  // By rank.
  void add(Flow flow, const std::vector<Member>& members) {
    const std::size_t count = members.size();
    if (count < 2) return;
    const double others = static_cast<double>(count - 1) / static_cast<double>(count);
    switch (flow) {
      case Flow::kFromRoot:
        return rooted(members, true);
      case Flow::kToRoot:
        return rooted(members, false);
      case Flow::kReduceAll:
        return around(
            members, [&](const Member& m) { return 2 * m.sent * others; }, count);
      case Flow::kReduceScatter:
        return around(
            members, [&](const Member& m) { return m.sent * others; }, count);
      case Flow::kGatherAll:
        return around(
            members, [&](const Member& m) { return m.received * others; }, count);
      case Flow::kChain:
        return around(
            members, [](const Member& m) { return m.sent; }, count - 1);
    }
  }

  [[nodiscard]] std::vector<shard::MatrixCell> cells() const {
    std::vector<shard::MatrixCell> cells;
    for (const auto& [pair, bytes] : sums_)
      if (bytes >= 0.5)
        cells.push_back({pair.first, pair.second, 0, static_cast<std::uint64_t>(std::llround(bytes))});
    return cells;
  }

 private:
  // From each rank to the next one, and from the last to the first. `links`: how many of these.
  template <typename Bytes>
  void around(const std::vector<Member>& members, const Bytes& bytes, std::size_t links) {
    for (std::size_t i = 0; i < links; ++i)
      sums_[{members[i].rank, members[(i + 1) % members.size()].rank}] += bytes(members[i]);
  }
  // If different ranks were root, each counts for the part of the data that it sent (or got) as the root.
  void rooted(const std::vector<Member>& members, bool from_root) {
    std::vector<const Member*> roots;
    double all = 0;
    const auto as_root = [&](const Member& m) { return from_root ? m.sent : m.received; };
    const auto as_other = [&](const Member& m) { return from_root ? m.received : m.sent; };
    for (const Member& member : members) {
      if (as_root(member) <= 0) continue;
      roots.push_back(&member);
      all += as_root(member);
    }
    if (roots.size() * members.size() > kMaxPairs) return around(members, as_other, members.size());
    for (const Member* const root : roots) {
      for (const Member& other : members) {
        if (&other == root) continue;
        // A root does not send data to itself.
        const double possible = all - (roots.size() > 1 ? as_root(other) : 0);
        if (possible <= 0) continue;
        const double bytes = as_other(other) * as_root(*root) / possible;
        sums_[from_root ? std::pair(root->rank, other.rank) : std::pair(other.rank, root->rank)] += bytes;
      }
    }
  }

  std::map<std::pair<std::int32_t, std::int32_t>, double> sums_;
};

}  // namespace

void count_collectives(const shard::ShardData& data, const CallPaths& paths, Analysis& analysis) {
  std::vector<std::optional<std::string_view>> op_of_path(paths.size());
  struct Amounts {
    CollectiveRow row;
    std::set<std::uint32_t> communicators;
    std::set<std::uint32_t> ranks;
  };
  std::map<std::string_view, Amounts> by_op;
  std::map<std::tuple<std::uint32_t, std::string_view>, std::map<std::int32_t, Member>> groups;
  for (const shard::MpiCall& call : data.mpi_calls) {
    if (call.path >= paths.size() || call.rank >= data.ranks.size()) continue;
    const shard::Frame* const frame = paths.frame(call.path);
    if (frame == nullptr) continue;
    const std::string_view op = paths.text(frame->name);
    if (!flow_of(op)) continue;
    Amounts& amounts = by_op[op];
    amounts.row.count += call.count;
    amounts.row.sent_bytes += call.sent_bytes;
    amounts.row.recv_bytes += call.recv_bytes;
    amounts.communicators.insert(call.communicator);
    amounts.ranks.insert(call.rank);
    const std::int32_t rank = data.ranks[call.rank].rank;
    Member& member = groups[{call.communicator, op}][rank];
    member.rank = rank;
    member.sent += static_cast<double>(call.sent_bytes);
    member.received += static_cast<double>(call.recv_bytes);
  }
  for (auto& [op, amounts] : by_op) {
    CollectiveRow& row = amounts.row;
    row.op = op;
    row.ranks = amounts.ranks.size();
    row.communicators = amounts.communicators.size();
    row.bytes = std::max(row.sent_bytes, row.recv_bytes);
    analysis.collectives.push_back(row);
  }
  std::stable_sort(analysis.collectives.begin(), analysis.collectives.end(),
                   [](const CollectiveRow& a, const CollectiveRow& b) { return a.bytes > b.bytes; });

  Estimate estimate;
  std::vector<Member> members;
  for (const auto& [group, by_rank] : groups) {
    members.clear();
    for (const auto& [rank, member] : by_rank) members.push_back(member);
    estimate.add(*flow_of(std::get<1>(group)), members);
  }
  analysis.collective_matrix = estimate.cells();
  analysis.collective_node_matrix = between_nodes(data, analysis.collective_matrix);
}

}  // namespace clusterprof::report
