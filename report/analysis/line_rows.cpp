// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/line_rows.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace clusterprof::report {

using shard::kCategories;
using shard::kNone;

template <typename Each>
LineRows::Lists::Lists(std::size_t lines, const Each& each) : first_(lines + 1, 0) {
  // After the first pass, first_[line + 1] is the length of the line's list.
  each([&](std::uint32_t line, std::uint32_t /*number*/) { ++first_[line + std::size_t{1}]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  numbers_.resize(first_.back());
  // Each begin moves to the end of its list, which is the begin of the next one.
  each([&](std::uint32_t line, std::uint32_t number) { numbers_[first_[line]++] = number; });
  std::copy_backward(first_.begin(), first_.end() - 1, first_.end());
  first_.front() = 0;
}

LineRows::LineRows(const CallPaths& paths, const PathTime& time, const FunctionTime& functions,
                   const PathCounts& counts, const RankOrder& ranks, std::vector<InclusiveTime> inclusive)
    : paths_(paths),
      time_(time),
      functions_(functions),
      counts_(counts),
      ranks_(ranks),
      inclusive_(std::move(inclusive)),
      cells_(inclusive_.size(),
             [&](const auto& put) {
               for (std::uint32_t cell = 0; cell < time.cells().size(); ++cell)
                 if (const std::uint32_t line = functions.charge(cell).line; line != kNone) put(line, cell);
             }),
      counted_paths_(inclusive_.size(), [&](const auto& put) {
        for (std::uint32_t path = 0; path < paths.size(); ++path)
          if (const std::uint32_t line = counts.line(path); line != kNone) put(line, path);
      }) {
  sort();
}

void LineRows::sort() {
  std::vector<double> self_s(inclusive_.size());
  for (std::uint32_t line = 0; line < inclusive_.size(); ++line) {
    if (inclusive_[line].all_ns == 0) continue;
    order_.push_back(line);
    std::uint64_t self_ns = 0;
    for (const std::uint32_t cell : cells_.of(line))
      self_ns += time_.observed_main_ns(cell) + time_.observed_helper_ns(cell);
    self_s[line] = to_seconds(self_ns);
  }
  order_.shrink_to_fit();
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (self_s[a] != self_s[b]) return self_s[a] > self_s[b];
    const double total_a_s = to_seconds(inclusive_[a].all_ns), total_b_s = to_seconds(inclusive_[b].all_ns);
    if (total_a_s != total_b_s) return total_a_s > total_b_s;
    const shard::Frame &x = *paths_.lines()[a], &y = *paths_.lines()[b];
    return std::tie(paths_.text(x.file), x.line, paths_.text(x.name), a) <
           std::tie(paths_.text(y.file), y.line, paths_.text(y.name), b);
  });
}

LineRow LineRows::operator[](std::size_t at) const {
  const std::uint32_t line = order_[at];
  const shard::Frame& frame = *paths_.lines()[line];
  LineRow row;
  row.id = line;
  row.file = paths_.text(frame.file);
  row.function = paths_.text(frame.name);
  row.line = frame.line;

  std::uint64_t self_ns = 0, active_ns = 0, main_self_ns = 0, cpu_ns = 0, called_ns = 0, approximate_ns = 0;
  std::array<std::uint64_t, kCategories> category_ns{};
  ActivityTimes activity_ns{}, active_activity_ns{};
  for (const std::uint32_t cell : cells_.of(line)) {
    const FunctionTime::Charge& charge = functions_.charge(cell);
    const std::uint64_t main_ns = time_.observed_main_ns(cell);
    const std::uint64_t all_ns = main_ns + time_.observed_helper_ns(cell);
    const std::uint64_t here_active_ns = charge.is_work ? all_ns : main_ns;
    self_ns += all_ns;
    active_ns += here_active_ns;
    main_self_ns += main_ns;
    cpu_ns += time_.cpu_ns(cell);
    const std::uint32_t source = paths_.source(charge.path);
    if (source != charge.path) called_ns += all_ns;
    if (const shard::Frame* const place = paths_.frame(source); place != nullptr && place->line_approximate)
      approximate_ns += all_ns;
    category_ns[static_cast<std::size_t>(time_.cells()[cell].category)] += all_ns;
    activity_ns[index(charge.activity)] += all_ns;
    active_activity_ns[index(charge.activity)] += here_active_ns;
  }
  row.self_s = to_seconds(self_ns);
  row.total_s = to_seconds(inclusive_[line].all_ns);
  row.cpu_s = to_seconds(cpu_ns);
  row.called_s = to_seconds(called_ns);
  row.approximate_s = to_seconds(approximate_ns);
  give_seconds(category_ns, row.category_s);
  give_seconds(activity_ns, row.activity_s);
  give_seconds(active_activity_ns, row.active_activity_s);
  row.active_self_s = to_seconds(active_ns);
  row.active_total_s = to_seconds(inclusive_[line].active_ns);
  row.main_self_s = to_seconds(main_self_ns);
  row.main_total_s = to_seconds(inclusive_[line].main_ns);
  row.active_spread = ranks_.spread(active_ns, functions_.active_time_of_line(line));
  counts_.add_up(counted_paths_.of(line), row.counters);
  return row;
}

}  // namespace clusterprof::report
