// SPDX-License-Identifier: BSD-3-Clause
// Ranks with their times by category.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class RanksView final : public View {
 public:
  explicit RanksView(const Run& run) : run_(run) {}

  std::string title() const override { return "Ranks"; }
  std::string keys() const override { return "s sort  r reverse  Enter look at this rank alone"; }

  void refresh(std::string_view filter) override {
    items_.clear();
    double most_s = 0;
    for (std::uint32_t row = 0; row < run_.analysis.ranks.size(); ++row) {
      const RankInfo& rank = run_.analysis.ranks[row];
      most_s = std::max(most_s, rank.elapsed_s);
      if (filter == std::to_string(rank.rank) || matches(node(rank), filter)) items_.push_back(row);
    }
    scale_ = TimeScale(most_s);
    if (sort_ != kByRank || reversed_) {
      std::stable_sort(items_.begin(), items_.end(), [&](std::uint32_t a, std::uint32_t b) {
        return reversed_ ? key(a) < key(b) : key(a) > key(b);
      });
    }
  }
  std::size_t size() const override { return items_.size(); }

  Spans heading(std::size_t columns) const override {
    const auto mark = [&](std::string_view title, int sort) {
      return cell(fmt::format("{}{}", sort_ == sort ? (reversed_ ? "^" : "v") : "", title));
    };
    return {{mark("rank", kByRank) + mark(fmt::format("ran {}", scale_.unit()), kByElapsed) +
                 mark("useful", kByUseful) + mark("MPI wt.", kByWait) + mark("memory", kByMemory) +
                 pad_right("categories", bar_width(columns)) + " node",
             Style::kDim}};
  }

  Spans render(std::size_t item, std::size_t columns) const override {
    const RankInfo& rank = run_.analysis.ranks[items_[item]];
    Spans spans{
        {cell(std::to_string(rank.rank)) + time_cell(scale_, rank.elapsed_s) +
             time_cell(scale_, rank.useful_s) + time_cell(scale_, rank.mpi_wait_s) +
             cell(rank.max_rss_bytes ? bytes(static_cast<double>(*rank.max_rss_bytes)) : "-", kNumber + 1)
                 .substr(1),
         rank.lost ? Style::kBad : Style::kPlain}};
    append(spans, stacked_bar(rank.category_s, rank.recorded_s, bar_width(columns)));
    spans.push_back({" " + shorten(rank.lost ? "lost, " + node(rank) : node(rank), kNode), Style::kDim});
    return spans;
  }

  ViewRequest open(std::size_t item) override { return {ViewRequest::Kind::kRanks, 0, {}, 0, items_[item]}; }
  bool letter(std::string_view text, std::size_t& item) override {
    if (text == "s") sort_ = (sort_ + 1) % kSorts;
    if (text == "r") reversed_ = !reversed_;
    if (text != "s" && text != "r") return false;
    item = 0;
    return true;
  }

 private:
  enum { kByRank, kByElapsed, kByUseful, kByWait, kByMemory, kSorts };
  static constexpr std::size_t kNode = 12;
  static std::size_t bar_width(std::size_t columns) { return rest_of(columns, 5 * kNumber + kNode + 1); }

  std::string node(const RankInfo& rank) const {
    return rank.node < run_.analysis.nodes.size() ? printable(run_.analysis.nodes[rank.node].name) : "";
  }
  double key(std::uint32_t row) const {
    const RankInfo& rank = run_.analysis.ranks[row];
    switch (sort_) {
      case kByElapsed:
        return rank.elapsed_s;
      case kByUseful:
        return rank.useful_s.value_or(-1);
      case kByWait:
        return rank.mpi_wait_s.value_or(-1);
      case kByMemory:
        return rank.max_rss_bytes ? static_cast<double>(*rank.max_rss_bytes) : -1;
      default:
        return -rank.rank;
    }
  }

  const Run& run_;
  std::vector<std::uint32_t> items_;
  int sort_ = kByRank;
  bool reversed_ = false;
  TimeScale scale_{1};
};

}  // namespace

std::unique_ptr<View> ranks_view(const Run& run) { return std::make_unique<RanksView>(run); }

}  // namespace clusterprof::report::tui
