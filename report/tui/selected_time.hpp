// SPDX-License-Identifier: BSD-3-Clause
// Time by call path and by function, of all ranks or of one group of ranks, from the data of a page and the
// rows of its report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

struct FunctionSeconds {
  double self_s = 0, total_s = 0;
};

// Seconds; without idle helper threads. Vectors by index into PageData::paths and PageData::functions.
struct SelectedTime {
  std::vector<double> self_s, total_s;
  std::vector<FunctionSeconds> functions;

  [[nodiscard]] double all_s() const { return total_s.empty() ? 0 : total_s[0]; }
};

// Without a group: of all ranks. Functions are in small call paths, too, which the page does not tell apart:
// of each the report's time is taken, times the chosen part of its call paths.
SelectedTime selected_time(const Analysis& analysis, const PageData& data,
                           std::optional<std::uint32_t> group);

// Who calls a function and what it calls, by total time on these edges; recursion counts as the outermost
// call does. Of the call paths that are told apart.
struct Neighbour {
  std::uint32_t function = 0;
  double total_s = 0;
};
struct Neighbours {
  std::vector<Neighbour> callers, callees;  // largest first; kNone as function: not called by any
  double total_s = 0;                       // of the function on these call paths
};
Neighbours neighbours(const PageData& data, const SelectedTime& time, std::uint32_t function);

}  // namespace clusterprof::report
