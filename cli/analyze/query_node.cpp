// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query RUN node NODE`: the ranks of a node, and what it exchanged with other nodes.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/analyze/query_parts.hpp"
#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {

using namespace report::format;
using namespace report::text;
using shard::ShardData;
using Align = Table::Align;

namespace {

struct Exchange {
  std::uint64_t sent_messages = 0, sent_bytes = 0, received_messages = 0, received_bytes = 0;
};

struct NodeAnswer {
  std::uint32_t node = 0;
  std::vector<const shard::Rank*> ranks;
  std::vector<const shard::MatrixCell*> cells;  // that begin or end on the node
  std::vector<std::pair<std::uint32_t, Exchange>>
      nodes;  // by bytes; kNone: ranks that are not in the profile
};

// The nodes that may be asked for.
std::string nodes_of(const ShardData& data) {
  constexpr std::size_t kMost = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(data.nodes.size(), kMost); ++i)
    names += (i == 0 ? "" : ", ") + data.nodes[i].name;
  return data.nodes.size() > kMost ? names + ", .." : names;
}

NodeAnswer answer_of(const ShardData& data, std::uint32_t here) {
  std::map<std::int32_t, std::uint32_t> node_of;
  NodeAnswer answer{here, {}, {}, {}};
  for (const shard::Rank& rank : data.ranks) {
    node_of[rank.rank] = rank.node;
    if (rank.node == here) answer.ranks.push_back(&rank);
  }
  std::map<std::uint32_t, Exchange> exchanged;
  const auto node = [&](std::int32_t rank) {
    const auto known = node_of.find(rank);
    return known == node_of.end() ? shard::kNone : known->second;
  };
  for (const shard::MatrixCell& cell : data.matrix) {
    const std::uint32_t source = node(cell.source), destination = node(cell.destination);
    if (source != here && destination != here) continue;
    answer.cells.push_back(&cell);
    if (source == here) {
      Exchange& with = exchanged[destination];
      with.sent_messages += cell.messages, with.sent_bytes += cell.bytes;
    }
    if (destination == here) {
      Exchange& with = exchanged[source];
      with.received_messages += cell.messages, with.received_bytes += cell.bytes;
    }
  }
  answer.nodes.assign(exchanged.begin(), exchanged.end());
  const auto weight = [](const Exchange& with) { return with.sent_bytes + with.received_bytes; };
  std::stable_sort(answer.nodes.begin(), answer.nodes.end(),
                   [&](const auto& x, const auto& y) { return weight(x.second) > weight(y.second); });
  return answer;
}

int print_json(const QueryOptions& options, const ShardData& data, const NodeAnswer& answer) {
  const shard::Node& node = data.nodes[answer.node];
  QueryJson json("node");
  json("node", node.name)("elapsed_s", seconds_of(node.elapsed_ns))("cpu_s", seconds_of(node.cpu_ns));
  json.rows("ranks", answer.ranks.size(), [&](std::size_t i) {
    const shard::Rank& rank = *answer.ranks[i];
    json("rank", rank.rank)("pid", rank.pid)("elapsed_s", seconds_of(rank.elapsed_ns));
    json("cpu_s", seconds_of(rank.cpu_ns))("mpi_s", seconds_of(rank.mpi_ns))("samples", rank.samples);
    json("threads", rank.threads);
  });
  json.rows("nodes", rows_of(options, answer.nodes.size()), [&](std::size_t i) {
    const auto& [other, with] = answer.nodes[i];
    json("node",
         other == shard::kNone ? std::optional<std::string>() : std::optional(data.nodes[other].name));
    json("sent_messages", with.sent_messages)("sent_bytes", with.sent_bytes);
    json("received_messages", with.received_messages)("received_bytes", with.received_bytes);
  });
  json.rows("matrix", answer.cells.size(), [&](std::size_t i) {
    json("src", answer.cells[i]->source)("dst", answer.cells[i]->destination);
    json("messages", answer.cells[i]->messages)("bytes", answer.cells[i]->bytes);
  });
  return json.print();
}

void print_messages(Page& page, const QueryOptions& options, const ShardData& data,
                    const NodeAnswer& answer) {
  page.section("Messages", fmt::format("{} of ranks", plural(answer.cells.size(), "pair")));
  if (answer.nodes.empty()) {
    page.line("  None were recorded.");
    return;
  }
  const std::size_t others = rows_of(options, answer.nodes.size());
  print_table(page, {{"sent"}, {"messages"}, {"received"}, {"messages"}, {"with", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < others; ++i) {
                  const auto& [other, with] = answer.nodes[i];
                  const std::string name = other == shard::kNone  ? "ranks that are not in the profile"
                                           : other == answer.node ? "itself"
                                                                  : printable(data.nodes[other].name);
                  table.row({bytes_text(with.sent_bytes), count_text(with.sent_messages),
                             bytes_text(with.received_bytes), count_text(with.received_messages),
                             room == 0 ? "" : shorten_middle(name, room)});
                }
              });
  note_the_rest(page, others, answer.nodes.size());
}

int print_text(const QueryOptions& options, const ShardData& data, const NodeAnswer& answer) {
  const shard::Node& node = data.nodes[answer.node];
  Page page = new_page();
  double longest = 0;
  for (const shard::Rank* rank : answer.ranks)
    longest = std::max(longest, seconds_of(std::max(rank->elapsed_ns, rank->cpu_ns)));
  const TimeScale scale(longest);
  page.section(
      fmt::format("Node {}", printable(node.name)),
      fmt::format("{}, {}", plural(answer.ranks.size(), "rank"), seconds(seconds_of(node.elapsed_ns))));
  const std::size_t shown = rows_of(options, answer.ranks.size());
  print_table(
      page, {{"rank"}, {"pid"}, {"elapsed"}, {"cpu"}, {"mpi"}, {"samples"}, {"threads"}},
      [&](Table& table, std::size_t) {
        for (std::size_t i = 0; i < shown; ++i) {
          const shard::Rank& rank = *answer.ranks[i];
          table.row({std::to_string(rank.rank), std::to_string(rank.pid), scale(seconds_of(rank.elapsed_ns)),
                     scale(seconds_of(rank.cpu_ns)), scale(seconds_of(rank.mpi_ns)), count_text(rank.samples),
                     std::to_string(rank.threads)});
        }
      });
  note_the_rest(page, shown, answer.ranks.size());
  page.line(fmt::format("  in {}; mpi: of the main thread", scale.unit()), Style::kDim);
  print_messages(page, options, data, answer);
  return print(page.take());
}

}  // namespace

int query_node(const QueryOptions& options) {
  Result<OpenedProfile> opened = open_for_query(options.run);
  if (!opened) return complain(opened.error());
  const ShardData& data = *opened.value().data;
  const auto found = std::find_if(data.nodes.begin(), data.nodes.end(),
                                  [&](const shard::Node& node) { return node.name == options.argument; });
  if (found == data.nodes.end())
    return complain(kNothingFound,
                    options.run + ": there is no node " + options.argument + "; there are " + nodes_of(data));
  const NodeAnswer answer = answer_of(data, static_cast<std::uint32_t>(found - data.nodes.begin()));
  return options.json ? print_json(options, data, answer) : print_text(options, data, answer);
}

}  // namespace clusterprof::cli
