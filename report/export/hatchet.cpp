// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "report/export/charged_rows.hpp"
#include "report/export/compact_json.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"

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

}  // namespace

void export_hatchet(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const CallPaths paths(input.head, FrameMode::kAll);
  const FrameTree tree(paths, options.regions);
  const ChargedRows rows(input, paths, options);
  CompactJson json(sink);
  // Only what has any time or samples, or is above that.
  std::vector<bool> used(tree.nodes().size(), false);
  const std::vector<Weights> sums = rows.sums();
  for (std::uint32_t path = 0; path < sums.size(); ++path)
    if (!sums[path].empty()) used[tree.node(path)] = true;
  for (std::size_t node = used.size(); node-- > 1;)
    if (used[node]) used[tree.nodes()[node].parent] = true;
  std::vector<std::vector<std::uint32_t>> children(tree.nodes().size());
  for (std::uint32_t node = 1; node < children.size(); ++node)
    if (used[node]) children[tree.nodes()[node].parent].push_back(node);

  // Frames are compared field by field, so all have the same fields with values of the same types.
  json.StartObject();
  json.Key("graph");
  json.StartArray();
  json.StartObject();
  for (std::uint32_t node = 1; node < children.size(); ++node) {
    if (!used[node]) continue;
    const FrameTree::Label& label = tree.labels()[tree.nodes()[node].label];
    json.Key(std::to_string(node).c_str());
    json.StartObject();
    json.Key("data");
    json.StartObject();
    json.member("name", label_name(paths, label));
    json.member("type", label.frame != nullptr && label.function == shard::kNone ? "region" : "function");
    json.member("kind", label.frame == nullptr ? "native" : kind_name(label.frame->kind));
    json.member("file", label.frame == nullptr ? std::string_view() : paths.text(label.frame->file));
    json.member("line", label.frame == nullptr ? 0 : label.frame->function_line);
    json.member("module", label.frame == nullptr ? std::string_view() : paths.text(label.frame->module));
    json.EndObject();
    json.Key("children");
    json.StartArray();
    for (const std::uint32_t child : children[node]) json.Uint(child);
    json.EndArray();
    json.EndObject();
  }
  json.EndObject();
  json.EndArray();

  json.Key("dataframe");
  json.StartArray();
  const auto write = [&](const HatchetRow& row) {
    json.StartObject();
    json.member("node", row.node);
    if (options.each_rank) {
      json.Key("rank");
      json.Int(row.rank);
      json.member("host", row.host);
    }
    json.member("name", label_name(paths, tree.labels()[tree.nodes()[row.node].label]));
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
  };
  std::vector<Weights> self(tree.nodes().size()), total;
  rows.for_each_rank([&](std::uint32_t rank, std::span<const ChargedRow> of) {
    for (const ChargedRow& row : of) self[tree.node(row.path)] += row.of;
    const shard::Rank& here = input.head.ranks[rank];
    if (options.each_rank) take_rows(tree, used, self, total, here.rank, node_name(input.head, here), write);
  });
  if (!options.each_rank) take_rows(tree, used, self, total, 0, "", write);
  json.EndArray();

  json.Key("dataframe_indices");
  json.StartArray();
  json.String("node");
  if (options.each_rank) json.String("rank");
  json.EndArray();
  for (const bool inclusive : {false, true}) {
    json.Key(inclusive ? "inclusive_metrics" : "exclusive_metrics");
    json.StartArray();
    for (const char* metric : {"time", "cpu", "samples"})
      json.text(std::string(metric) + (inclusive ? " (inc)" : ""));
    json.EndArray();
  }
  json.EndObject();
  json.finish();
}

}  // namespace clusterprof::report
