// SPDX-License-Identifier: BSD-3-Clause
// Who calls whom, with recursion counted once: for tools that know functions and calls but no call paths.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/export/charged_rows.hpp"

namespace clusterprof::report {

// A call path as functions. Regions are none.
struct FunctionStack {
  struct Step {
    std::uint32_t function = 0;  // index into FunctionGraph::functions
    std::uint32_t line = 0;      // executing or calling; 0 unknown
    // Of one function as of one call edge: where it is on the path for the first time.
    bool first_of_function = true, first_of_edge = true;
  };
  std::vector<Step> steps;  // the outermost one first; never empty
  Weights of;
  std::uint64_t calls = 0;  // how often the innermost function was called; samples, where that is not known
};

struct GraphFunction {
  std::string object, file, name;
  std::uint32_t line = 0;  // where it starts, where that tells functions apart
  friend auto operator<=>(const GraphFunction&, const GraphFunction&) = default;
};

class FunctionGraph {
 public:
  // key: the function as the format names it, of null the time outside all calls; equal ones are one
  // function.
  using Key = std::function<GraphFunction(const shard::Frame* frame)>;
  FunctionGraph(const CallPaths& paths, const Key& key);

  [[nodiscard]] const std::vector<GraphFunction>& functions() const { return functions_; }
  // The first line that is known; 0 unknown.
  [[nodiscard]] std::uint32_t start(std::uint32_t function) const { return starts_[function]; }
  // Every call path with weights.
  void for_each_stack(const ChargedRows& rows, const std::function<void(const FunctionStack&)>& use) const;

 private:
  const CallPaths& paths_;
  std::vector<GraphFunction> functions_;
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> of_function_;  // by CallPaths::function; the last one: outside all calls
};

}  // namespace clusterprof::report
