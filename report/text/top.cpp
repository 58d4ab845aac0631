// SPDX-License-Identifier: BSD-3-Clause
#include "report/top.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/table.hpp"
#include "report/words/hang.hpp"
#include "report/words/run_state.hpp"
#include "report/words/where_now.hpp"

namespace clusterprof::report {

using namespace format;
using namespace text;

namespace {

constexpr std::size_t kMostRanks = 40, kMostHot = 10;
constexpr std::size_t kBarWidth = 16, kNumberWidth = 9, kNodeWidth = 12;

class TopText {
 public:
  TopText(const Top& top, const TextOptions& options)
      : top_(top),
        names_(top.run),
        page_(static_cast<std::size_t>(std::max(options.width, 40)), options.colour) {}

  std::string print() {
    const RunInfo& run = top_.run.run;
    page_.line({{printable(run.id), Style::kTitle},
                {fmt::format(", {}: {}", words::state(run), ranks_and_nodes(run)), Style::kPlain}});
    if (run.state != RunState::kRunning)
      page_.line("This is its last state; the report has the whole run.", Style::kWarning);
    else if (!top_.window_s)
      page_.line("Nothing is known of the last seconds: its nodes have not told in time.", Style::kWarning);
    if (const std::string wrong = words::what_is_wrong(top_.run, names_); !wrong.empty()) {
      page_.blank();
      page_.paragraph({"", Style::kPlain}, wrong);
    }
    if (top_.nodes.size() > 1) nodes();
    ranks();
    functions();
    lines();
    return page_.take();
  }

 private:
  static std::string number(std::string_view text, std::size_t width = kNumberWidth) {
    return pad_left(text, width - 1) + " ";
  }
  static std::string amount(const std::optional<std::uint64_t>& value) {
    return number(value ? bytes(static_cast<double>(*value)) : "-");
  }
  static std::string time(const Seconds& value) { return number(value ? seconds(*value) : "-"); }
  [[nodiscard]] std::string window() const {
    if (!top_.window_s) return "";
    return top_.run.run.state == RunState::kEnded ? "the whole run"
                                                  : fmt::format("the last {}", seconds(*top_.window_s));
  }
  static std::vector<Span> with_bar(std::string before, const OptionalCategorySeconds& categories,
                                    const Seconds& whole_s, std::string behind) {
    std::vector<Span> spans{{std::move(before), Style::kPlain}};
    for (Span& span : stacked_bar(categories, whole_s.value_or(0), kBarWidth))
      spans.push_back(std::move(span));
    spans.push_back({" " + std::move(behind), Style::kPlain});
    return spans;
  }

  void nodes() {
    page_.section("Nodes", window());
    page_.line(pad_right("node", kNodeWidth) + " " + pad_right("categories", kBarWidth) + " " +
                   number("ranks") + number("still") + number("memory") + number("used") + number("limit") +
                   "data",
               Style::kDim);
    for (std::size_t i = 0; i < top_.nodes.size(); ++i) {
      const NodeInfo& info = top_.run.nodes[i];
      const TopNode& node = top_.nodes[i];
      const Seconds whole_s = node.window_s > 0 ? Seconds(node.window_s) : Seconds();
      page_.line(with_bar(
          pad_right(shorten(printable(info.name), kNodeWidth), kNodeWidth) + " ", node.category_s, whole_s,
          number(std::to_string(info.ranks.size())) + number(std::to_string(node.still)) +
              amount(node.rss_bytes) + amount(node.memory_used_bytes) + amount(node.memory_limit_bytes) +
              (info.as_of_s ? seconds(*info.as_of_s) + " old" : name_of(info.state))));
    }
  }

  // Of many, those that have not moved for longest.
  void ranks() {
    std::string legend;
    for (const std::size_t c : kBarOrder)
      legend +=
          fmt::format("{}{} {}", legend.empty() ? "" : "  ", category_letter(c), shard::kCategoryNames[c]);
    page_.section("Ranks", top_.nodes.size() > 1 ? "" : window());
    page_.line(legend, Style::kDim);
    page_.line(number("rank", 7) + pad_right("categories", kBarWidth) + " " + number("memory") +
                   number("still") + "where",
               Style::kDim);
    std::vector<std::size_t> shown(top_.ranks.size());
    std::iota(shown.begin(), shown.end(), std::size_t{0});
    if (shown.size() > kMostRanks)
      std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
        return top_.ranks[a].unmoved_s.value_or(0) > top_.ranks[b].unmoved_s.value_or(0);
      });
    for (std::size_t i = 0; i < std::min(shown.size(), kMostRanks); ++i) {
      const TopRank& rank = top_.ranks[shown[i]];
      page_.line(with_bar(
          number(std::to_string(top_.run.ranks[shown[i]].rank), 7), rank.category_s, rank.window_s,
          amount(rank.rss_bytes) + time(rank.unmoved_s) + words::where_now(top_, shown[i], names_).text));
    }
    if (shown.size() > kMostRanks)
      page_.line(fmt::format("       and {} more", shown.size() - kMostRanks), Style::kDim);
  }

  [[nodiscard]] std::string shares(double self_s, double total_s) const {
    const auto share = [&](double part_s) {
      return number(top_.sampled_s > 0 ? percent(part_s / top_.sampled_s) : "-");
    };
    return share(self_s) + share(total_s);
  }

  void functions() {
    if (top_.functions.empty()) return;
    page_.section("Functions", window());
    page_.line(number("self") + number("total"), Style::kDim);
    for (std::size_t i = 0; i < std::min(top_.functions.size(), kMostHot); ++i) {
      const FunctionRow& row = top_.functions[i];
      page_.line(shares(row.self_s, row.total_s) + describe(row, names_));
    }
  }

  void lines() {
    if (top_.lines.empty()) return;
    page_.section("Lines", window());
    page_.line(number("self") + number("total"), Style::kDim);
    for (std::size_t i = 0; i < std::min(top_.lines.size(), kMostHot); ++i) {
      const LineRow& row = top_.lines[i];
      page_.line(shares(row.self_s, row.total_s) + names_.place(row.file, row.line, row.is_approximate()) +
                 "  " + printable(row.function));
    }
  }

  const Top& top_;
  const ShortPaths names_;
  Page page_;
};

}  // namespace

std::string render_top_text(const Top& top, const TextOptions& options) {
  return TopText(top, options).print();
}

}  // namespace clusterprof::report
