// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>

#include "report/export/charged_rows.hpp"
#include "report/export/export.hpp"
#include "report/export/frame_tree.hpp"
#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

// Semicolons separate frames, as stackcollapse-perf.pl has it.
std::string safe(std::string_view name) {
  std::string text = format::printable(name);
  std::replace(text.begin(), text.end(), ';', ':');
  return text;
}

class FoldedWriter {
 public:
  FoldedWriter(const CallPaths& paths, const ExportOptions& options, const ExportSink& sink)
      : tree_(paths, options.regions), weight_(options.weight), sink_(sink) {
    const std::vector<std::string> names = unique_names(paths);
    for (const FrameTree::Label& label : tree_.labels()) {
      if (label.frame == nullptr)
        names_.emplace_back(kOutside);
      else if (label.function == shard::kNone)
        names_.push_back(safe("[region " + paths.text(label.frame->name) + "]"));
      else
        names_.push_back(safe(names[label.function]));
    }
    counts_.resize(tree_.nodes().size(), 0);
  }

  void add(std::uint32_t path, const Weights& weights) {
    counts_[tree_.node(path)] += weight_ == ExportWeight::kTime ? weights.time_ns : weights.samples;
  }
  // What was added since the last time, behind a frame for all of it.
  void write(const std::string& prefix) {
    std::string line;
    for (std::uint32_t node = 1; node < counts_.size(); ++node) {
      if (counts_[node] == 0) continue;
      line = prefix;
      tree_.stack(node, stack_);
      for (const std::uint32_t label : stack_) {
        if (!line.empty()) line += ';';
        line += names_[label];
      }
      line += ' ' + std::to_string(counts_[node]) + '\n';
      counts_[node] = 0;
      sink_(line);
    }
  }

 private:
  FrameTree tree_;
  ExportWeight weight_;
  const ExportSink& sink_;
  std::vector<std::string> names_;  // by label
  std::vector<std::uint64_t> counts_;
  std::vector<std::uint32_t> stack_;
};

}  // namespace

void export_folded(const ExportInput& input, const ExportOptions& options, const ExportSink& sink) {
  const CallPaths paths(input.head, FrameMode::kAll);
  FoldedWriter writer(paths, options, sink);
  ChargedRows(input, paths, options).for_each_rank([&](std::uint32_t rank, std::span<const ChargedRow> rows) {
    for (const ChargedRow& row : rows) writer.add(row.path, row.of);
    if (options.each_rank) writer.write(safe(rank_name(input.head, rank)));
  });
  if (!options.each_rank) writer.write("");
}

}  // namespace clusterprof::report
