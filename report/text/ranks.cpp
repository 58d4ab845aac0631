// SPDX-License-Identifier: BSD-3-Clause
// The section on ranks: one by one where they are few, else how their values are spread and which ranks are
// outliers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using shard::kCategories;
using shard::kCategoryNames;
using Align = Table::Align;

constexpr std::size_t kMaxRanksShown = 16;  // one by one
constexpr std::size_t kOutliers = 5;
constexpr std::size_t kWideRanks = 100;  // columns of the page
// "runnable" is too wide for a column: "ready".
constexpr auto kRunnable = static_cast<std::size_t>(shard::Category::kRunnable);

class RanksSection : private Section {
 public:
  using Section::Section;

  void print() {
    if (!worth(!a_.ranks.empty(), "Ranks", "There are none.")) return;
    std::string legend;
    for (const std::size_t c : kBarOrder)
      legend += fmt::format("{}{} {}", legend.empty() ? "" : "  ", category_letter(c), kCategoryNames[c]);
    page_.section("Ranks", legend);
    if (a_.ranks.size() <= kMaxRanksShown) {
      std::vector<const RankInfo*> all;
      for (const RankInfo& rank : a_.ranks) all.push_back(&rank);
      bars(all);
      page_.blank();
      each_rank();
    } else {
      distributions();
      outliers();
    }
  }

 private:
  void bars(const std::vector<const RankInfo*>& shown) {
    std::size_t rank_width = 4, node_width = 4;
    for (const RankInfo* rank : shown) {
      rank_width = std::max(rank_width, std::to_string(rank->rank).size());
      node_width = std::max(node_width, std::min<std::size_t>(columns(node_name(*rank)), 16));
    }
    const std::size_t used = rank_width + node_width + 20;
    const std::size_t bar_width = page_.width() > used ? page_.width() - used : 1;
    double longest = a_.run.elapsed_s;
    for (const RankInfo* rank : shown) longest = std::max(longest, rank->elapsed_s);
    for (const RankInfo* rank : shown) {
      std::vector<Span> spans{
          {fmt::format("  {:>{}}  {}  |", rank->rank, rank_width,
                       pad_right(shorten_middle(node_name(*rank), node_width), node_width))}};
      for (Span& span : stacked_bar(rank->category_s, longest, bar_width)) spans.push_back(std::move(span));
      spans.push_back({"|"});
      if (rank->rank == a_.slowest_rank) spans.push_back({" slowest", slowest_style()});
      page_.line(spans);
    }
  }

  // One rank is always the slowest. It is marked only where that matters.
  Style slowest_style() const {
    const double excess_s = a_.max_useful_s.value_or(0) - a_.mean_useful_s.value_or(0);
    return share_of(excess_s, a_.focus_s) < thresholds::kImbalance ? Style::kPlain : Style::kWarning;
  }

  std::string node_name(const RankInfo& rank) const {
    return rank.node < a_.nodes.size() ? printable(a_.nodes[rank.node].name) : "?";
  }

  struct Quantity {
    std::string name;
    std::function<Seconds(const RankInfo&)> of;
    std::function<std::string(double)> shown;
  };

  // The times that are known of ranks, all in one unit.
  std::pair<std::vector<Quantity>, TimeScale> times() const {
    double longest = 0;
    for (const RankInfo& rank : a_.ranks)
      longest = std::max({longest, rank.elapsed_s, rank.cpu_s.value_or(0)});
    const TimeScale scale(longest);
    std::vector<Quantity> list{{"elapsed", [](const RankInfo& r) { return Seconds(r.elapsed_s); }, scale}};
    for (std::size_t c = 0; c < kCategories; ++c)
      list.push_back({c == kRunnable ? "ready" : kCategoryNames[c],
                      [c](const RankInfo& r) { return r.category_s[c]; }, scale});
    if (std::any_of(a_.ranks.begin(), a_.ranks.end(), [](const RankInfo& r) { return r.paused_s > 0; }))
      list.push_back({"paused", [](const RankInfo& r) { return Seconds(r.paused_s); }, scale});
    list.push_back({"useful", [](const RankInfo& r) { return r.useful_s; }, scale});
    if (a_.mpi_wait_s && page_.width() >= kWideRanks)
      list.push_back({"waiting", [](const RankInfo& r) { return r.mpi_wait_s; }, scale});
    list.push_back({"cpu", [](const RankInfo& r) { return r.cpu_s; }, scale});
    return {std::move(list), scale};
  }

  struct Distribution {
    double min = 0, mean = 0, max = 0;
    const RankInfo* max_rank = nullptr;  // null: no rank knows it
  };

  Distribution distribution(const Quantity& quantity) const {
    Distribution d;
    std::size_t number = 0;
    for (const RankInfo& rank : a_.ranks) {
      const Seconds value = quantity.of(rank);
      if (!value) continue;
      if (d.max_rank == nullptr || *value > d.max) d.max = *value, d.max_rank = &rank;
      d.min = number == 0 ? *value : std::min(d.min, *value);
      d.mean += *value;
      ++number;
    }
    if (number > 0) d.mean /= static_cast<double>(number);
    return d;
  }

  // What no rank has makes room for what some have.
  void leave_out_zeros(std::vector<Quantity>& quantities, const TimeScale& scale) const {
    std::size_t width = 6;  // of "  rank"
    for (const Quantity& quantity : quantities)
      width += 2 + std::max(quantity.name.size(), scale(distribution(quantity).max).size());
    if (width <= page_.width()) return;
    std::erase_if(quantities, [&](const Quantity& quantity) {
      const Distribution d = distribution(quantity);
      return quantity.name != "elapsed" && quantity.name != "useful" && d.max_rank != nullptr &&
             scale(d.max) == scale(0);
    });
  }

  void each_rank() {
    auto [quantities, scale] = times();
    leave_out_zeros(quantities, scale);
    std::vector<Table::Column> columns{{"rank"}};
    for (const Quantity& quantity : quantities)
      columns.push_back({quantity.name, Align::kRight, quantity.name != "mpi" && quantity.name != "useful"});
    Table table(columns);
    for (const RankInfo& rank : a_.ranks) {
      std::vector<std::string> cells{std::to_string(rank.rank)};
      for (const Quantity& quantity : quantities) cells.push_back(seconds_cell(quantity.of(rank), scale));
      table.row(std::move(cells), rank.rank == a_.slowest_rank ? slowest_style() : Style::kPlain);
    }
    if (a_.ranks.size() > 1) {
      std::vector<std::string> min{"min"}, mean{"mean"}, max{"max"}, who{"@rank"};
      for (const Quantity& quantity : quantities) {
        const Distribution d = distribution(quantity);
        const bool known = d.max_rank != nullptr;
        min.push_back(known ? scale(d.min) : "-");
        mean.push_back(known ? scale(d.mean) : "-");
        max.push_back(known ? scale(d.max) : "-");
        who.push_back(known ? std::to_string(d.max_rank->rank) : "-");
      }
      for (auto* row : {&min, &mean, &max, &who}) table.row(std::move(*row), Style::kDim);
    }
    table.print(page_);
    page_.line(fmt::format("  in {}; ready: runnable; useful: outside MPI, not ready; cpu: all threads",
                           scale.unit()),
               Style::kDim);
    page_.blank();
    processes();
  }

  // Each rank as a process: its id, threads, samples, memory, and how it ended.
  void processes() {
    Table table({{"rank"},
                 {"pid"},
                 {"threads"},
                 {"samples", Align::kRight, true},
                 {"max rss"},
                 {"read", Align::kRight, true},
                 {"written", Align::kRight, true},
                 {"ended", Align::kLeft}});
    const auto size_cell = [](const std::optional<std::uint64_t>& value) {
      return value ? bytes(static_cast<double>(*value)) : std::string("-");
    };
    for (const RankInfo& rank : a_.ranks) {
      const std::string ended = ending(rank);
      table.row({std::to_string(rank.rank), std::to_string(rank.pid), std::to_string(rank.threads),
                 count(static_cast<double>(rank.samples)), size_cell(rank.max_rss_bytes),
                 size_cell(rank.read_bytes), size_cell(rank.write_bytes), ended},
                rank.exit_signal || rank.lost ? Style::kBad : Style::kPlain);
    }
    table.print(page_);
  }

  static std::string ending(const RankInfo& rank) {
    if (rank.exit_signal) return signal_name(*rank.exit_signal);
    if (rank.lost && rank.exit_status.value_or(0) == 0) return "lost";
    if (rank.exit_status) return fmt::format("exit {}", *rank.exit_status);
    if (rank.still_ran) return "running";
    return "-";
  }

  void distributions() {
    auto [quantities, scale] = times();
    const auto optional_bytes = [](const std::optional<std::uint64_t>& v) {
      return v ? Seconds(static_cast<double>(*v)) : Seconds();
    };
    quantities.push_back(
        {"max rss", [=](const RankInfo& r) { return optional_bytes(r.max_rss_bytes); }, bytes});
    quantities.push_back({"read", [=](const RankInfo& r) { return optional_bytes(r.read_bytes); }, bytes});
    quantities.push_back(
        {"written", [=](const RankInfo& r) { return optional_bytes(r.write_bytes); }, bytes});

    Table table(
        {{scale.unit(), Align::kLeft}, {"min"}, {"mean"}, {"max"}, {"@rank"}, {"node", Align::kLeft}});
    for (const Quantity& quantity : quantities) {
      const Distribution d = distribution(quantity);
      if (d.max_rank == nullptr) continue;
      table.row({quantity.name, quantity.shown(d.min), quantity.shown(d.mean), quantity.shown(d.max),
                 std::to_string(d.max_rank->rank), node_name(*d.max_rank)});
    }
    table.print(page_);
  }

  void outliers() {
    const bool mpi = a_.mean_useful_s.has_value();
    const double mean =
        mpi ? *a_.mean_useful_s : share_of(a_.rank_seconds, static_cast<double>(a_.ranks.size()));
    const auto distance = [&](const RankInfo* rank) {
      return std::abs((mpi ? rank->useful_s.value_or(mean) : rank->elapsed_s) - mean);
    };
    std::vector<const RankInfo*> furthest;
    for (const RankInfo& rank : a_.ranks) furthest.push_back(&rank);
    std::stable_sort(furthest.begin(), furthest.end(),
                     [&](const RankInfo* x, const RankInfo* y) { return distance(x) > distance(y); });
    furthest.resize(std::min(furthest.size(), kOutliers));
    page_.blank();
    page_.line(fmt::format("  furthest from the mean of {} ({}):", mpi ? "useful time" : "elapsed time",
                           seconds(mean)),
               Style::kDim);
    bars(furthest);
  }
};

}  // namespace

void print_ranks(Report& report) { RanksSection(report).print(); }

}  // namespace clusterprof::report::text
