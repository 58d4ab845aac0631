// SPDX-License-Identifier: BSD-3-Clause
// The section on nodes: processors, memory, network and disks, and where ranks were bound.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/analysis/placement.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kManyNodes = 16;

// "1 processor each, of their own" where the ranks of a node have disjoint sets of equal size; else empty.
std::string processors_of_their_own(
    const std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>>& placement) {
  std::vector<std::uint32_t> all;
  std::size_t size = 0;
  for (const auto& [where, ranks] : placement) {
    const auto processors = parse_number_list(where.first);
    if (!processors || ranks.size() != 1 || (size != 0 && processors->size() != size)) return {};
    size = processors->size();
    all.insert(all.end(), processors->begin(), processors->end());
  }
  std::sort(all.begin(), all.end());
  if (std::adjacent_find(all.begin(), all.end()) != all.end()) return {};
  return fmt::format("{} each, of their own", plural(size, "processor"));
}

// For many nodes: the least, mean and largest value, and the node that has the largest.
void print_node_distributions(Page& page, const Analysis& a) {
  using Value = std::function<std::optional<double>(const NodeInfo&)>;
  const auto amount = [](std::optional<std::uint64_t> NodeInfo::*member) -> Value {
    return [member](const NodeInfo& node) {
      return node.*member ? std::optional(static_cast<double>(*(node.*member))) : std::nullopt;
    };
  };
  const auto share = [](double value) { return fmt::format("{:.0f} %", 100 * value); };
  const std::tuple<const char*, Value, std::function<std::string(double)>> quantities[] = {
      {"ranks", [](const NodeInfo& node) { return static_cast<double>(node.ranks.size()); }, count},
      {"busy", [](const NodeInfo& node) { return node.busy; }, share},
      {"memory used", amount(&NodeInfo::memory_used_bytes), bytes},
      {"network in", amount(&NodeInfo::received_bytes), bytes},
      {"network out", amount(&NodeInfo::sent_bytes), bytes},
      {"disk in", amount(&NodeInfo::disk_read_bytes), bytes},
      {"disk out", amount(&NodeInfo::disk_written_bytes), bytes}};
  print_table(page, {{"", Align::kLeft}, {"min"}, {"mean"}, {"max"}, {"max on", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (const auto& [name, of, shown] : quantities) {
                  double least = 0, sum = 0, most = 0;
                  const NodeInfo* who = nullptr;
                  std::size_t number = 0;
                  for (const NodeInfo& node : a.nodes) {
                    const std::optional<double> value = of(node);
                    if (!value) continue;
                    if (who == nullptr || *value > most) most = *value, who = &node;
                    least = number == 0 ? *value : std::min(least, *value);
                    sum += *value;
                    ++number;
                  }
                  if (who != nullptr)
                    table.row({name, shown(least), shown(sum / static_cast<double>(number)), shown(most),
                               room == 0 ? "" : shorten_middle(printable(who->name), room)});
                }
              });
  page.blank();
}

// The processor and memory of a node, and the processors that its ranks were bound to.
void print_placement(Page& page, const Analysis& a, std::size_t n, const ResourceOptions& options) {
  const NodeInfo& node = a.nodes[n];
  std::map<std::pair<std::string, std::string>, std::vector<std::int32_t>> placement;
  for (const RankInfo& rank : a.ranks)
    if (rank.node == n && !rank.affinity.empty()) placement[{rank.affinity, rank.numa}].push_back(rank.rank);
  std::string facts;
  if (!node.cpu_model.empty()) facts = printable(node.cpu_model);
  if (node.cache_bytes != 0)
    facts += fmt::format("{}largest cache {}", facts.empty() ? "" : ", ", bytes_cell(node.cache_bytes));
  if (node.numa_nodes != 0)
    facts += fmt::format("{}{}", facts.empty() ? "" : ", ", plural(node.numa_nodes, "memory node"));
  if (facts.empty() && placement.empty()) return;
  page.blank();
  page.paragraph({fmt::format("  {}  ", shorten_middle(printable(node.name), 24)), Style::kDim}, facts);
  if (const std::string own = processors_of_their_own(placement); placement.size() > 1 && !own.empty()) {
    page.paragraph({fmt::format("    {:<16} ", fmt::format("ranks {}", rank_list(node.ranks, 3)))}, own);
    return;
  }
  std::vector<std::pair<std::int32_t, std::string>> rows;  // by the first rank
  for (const auto& [where, ranks] : placement) {
    const std::string who = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_list(ranks, 3));
    const std::string memory =
        where.second.empty() ? "" : fmt::format("; memory of {}", printable(where.second));
    rows.emplace_back(ranks.front(),
                      fmt::format("{:<16} processors {}{}", who, printable(where.first), memory));
  }
  std::sort(rows.begin(), rows.end());
  for (std::size_t row = 0; row < std::min(rows.size(), options.rows); ++row)
    page.paragraph({"    "}, rows[row].second);
  note_the_rest(page, std::min(rows.size(), options.rows), rows.size());
}

}  // namespace

void print_nodes(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (a.nodes.empty()) return;
  page.section("Nodes", "sums over the run; memory: the most");
  std::vector<std::size_t> order(a.nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool many = a.nodes.size() > std::max<std::size_t>(options.rows, kManyNodes);
  if (many) {
    print_node_distributions(page, a);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      return a.nodes[x].busy.value_or(-1) > a.nodes[y].busy.value_or(-1);
    });
    page.line("  the busiest:", Style::kDim);
  }
  const std::size_t shown = many ? std::min(kFewRows, options.rows) : a.nodes.size();
  print_table(
      page,
      {{"ranks"},
       {"cpus"},
       {"busy"},
       {"memory"},
       {"used"},
       {"net in"},
       {"out"},
       {"disk in"},
       {"out"},
       {"node", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const NodeInfo& node = a.nodes[order[i]];
          table.row({std::to_string(node.ranks.size()), node.cpus == 0 ? "-" : std::to_string(node.cpus),
                     node.busy ? fmt::format("{:.0f} %", 100 * *node.busy) : "-",
                     known_bytes(node.memory_bytes), optional_bytes(node.memory_used_bytes),
                     optional_bytes(node.received_bytes), optional_bytes(node.sent_bytes),
                     optional_bytes(node.disk_read_bytes), optional_bytes(node.disk_written_bytes),
                     room == 0 ? "" : shorten_middle(printable(node.name), room)});
        }
      });
  note_the_rest(page, shown, a.nodes.size());
  for (std::size_t i = 0; i < shown; ++i) print_placement(page, a, order[i], options);
}

}  // namespace clusterprof::report::text
