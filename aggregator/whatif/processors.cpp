// SPDX-License-Identifier: BSD-3-Clause
#include "aggregator/whatif/processors.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>

#include "base/number_list.hpp"

namespace clusterprof::aggregator::whatif {
namespace {

// A tick of most kernels (250 Hz), at which a processor goes from one thread to the next.
constexpr double kTurn_s = 0.004;

std::vector<double> ranks_of_nodes(const shard::ShardData& merged) {
  std::vector<double> ranks(merged.nodes.size());
  for (const shard::Rank& rank : merged.ranks)
    if (rank.node < ranks.size()) ++ranks[rank.node];
  return ranks;
}

}  // namespace

std::vector<double> processors_of_nodes(const shard::ShardData& merged) {
  std::vector<std::set<std::uint32_t>> allowed(merged.nodes.size());
  std::vector<bool> is_known(merged.nodes.size(), true);
  for (const shard::Rank& rank : merged.ranks) {
    if (rank.node >= allowed.size()) continue;
    const auto list = parse_number_list(merged.strings[rank.affinity]);
    if (list)
      allowed[rank.node].insert(list->begin(), list->end());
    else
      is_known[rank.node] = false;
  }
  std::vector<double> processors;
  for (std::size_t n = 0; n < allowed.size(); ++n)
    processors.push_back(static_cast<double>(
        is_known[n] && !allowed[n].empty() ? allowed[n].size() : std::size_t{merged.nodes[n].cpus}));
  return processors;
}

std::vector<double> wanted_in_mpi(const shard::ShardData& merged) {
  struct Of {
    double wall_ns = 0, cpu_ns = 0;
  };
  std::vector<Of> of(merged.ranks.size());
  for (const shard::Value& value : merged.values) {
    if (!value.main_thread || value.category != shard::Category::kMpi) continue;
    of[value.rank].wall_ns += static_cast<double>(value.wall_ns);
    of[value.rank].cpu_ns += static_cast<double>(value.cpu_ns);
  }
  std::vector<double> wanted;
  for (std::size_t r = 0; r < of.size(); ++r) {
    const double ns = of[r].cpu_ns + static_cast<double>(merged.ranks[r].mpi_runnable_ns);
    wanted.push_back(of[r].wall_ns > 0 ? std::min(ns / of[r].wall_ns, 1.0) : 0.0);
  }
  return wanted;
}

Lacked lacked_processors(const shard::ShardData& merged) {
  constexpr auto kRunnable = static_cast<std::size_t>(shard::Category::kRunnable);
  Lacked lacked;
  std::vector<double> others_ns(merged.ranks.size());
  for (const shard::Value& value : merged.values)
    if (!value.main_thread && value.category == shard::Category::kRunnable)
      others_ns[value.rank] += static_cast<double>(value.wall_ns);
  for (std::size_t r = 0; r < others_ns.size(); ++r) {
    const shard::Rank& rank = merged.ranks[r];
    const double main_ns =
        static_cast<double>(rank.mpi_runnable_ns) + static_cast<double>(rank.main_thread_ns[kRunnable]);
    const double others = std::max(static_cast<double>(rank.threads) - 1, 1.0);
    lacked.main_s += main_ns * 1e-9 / static_cast<double>(merged.ranks.size());
    lacked.others_s = std::max(lacked.others_s, others_ns[r] * 1e-9 / others);
  }
  return lacked;
}

double change_of_shortage(double wanted_before, double wanted_after, double processors) {
  if (!(wanted_before > 0)) return 0;
  // Only those wait that are more than the processors. Where there are not so many on the mean, they meet by
  // chance, the more often the more there are.
  const bool is_short = processors > 0 && wanted_before > processors;
  const double before = is_short ? wanted_before - processors : wanted_before;
  const double after = is_short ? std::max(wanted_after - processors, 0.0) : wanted_after;
  return std::abs(after / before - 1);
}

double turn_s(const shard::ShardData& merged, const std::vector<double>& processors) {
  const std::vector<double> ranks = ranks_of_nodes(merged);
  double turns = 1;
  for (std::size_t n = 0; n < ranks.size(); ++n)
    if (processors[n] > 0) turns = std::max(turns, ranks[n] / processors[n] - 1);
  return turns * kTurn_s;
}

}  // namespace clusterprof::aggregator::whatif
