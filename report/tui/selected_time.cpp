// SPDX-License-Identifier: BSD-3-Clause
#include "report/tui/selected_time.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace clusterprof::report {
namespace {

std::uint32_t function_of(const PageData& data, std::uint32_t path) {
  const std::uint32_t frame = data.paths[path].frame;
  return frame == shard::kNone ? shard::kNone : data.frames[frame].function;
}

std::vector<Neighbour> largest_first(const std::map<std::uint32_t, double>& times) {
  std::vector<Neighbour> rows;
  for (const auto& [function, total_s] : times)
    if (total_s > 0) rows.push_back({function, total_s});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.total_s > b.total_s; });
  return rows;
}

// Of call paths alone.
SelectedTime path_times(const PageData& data, std::optional<std::uint32_t> group) {
  SelectedTime time;
  const std::size_t paths = data.paths.size();
  time.self_s.assign(paths, 0);
  if (group) {
    for (const PageCell& cell : data.cells)
      if (cell.group == *group) time.self_s[cell.path] += double{cell.self_s} - double{cell.helper_idle_s};
  } else {
    for (std::size_t path = 0; path < paths; ++path) {
      const CategorySeconds& self = data.paths[path].self_s;
      time.self_s[path] = std::accumulate(self.begin(), self.end(), 0.0) - data.paths[path].helper_idle_s;
    }
  }
  for (double& self : time.self_s) self = std::max(self, 0.0);  // rounding
  time.total_s = time.self_s;
  for (std::size_t path = paths; path-- > 1;) time.total_s[data.paths[path].parent] += time.total_s[path];

  time.functions.assign(data.functions.size(), {});
  std::vector<std::uint32_t> entered(data.functions.size(), 0);  // how many paths of a function are open
  std::vector<std::uint32_t> open;                               // the paths from the root to the current one
  for (std::uint32_t path = 1; path < paths; ++path) {
    while (!open.empty() && open.back() != data.paths[path].parent) {
      const std::uint32_t left = function_of(data, open.back());
      if (left != shard::kNone) --entered[left];
      open.pop_back();
    }
    open.push_back(path);
    const std::uint32_t function = function_of(data, path);
    if (function == shard::kNone) continue;
    time.functions[function].self_s += time.self_s[path];
    if (entered[function]++ == 0) time.functions[function].total_s += time.total_s[path];
  }
  return time;
}

// What the report has of a function, of the chosen part of its call paths. Own time and what is below it are
// taken apart, so that the own time is never more than the total. `overall`: the part of all time that was
// chosen, for what has no call path of its own.
FunctionSeconds part_of(const FunctionRow& row, const FunctionSeconds& chosen, const FunctionSeconds& whole,
                        double overall) {
  const auto part = [&](double of_s, double all_s) {
    return all_s > 1e-9 ? std::max(of_s, 0.0) / all_s : overall;
  };
  const double self_s = row.active_self_s * part(chosen.self_s, whole.self_s);
  const double below_s = std::max(row.active_total_s - row.active_self_s, 0.0);
  return {self_s, self_s + below_s * part(chosen.total_s - chosen.self_s, whole.total_s - whole.self_s)};
}

}  // namespace

SelectedTime selected_time(const Analysis& analysis, const PageData& data,
                           std::optional<std::uint32_t> group) {
  SelectedTime time = path_times(data, group);
  const SelectedTime whole = group ? path_times(data, {}) : time;
  const double overall = whole.all_s() > 0 ? time.all_s() / whole.all_s() : 0;
  for (std::size_t i = 0; i < data.functions.size(); ++i)
    if (const std::uint32_t row = data.functions[i].row; row < analysis.functions.size())
      time.functions[i] = part_of(analysis.functions[row], time.functions[i], whole.functions[i], overall);
  return time;
}

Neighbours neighbours(const PageData& data, const SelectedTime& time, std::uint32_t function) {
  std::map<std::uint32_t, double> callers, callees;
  double total_s = 0;
  struct Open {
    std::uint32_t path = 0;
    std::uint32_t nearest = shard::kNone;  // function of it or of the nearest path above that is of one
    bool below = false;                    // the function is further out
  };
  std::vector<Open> open;  // the paths from the root to the current one
  std::vector<std::uint32_t> entered(data.functions.size(),
                                     0);  // of a function below `function`, as many as are open
  for (std::uint32_t path = 1; path < data.paths.size(); ++path) {
    while (!open.empty() && open.back().path != data.paths[path].parent) {
      const std::uint32_t left = function_of(data, open.back().path);
      if (left != shard::kNone && open.back().below) --entered[left];
      open.pop_back();
    }
    const Open above = open.empty() ? Open() : open.back();
    const std::uint32_t own = function_of(data, path), caller = above.nearest;
    const bool below = above.below || (!open.empty() && function_of(data, above.path) == function);
    open.push_back({path, own == shard::kNone ? caller : own, below});
    if (own == shard::kNone) continue;
    if (time.total_s[path] > 0) {
      if (own == function && !below) total_s += time.total_s[path];
      if (own == function && caller != function && !below) callers[caller] += time.total_s[path];
      // Of two calls of the same callee on one path the outer one has the time of both.
      if (caller == function && own != function && entered[own] == 0) callees[own] += time.total_s[path];
    }
    if (below) ++entered[own];
  }
  return {largest_first(callers), largest_first(callees), total_s};
}

}  // namespace clusterprof::report
