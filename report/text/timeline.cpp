// SPDX-License-Identifier: BSD-3-Clause
// The section on what the ranks did over time.
#include "report/analysis/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/text/waiting.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

constexpr std::size_t kMaxRankRows = 16;
constexpr std::size_t kTimelineName = 16;
constexpr std::size_t kTimelineColumns = 60;  // on a page of 80 columns

// The bins of series joined to the columns of a page.
class Columns {
 public:
  Columns(const Timeline& timeline, std::size_t most)
      : timeline_(timeline), number_(std::max<std::size_t>(1, std::min(timeline.bins, most))) {}

  [[nodiscard]] std::size_t size() const { return number_; }
  [[nodiscard]] double seconds_of(std::size_t column) const {
    return static_cast<double>(first(column + 1) - first(column)) * timeline_.bin_s;
  }
  // Adds a row's values of one series: their sum in each column, of a level the largest.
  void add(const TimelineRow& row, std::string_view series, bool level, std::vector<double>& to) const {
    for (const auto& [index, values] : row.values) {
      if (timeline_.series[index] != series) continue;
      for (std::size_t column = 0; column < number_; ++column) {
        double sum = 0;
        for (std::size_t bin = first(column); bin < std::min(first(column + 1), values.size()); ++bin) {
          const auto value = static_cast<double>(values[bin]);
          sum = level ? std::max(sum, value) : sum + value;
        }
        to[column] += sum;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t first(std::size_t column) const { return column * timeline_.bins / number_; }
  const Timeline& timeline_;
  std::size_t number_;
};

using CategoryColumns = std::array<std::vector<double>, shard::kCategories>;

CategoryColumns empty_columns(const Columns& columns) {
  CategoryColumns sums;
  sums.fill(std::vector<double>(columns.size(), 0.0));
  return sums;
}

// A line of letters: in each column the category with most time.
void print_ranks_over_time(Page& page, std::int32_t first, std::int32_t last, const CategoryColumns& sums,
                           std::size_t repeat) {
  std::string who = first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
  if (who.size() > kTimelineName - 3) who = fmt::format("{}-{}", first, last);
  std::vector<Span> spans{{fmt::format("  {:<{}}|", shorten(who, kTimelineName - 3), kTimelineName - 2)}};
  for (std::size_t i = 0; i < sums[0].size(); ++i) {
    std::size_t top = 0;
    for (std::size_t c = 1; c < shard::kCategories; ++c)
      if (sums[c][i] > sums[top][i]) top = c;
    const bool any = sums[top][i] > 0;
    const std::string cell(repeat, any ? category_letter(top) : ' ');
    const Style style = any ? category_style(top) : Style::kPlain;
    if (spans.size() > 1 && spans.back().style == style)
      spans.back().text += cell;
    else
      spans.push_back({cell, style});
  }
  spans.push_back({"|"});
  page.line(spans);
}

// Prints a line for each rank, or for ranges of ranks where there are many. Returns the sums over all ranks.
CategoryColumns print_all_ranks(Page& page, const Timeline& timeline, const Columns& columns,
                                std::size_t repeat) {
  const std::size_t per_row = (timeline.ranks.size() + kMaxRankRows - 1) / kMaxRankRows;
  CategoryColumns all = empty_columns(columns);
  for (std::size_t begin = 0; begin < timeline.ranks.size(); begin += per_row) {
    const std::size_t end = std::min(begin + per_row, timeline.ranks.size());
    CategoryColumns sums = empty_columns(columns);
    for (std::size_t c = 0; c < shard::kCategories; ++c) {
      const std::string series = category_series(c);
      for (std::size_t r = begin; r < end; ++r) columns.add(timeline.ranks[r], series, false, sums[c]);
      for (std::size_t i = 0; i < columns.size(); ++i) all[c][i] += sums[c][i];
    }
    print_ranks_over_time(page, timeline.ranks[begin].rank, timeline.ranks[end - 1].rank, sums, repeat);
  }
  return all;
}

void print_legend(Page& page) {
  std::string legend;
  for (const std::size_t c : kBarOrder)
    legend +=
        fmt::format("{}{} {}", legend.empty() ? "" : "  ", category_letter(c), shard::kCategoryNames[c]);
  page.line("  " + legend, Style::kDim);
  page.line("  (each step shows the category with most time)", Style::kDim);
}

// Shares over time of all ranks together: of each category, of the nodes' processors and memory.
void print_shares_over_time(Page& page, const Analysis& a, const Columns& columns, std::size_t repeat,
                            const CategoryColumns& all, bool unicode) {
  const Timeline& timeline = *a.timeline;
  title(page, unicode ? "all ranks; full height: 100 % of their time"
                      : "all ranks; blank . : - = + * % #: 0 to 100 % of their time");
  const auto band = [&](std::string_view name, const std::vector<double>& values, const auto& whole_of) {
    std::vector<std::optional<double>> shares;
    bool any = false;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const double share = share_of(values[i], whole_of(i));
      any = any || share >= 0.005;
      shares.insert(shares.end(), repeat, share);
    }
    if (any) page.line(fmt::format("  {:<{}}{}", name, kTimelineName - 2, sparkline(shares, unicode)));
  };
  std::vector<double> recorded(columns.size(), 0.0);
  for (const std::vector<double>& category : all)
    std::transform(recorded.begin(), recorded.end(), category.begin(), recorded.begin(), std::plus<>());
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    band(shard::kCategoryNames[c], all[c], [&](std::size_t i) { return recorded[i]; });
  std::vector<double> busy(columns.size(), 0.0), used(columns.size(), 0.0);
  double processors = 0, memory = 0;
  for (const TimelineRow& row : timeline.nodes) {
    columns.add(row, "cpu_busy_ns", false, busy);
    columns.add(row, "memory_used_bytes", true, used);
    processors += a.nodes[row.node].cpus;
    memory += static_cast<double>(a.nodes[row.node].memory_bytes);
  }
  band("nodes' CPUs", busy, [&](std::size_t i) { return columns.seconds_of(i) * 1e9 * processors; });
  band("nodes' memory", used, [&](std::size_t) { return memory; });
}

}  // namespace

void print_timeline(Page& page, const Analysis& a, const ResourceOptions& options) {
  if (!a.timeline || a.timeline->bins == 0) return;
  const Timeline& timeline = *a.timeline;
  const std::size_t wider = page.width() + kTimelineColumns;
  const std::size_t most = wider > 88 ? wider - 80 : 8;
  const Columns columns(timeline, most);
  const std::size_t repeat = most / columns.size();
  const double length_s = static_cast<double>(timeline.bins) * timeline.bin_s;
  page.section("Over time",
               fmt::format("{} in {}, from {} after the start", seconds(length_s),
                           plural(columns.size(), "step"), seconds(std::max(0.0, timeline.begin_s))));
  const CategoryColumns all = print_all_ranks(page, timeline, columns, repeat);
  print_legend(page);
  print_shares_over_time(page, a, columns, repeat, all, options.unicode);
}

}  // namespace clusterprof::report::text
