// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/held_at.hpp"

#include <algorithm>
#include <cstddef>

namespace clusterprof::report {

std::optional<HeldAt> held_at(const Analysis& analysis, double at_s) {
  if (!analysis.memory || analysis.memory->over_time.bins == 0) return std::nullopt;
  const HeldOverTime& time = analysis.memory->over_time;
  const double after_s = at_s - time.begin_s;
  if (after_s < 0 || after_s >= static_cast<double>(time.bins) * time.bin_s) return std::nullopt;
  const auto bin = static_cast<std::size_t>(after_s / time.bin_s);
  HeldAt held;
  held.at_s = at_s;
  held.begin_s = std::max(time.begin_s + static_cast<double>(bin) * time.bin_s, 0.0);
  held.end_s = std::min(time.begin_s + static_cast<double>(bin + 1) * time.bin_s,
                        std::max(analysis.run.lasted_s, held.begin_s));
  for (const HeldOverTime::Row& row : time.rows) {
    if (bin >= row.values.size() || row.values[bin] == 0) continue;
    held.lines.push_back({row.line, row.values[bin]});
    held.bytes += row.values[bin];
  }
  std::stable_sort(held.lines.begin(), held.lines.end(),
                   [](const HeldAt::Line& a, const HeldAt::Line& b) { return a.bytes > b.bytes; });
  if (!analysis.timeline || analysis.timeline->bin_s <= 0) return held;
  const Timeline& timeline = *analysis.timeline;
  const auto series = std::find(timeline.series.begin(), timeline.series.end(), shard::kHeldSeries);
  if (series == timeline.series.end() || at_s < timeline.begin_s) return held;
  const auto number = static_cast<std::uint32_t>(series - timeline.series.begin());
  const auto moment = static_cast<std::size_t>((at_s - timeline.begin_s) / timeline.bin_s);
  for (const TimelineRow& row : timeline.ranks)
    for (const auto& [of, values] : row.values)
      if (of == number && moment < values.size() && values[moment] != 0)
        held.ranks.push_back({row.rank, values[moment]});
  return held;
}

}  // namespace clusterprof::report
