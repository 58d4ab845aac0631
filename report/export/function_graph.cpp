// SPDX-License-Identifier: BSD-3-Clause
#include "report/export/function_graph.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace clusterprof::report {

using shard::kNone;

FunctionGraph::FunctionGraph(const CallPaths& paths, const Key& key) : paths_(paths) {
  std::map<GraphFunction, std::uint32_t> known;
  const auto add = [&](const shard::Frame* frame) {
    const auto [at, is_new] = known.try_emplace(key(frame), static_cast<std::uint32_t>(functions_.size()));
    if (is_new) functions_.push_back(at->first), starts_.push_back(0);
    of_function_.push_back(at->second);
    std::uint32_t& start = starts_[at->second];
    if (frame != nullptr && frame->function_line != 0 && (start == 0 || frame->function_line < start))
      start = frame->function_line;
  };
  for (const shard::Frame* frame : paths.functions()) add(frame);
  add(nullptr);
}

void FunctionGraph::for_each_stack(const ChargedRows& rows,
                                   const std::function<void(const FunctionStack&)>& use) const {
  const std::vector<Weights> sums = rows.sums();
  const std::vector<std::uint64_t> mpi_calls = rows.mpi_calls();
  FunctionStack stack;
  std::unordered_set<std::uint64_t> edges;
  std::vector<std::uint32_t> seen(functions_.size(), kNone);  // the last path that the function was on
  for (std::uint32_t path = 0; path < sums.size(); ++path) {
    if (sums[path].empty() && mpi_calls[path] == 0) continue;
    stack.steps.clear();
    for (std::uint32_t up = path; up != 0; up = paths_.parent(up)) {
      const std::uint32_t function = paths_.function(up);
      if (function != kNone) stack.steps.push_back({of_function_[function], paths_.frame(up)->line});
    }
    if (stack.steps.empty()) stack.steps.push_back({of_function_.back(), 0});
    std::reverse(stack.steps.begin(), stack.steps.end());
    edges.clear();
    for (std::size_t i = 0; i < stack.steps.size(); ++i) {
      FunctionStack::Step& step = stack.steps[i];
      step.first_of_function = seen[step.function] != path;
      seen[step.function] = path;
      if (i != 0)
        step.first_of_edge =
            edges.insert(std::uint64_t{stack.steps[i - 1].function} << 32 | step.function).second;
    }
    stack.of = sums[path];
    stack.calls = mpi_calls[path] != 0 ? mpi_calls[path] : sums[path].samples;
    use(stack);
  }
}

}  // namespace clusterprof::report
