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

// The nearest path above that is of a function; 0: there is none.
std::uint32_t caller_of(const PageData& data, std::uint32_t path) {
  std::uint32_t above = data.paths[path].parent;
  while (above != 0 && function_of(data, above) == shard::kNone) above = data.paths[above].parent;
  return above;
}

bool is_below(const PageData& data, std::uint32_t path, std::uint32_t function) {
  for (std::uint32_t above = data.paths[path].parent; above != 0; above = data.paths[above].parent)
    if (function_of(data, above) == function) return true;
  return false;
}

std::vector<Neighbour> largest_first(const std::map<std::uint32_t, double>& times) {
  std::vector<Neighbour> rows;
  for (const auto& [function, total_s] : times)
    if (total_s > 0) rows.push_back({function, total_s});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Neighbour& a, const Neighbour& b) { return a.total_s > b.total_s; });
  return rows;
}

}  // namespace

SelectedTime selected_time(const PageData& data, std::optional<std::uint32_t> group) {
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

Neighbours neighbours(const PageData& data, const SelectedTime& time, std::uint32_t function) {
  std::map<std::uint32_t, double> callers, callees;
  for (std::uint32_t path = 1; path < data.paths.size(); ++path) {
    if (time.total_s[path] <= 0) continue;
    const std::uint32_t own = function_of(data, path);
    if (own == shard::kNone) continue;
    const std::uint32_t above = caller_of(data, path);
    const std::uint32_t caller = above == 0 ? shard::kNone : function_of(data, above);
    if (own == function && caller != function && !is_below(data, path, function))
      callers[caller] += time.total_s[path];
    // Of two calls of the same callee on one path the outer one has the time of both.
    if (caller == function && own != function) {
      bool inner = false;
      for (std::uint32_t at = above; at != 0 && !inner; at = data.paths[at].parent)
        inner = function_of(data, at) == own && is_below(data, at, function);
      if (!inner) callees[own] += time.total_s[path];
    }
  }
  return {largest_first(callers), largest_first(callees)};
}

}  // namespace clusterprof::report
