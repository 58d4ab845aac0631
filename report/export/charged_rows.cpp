// SPDX-License-Identifier: BSD-3-Clause
#include "report/export/charged_rows.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "base/command_text.hpp"
#include "base/version.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/tables.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::ShardData;

ChargedRows::ChargedRows(const ExportInput& input, const CallPaths& paths, const ExportOptions& options)
    : input_(input), paths_(paths), options_(options) {}

void ChargedRows::for_each_rank(
    const std::function<void(std::uint32_t rank, std::span<const ChargedRow>)>& use) const {
  if (is_memory(options_.weight)) return for_each_rank_of_memory(use);
  const ShardData& head = input_.head;
  std::vector<ChargedRow> rows;
  const auto take = [&](std::uint32_t rank, std::span<const shard::Value> values) {
    if (!selected(rank)) return;
    rows.clear();
    // Without samples it is not known what a thread did.
    const bool sampled = head.ranks[rank].samples != 0;
    const auto place = [&](std::uint32_t path, Category category) {
      return sampled || category == Category::kMpi ? paths_.counted(path, category) : 0;
    };
    for (const shard::Value& value : values)
      if (value.path < paths_.size() && static_cast<std::size_t>(value.category) < shard::kCategories &&
          (options_.idle_threads || value.main_thread || is_work(paths_, value.path, value.category)))
        rows.push_back({place(value.path, value.category),
                        value.category,
                        value.main_thread,
                        {value.samples, value.wall_ns, value.cpu_ns}});
    const auto key = [](const ChargedRow& row) {
      return std::tuple(row.path, row.category, !row.main_thread);
    };
    std::sort(rows.begin(), rows.end(),
              [&](const ChargedRow& a, const ChargedRow& b) { return key(a) < key(b); });
    std::size_t size = 0;
    for (const ChargedRow& row : rows) {
      if (row.of.empty()) continue;
      if (size != 0 && key(rows[size - 1]) == key(row))
        rows[size - 1].of += row.of;
      else
        rows[size++] = row;
    }
    if (size != 0) use(rank, {rows.data(), size});
  };
  input_.rows.for_each_rank([&](const shard::RankRows& rank) {
    if (rank.rank < head.ranks.size()) take(rank.rank, rank.values);
  });
}

void ChargedRows::for_each_rank_of_memory(
    const std::function<void(std::uint32_t rank, std::span<const ChargedRow>)>& use) const {
  const ShardData& head = input_.head;
  const auto amount = amount_of(options_.weight);
  const ByRank by = by_rank(head.memory_sites, head.ranks.size());
  for (std::uint32_t rank = 0; rank < head.ranks.size(); ++rank) {
    if (!selected(rank)) continue;
    std::map<std::uint32_t, std::uint64_t> bytes;  // by path
    for (std::uint32_t i = by.starts[rank]; i < by.starts[rank + 1]; ++i) {
      const shard::MemorySite& site = head.memory_sites[by.order[i]];
      if (site.domain == shard::MemoryDomain::kFile || site.*amount == 0 || site.path >= paths_.size())
        continue;
      bytes[paths_.counted(site.path, Category::kNative)] += site.*amount;
    }
    std::vector<ChargedRow> rows;
    for (const auto& [path, sum] : bytes) rows.push_back({path, Category::kNative, true, {sum, 0, 0}});
    if (!rows.empty()) use(rank, rows);
  }
}

std::vector<Weights> ChargedRows::sums() const {
  std::vector<Weights> sums(paths_.size());
  for_each_rank([&](std::uint32_t, std::span<const ChargedRow> rows) {
    for (const ChargedRow& row : rows) sums[row.path] += row.of;
  });
  return sums;
}

std::vector<std::uint64_t> ChargedRows::mpi_calls() const {
  std::vector<std::uint64_t> calls(paths_.size(), 0);
  for (const shard::MpiCall& call : input_.head.mpi_calls)
    if (call.path < calls.size() && call.rank < input_.head.ranks.size() && selected(call.rank))
      calls[call.path] += call.count;
  return calls;
}

std::string creator() { return std::string("clusterprof ") + kVersion; }

std::vector<std::string> command_of(const ShardData& head, const shard::Rank& rank) {
  if (rank.command == 0 || rank.command >= head.strings.size()) return head.run.command;
  return command_words(head.strings[rank.command]);
}

std::string command_of(const ShardData& head) {
  const auto joined = [](const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
    return line;
  };
  std::map<shard::StringIndex, std::vector<std::int32_t>> ranks_of;
  for (const shard::Rank& rank : head.ranks)
    if (rank.command != 0 && rank.command < head.strings.size()) ranks_of[rank.command].push_back(rank.rank);
  if (ranks_of.size() < 2) return joined(head.run.command);
  std::map<std::int32_t, std::string> by_lowest_rank;
  for (auto& [command, ranks] : ranks_of) {
    std::sort(ranks.begin(), ranks.end());
    by_lowest_rank[ranks.front()] = (ranks.size() == 1 ? "rank " : "ranks ") + format::rank_ranges(ranks) +
                                    ": " + joined(command_words(head.strings[command]));
  }
  std::string all;
  for (const auto& [rank, text] : by_lowest_rank) all += (all.empty() ? "" : "; ") + text;
  return all;
}

std::string_view node_name(const ShardData& head, const shard::Rank& rank) {
  return rank.node < head.nodes.size() ? std::string_view(head.nodes[rank.node].name) : "?";
}

std::string rank_name(const ShardData& head, std::uint32_t row) {
  const shard::Rank& rank = head.ranks[row];
  return "rank " + std::to_string(rank.rank) + " (" + std::string(node_name(head, rank)) + ")";
}

std::vector<std::uint32_t> ranks_in_order(const ShardData& head, const std::vector<bool>& selected) {
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < head.ranks.size(); ++row)
    if (selected.empty() || selected[row]) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(head.ranks[a].rank, a) < std::tuple(head.ranks[b].rank, b);
  });
  return rows;
}

std::vector<ChosenRank> chosen_ranks(const ShardData& head, const std::vector<bool>& selected) {
  std::vector<std::uint32_t> rows = ranks_in_order(head, selected);
  const auto useful_ns = [&](std::uint32_t row) {
    const shard::Rank& rank = head.ranks[row];
    const std::uint64_t outside = rank.paused_ns + rank.mpi_ns;
    return rank.elapsed_ns - std::min(outside, rank.elapsed_ns);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return useful_ns(a) > useful_ns(b); });
  std::vector<ChosenRank> chosen;
  const auto choose = [&](std::size_t at, const char* what) {
    const bool known = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const ChosenRank& other) { return other.row == rows[at]; });
    if (!known) chosen.push_back({rows[at], what});
  };
  if (rows.empty()) return chosen;
  // Of equal ones the lowest rank is the fastest as well.
  std::size_t fastest = rows.size() - 1;
  while (fastest > 0 && useful_ns(rows[fastest - 1]) == useful_ns(rows.back())) --fastest;
  choose(0, "slowest");
  choose(rows.size() / 2, "median");
  choose(fastest, "fastest");
  return chosen;
}

}  // namespace clusterprof::report
