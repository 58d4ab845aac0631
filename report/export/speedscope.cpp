// SPDX-License-Identifier: BSD-3-Clause
#include <map>
#include <string>

#include "report/export/charged_rows.hpp"
#include "report/export/compact_json.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"

namespace clusterprof::report {
namespace {

using shard::ShardData;

class SpeedscopeWriter {
 public:
  SpeedscopeWriter(const CallPaths& paths, const ExportOptions& options, const ExportSink& sink)
      : tree_(paths, options.regions), weight_(options.weight), json_(sink) {
    json_.StartObject();
    json_.member("$schema", "https://www.speedscope.app/file-format-schema.json");
    json_.member("exporter", creator());
    json_.Key("shared");
    json_.StartObject();
    json_.Key("frames");
    json_.StartArray();
    for (const FrameTree::Label& label : tree_.labels()) {
      json_.StartObject();
      if (label.frame == nullptr) {
        json_.member("name", kOutside);
      } else {
        const bool region = label.function == shard::kNone;
        const std::string& name = paths.text(label.frame->name);
        json_.member("name", region ? "[region " + name + "]" : name);
        const std::string& file = paths.text(label.frame->file);
        const std::string& module = paths.text(label.frame->module);
        if (!file.empty() || !module.empty()) json_.member("file", file.empty() ? module : file);
        if (!file.empty() && label.frame->function_line != 0)
          json_.member("line", label.frame->function_line);
      }
      json_.EndObject();
    }
    json_.EndArray();
    json_.EndObject();
    json_.Key("profiles");
    json_.StartArray();
  }

  [[nodiscard]] std::vector<std::uint64_t> empty() const {
    return std::vector<std::uint64_t>(tree_.nodes().size(), 0);
  }
  void add(std::vector<std::uint64_t>& sums, std::span<const ChargedRow> rows) const {
    for (const ChargedRow& row : rows)
      sums[tree_.node(row.path)] += weight_ == ExportWeight::kTime ? row.of.time_ns : row.of.samples;
  }

  void profile(std::string_view name, const std::vector<std::uint64_t>& sums) {
    std::uint64_t end = 0;
    for (const std::uint64_t sum : sums) end += sum;
    json_.StartObject();
    json_.member("type", "sampled");
    json_.member("name", name);
    json_.member("unit", weight_ == ExportWeight::kTime ? "seconds" : is_memory(weight_) ? "bytes" : "none");
    json_.Key("startValue");
    json_.Uint64(0);
    json_.Key("endValue");
    number(end);
    json_.Key("samples");
    json_.StartArray();
    for (std::uint32_t node = 1; node < sums.size(); ++node) {
      if (sums[node] == 0) continue;
      tree_.stack(node, stack_);
      json_.StartArray();
      for (const std::uint32_t label : stack_) json_.Uint(label);
      json_.EndArray();
    }
    json_.EndArray();
    json_.Key("weights");
    json_.StartArray();
    for (std::uint32_t node = 1; node < sums.size(); ++node)
      if (sums[node] != 0) number(sums[node]);
    json_.EndArray();
    json_.EndObject();
  }

  void finish(const ShardData& head) {
    json_.EndArray();
    json_.member("name", head.run.id.empty() ? command_of(head) : head.run.id);
    json_.member("activeProfileIndex", 0);
    json_.EndObject();
    json_.finish();
  }

 private:
  void number(std::uint64_t value) {
    if (weight_ == ExportWeight::kTime)
      json_.seconds(value);
    else
      json_.Uint64(value);
  }

  FrameTree tree_;
  ExportWeight weight_;
  CompactJson json_;
  std::vector<std::uint32_t> stack_;
};

}  // namespace

void export_speedscope(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const ShardData& head = input.head;
  const CallPaths paths(head, FrameMode::kAll);
  const ChargedRows rows(input, paths, options);
  SpeedscopeWriter writer(paths, options, sink);
  const std::size_t ranks = ranks_in_order(head, options.ranks).size();

  const std::vector<ChosenRank> chosen =
      options.each_rank || ranks < 2 ? std::vector<ChosenRank>() : chosen_ranks(head, options.ranks);
  std::vector<std::uint64_t> all = writer.empty();
  std::map<std::uint32_t, std::vector<std::uint64_t>> of_rank;  // the chosen ones
  for (const ChosenRank& one : chosen) of_rank[one.row] = writer.empty();
  rows.for_each_rank([&](std::uint32_t rank, std::span<const ChargedRow> of) {
    writer.add(all, of);
    if (const auto here = of_rank.find(rank); here != of_rank.end()) writer.add(here->second, of);
  });
  writer.profile(ranks == 1 ? rank_name(head, ranks_in_order(head, options.ranks)[0])
                            : "all " + std::to_string(ranks) + " ranks",
                 all);
  for (const ChosenRank& one : chosen)
    writer.profile(std::string(one.what) + ": " + rank_name(head, one.row), of_rank[one.row]);
  if (options.each_rank && ranks > 1)
    rows.for_each_rank([&](std::uint32_t rank, std::span<const ChargedRow> of) {
      std::vector<std::uint64_t> sums = writer.empty();
      writer.add(sums, of);
      writer.profile(rank_name(head, rank), sums);
    });
  writer.finish(head);
}

}  // namespace clusterprof::report
