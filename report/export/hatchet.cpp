// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "report/export/charged_rows.hpp"
#include "report/export/compact_json.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report {
namespace {

struct HatchetRow {
  std::uint32_t node = 0;
  std::int32_t rank = 0;
  std::string_view host;
  Weights self, total;
};

std::string label_name(const CallPaths& paths, const FrameTree::Label& label) {
  return label.frame == nullptr ? std::string(kOutside) : paths.text(label.frame->name);
}

// Sums of what is below; what was added to `self` is taken out of it.
void take_rows(const FrameTree& tree, const std::vector<bool>& used, std::vector<Weights>& self,
               std::vector<Weights>& total, std::int32_t rank, std::string_view host,
               const std::function<void(const HatchetRow&)>& use) {
  total = self;
  for (std::size_t node = total.size(); node-- > 1;) total[tree.nodes()[node].parent] += total[node];
  for (std::uint32_t node = 1; node < total.size(); ++node) {
    if (!used[node]) continue;
    use({node, rank, host, self[node], total[node]});
    self[node] = {};
  }
}

// The nodes of the tree with time or samples, or above one that has some; and of each the children that do.
struct UsedNodes {
  std::vector<bool> used;
  std::vector<std::vector<std::uint32_t>> children;
};

UsedNodes used_nodes(const FrameTree& tree, const std::vector<Weights>& sums) {
  UsedNodes out{std::vector<bool>(tree.nodes().size(), false), {}};
  for (std::uint32_t path = 0; path < sums.size(); ++path)
    if (!sums[path].empty()) out.used[tree.node(path)] = true;
  for (std::size_t node = out.used.size(); node-- > 1;)
    if (out.used[node]) out.used[tree.nodes()[node].parent] = true;
  out.children.resize(tree.nodes().size());
  for (std::uint32_t node = 1; node < out.children.size(); ++node)
    if (out.used[node]) out.children[tree.nodes()[node].parent].push_back(node);
  return out;
}

// Hatchet compares frames field by field, so all have the same fields with values of the same types.
void write_graph(const CallPaths& paths, const FrameTree& tree, const UsedNodes& nodes, CompactJson& json) {
  json.Key("graph");
  json.StartArray();
  json.StartObject();
  for (std::uint32_t node = 1; node < nodes.children.size(); ++node) {
    if (!nodes.used[node]) continue;
    const FrameTree::Label& label = tree.labels()[tree.nodes()[node].label];
    json.Key(std::to_string(node).c_str());
    json.StartObject();
    json.Key("data");
    json.StartObject();
    json.member("name", label_name(paths, label));
    json.member("type", label.frame != nullptr && label.function == shard::kNone ? "region" : "function");
    json.member("kind", label.frame == nullptr ? "native" : format::frame_kind_name(label.frame->kind));
    json.member("file", label.frame == nullptr ? std::string_view() : paths.text(label.frame->file));
    json.member("line", label.frame == nullptr ? 0 : label.frame->function_line);
    json.member("module", label.frame == nullptr ? std::string_view() : paths.text(label.frame->module));
    json.EndObject();
    json.Key("children");
    json.StartArray();
    for (const std::uint32_t child : nodes.children[node]) json.Uint(child);
    json.EndArray();
    json.EndObject();
  }
  json.EndObject();
  json.EndArray();
}

void write_row(const HatchetRow& row, const std::string& name, bool each_rank, CompactJson& json) {
  json.StartObject();
  json.member("node", row.node);
  if (each_rank) {
    json.Key("rank");
    json.Int(row.rank);
    json.member("host", row.host);
  }
  json.member("name", name);
  json.Key("time");
  json.seconds(row.self.time_ns);
  json.Key("time (inc)");
  json.seconds(row.total.time_ns);
  json.Key("cpu");
  json.seconds(row.self.cpu_ns);
  json.Key("cpu (inc)");
  json.seconds(row.total.cpu_ns);
  json.member("samples", row.self.samples);
  json.member("samples (inc)", row.total.samples);
  json.EndObject();
}

// The names of the index columns and of the metrics.
void write_column_names(bool each_rank, CompactJson& json) {
  json.Key("dataframe_indices");
  json.StartArray();
  json.String("node");
  if (each_rank) json.String("rank");
  json.EndArray();
  for (const bool inclusive : {false, true}) {
    json.Key(inclusive ? "inclusive_metrics" : "exclusive_metrics");
    json.StartArray();
    for (const char* metric : {"time", "cpu", "samples"})
      json.text(std::string(metric) + (inclusive ? " (inc)" : ""));
    json.EndArray();
  }
}

}  // namespace

void export_hatchet(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const CallPaths paths(input.head, FrameMode::kAll);
  const FrameTree tree(paths, options.regions);
  const ChargedRows rows(input, paths, options);
  const UsedNodes nodes = used_nodes(tree, rows.sums());
  CompactJson json(sink);
  json.StartObject();
  write_graph(paths, tree, nodes, json);

  json.Key("dataframe");
  json.StartArray();
  const auto write = [&](const HatchetRow& row) {
    write_row(row, label_name(paths, tree.labels()[tree.nodes()[row.node].label]), options.each_rank, json);
  };
  std::vector<Weights> self(tree.nodes().size()), total;
  rows.for_each_rank([&](std::uint32_t rank, std::span<const ChargedRow> of) {
    for (const ChargedRow& row : of) self[tree.node(row.path)] += row.of;
    const shard::Rank& here = input.head.ranks[rank];
    if (options.each_rank)
      take_rows(tree, nodes.used, self, total, here.rank, node_name(input.head, here), write);
  });
  if (!options.each_rank) take_rows(tree, nodes.used, self, total, 0, "", write);
  json.EndArray();

  write_column_names(options.each_rank, json);
  json.EndObject();
  json.finish();
}

}  // namespace clusterprof::report
