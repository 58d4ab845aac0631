// SPDX-License-Identifier: BSD-3-Clause
// The section of the text report on waiting.
#include "report/text/waiting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kFewRows = 3;
constexpr std::size_t kTimeLineName = 17;
constexpr double kHelpersWait = 0.01;  // of the main threads' waiting; said from here
constexpr double kNegligible = 0.001;  // of the whole table; left out beyond the first rows

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string percent_cell(double part, double whole) {
  return fmt::format("{:.1f}", 100 * share_of(part, whole));
}

class Waits {
 public:
  Waits(Page& page, const Analysis& analysis, const ShortPaths& paths, const WaitsOptions& options)
      : page_(page), a_(analysis), paths_(paths), options_(options), scale_(0) {
    for (const WaitRow& row : a_.waits) total_s_ += row.wait_s;
    double longest = total_s_;
    for (const RootCauseRow& row : a_.root_causes) longest = std::max(longest, row.wait_s);
    scale_ = TimeScale(longest);
  }

  void print() {
    heading();
    if (!a_.waits.empty()) {
      kinds();
      root_causes();
      if (options_.full) delays();
    }
    if (options_.full) {
      critical_path();
      time_line();
    }
    quality();
  }

 private:
  void heading() {
    const double wait_s = a_.mpi_wait_s.value_or(0);  // like MPI time, of main threads
    std::string remark = fmt::format("in {}; {}", scale_.unit(), seconds(wait_s));
    if (a_.mpi_transfer_s) remark += fmt::format(" of {} in MPI", seconds(wait_s + *a_.mpi_transfer_s));
    if (a_.rank_seconds > 0)
      remark += fmt::format(", {} of all rank time", percent(share_of(wait_s, a_.rank_seconds)));
    page_.section("Waiting for other ranks", remark);
    if (a_.waits.empty()) page_.line("  No waiting was found.");
    if (total_s_ > wait_s * (1 + kHelpersWait))
      page_.line(fmt::format("  of all threads, as below: {}", seconds(total_s_)), Style::kDim);
  }

  void title(std::string_view text) {
    page_.blank();
    page_.line(fmt::format("  {}", text), Style::kDim);
  }

  // How many of the rows, largest first, to show.
  template <typename Row>
  std::size_t worth_showing(const std::vector<Row>& rows, double Row::*value, double whole) const {
    std::size_t shown = std::min(options_.full ? options_.rows : kFewRows, rows.size());
    while (shown > kFewRows && rows[shown - 1].*value < kNegligible * whole) --shown;
    return shown;
  }

  void note_the_rest(std::size_t shown, std::size_t all) {
    if (all > shown) page_.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
  }

  void kinds() {
    struct Kind {
      double wait_s = 0, max_s = 0;
      std::uint64_t count = 0;
      std::size_t ranks = 0;
      std::int32_t max_rank = -1;
      shard::WaitKind kind{};
    };
    std::array<Kind, shard::kWaitKinds> sums{};
    for (const WaitRow& row : a_.waits) {
      Kind& sum = sums[static_cast<std::size_t>(row.kind)];
      sum.kind = row.kind;
      sum.wait_s += row.wait_s;
      sum.count += row.count;
      if (sum.ranks++ == 0 || row.wait_s > sum.max_s) sum.max_s = row.wait_s, sum.max_rank = row.rank;
    }
    std::stable_sort(sums.begin(), sums.end(),
                     [](const Kind& x, const Kind& y) { return x.wait_s > y.wait_s; });
    Table table({{"kind", Align::kLeft}, {"wait"}, {"%"}, {"count"}, {"ranks"}, {"max"}, {"@rank"}});
    for (const Kind& sum : sums)
      if (sum.ranks != 0)
        table.row({wait_kind(sum.kind), scale_(sum.wait_s), percent_cell(sum.wait_s, total_s_),
                   count(static_cast<double>(sum.count)), std::to_string(sum.ranks), scale_(sum.max_s),
                   std::to_string(sum.max_rank)});
    table.print(page_);
  }

  void root_causes() {
    if (a_.root_causes.empty()) return;
    title("Root causes: who made others wait, directly or through others");
    const std::size_t all = a_.root_causes.size();
    const std::size_t shown = worth_showing(a_.root_causes, &RootCauseRow::wait_s, total_s_);
    const auto build = [&](std::size_t room) {
      Table table({{"wait"}, {"%"}, {"ranks"}, {"rank"}, {"was in", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const RootCauseRow& row = a_.root_causes[i];
        table.row({scale_(row.wait_s), percent_cell(row.wait_s, total_s_),
                   fmt::format("{}{}", row.at_least ? ">=" : "", row.waiting_ranks), std::to_string(row.rank),
                   room == 0 ? "" : describe(a_.places[row.place], paths_, room)});
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all);
  }

  // The largest ones, those of one call site together.
  void delays() {
    const std::size_t shown = worth_showing(a_.delays, &DelayRow::wait_s, total_s_);
    title("Who waited where for whom");
    const auto who_waited = [](const DelayRow& row) {
      return row.waiting_ranks == 1 ? fmt::format("rank {}", row.waiting_rank)
                                    : plural(row.waiting_ranks, "rank");
    };
    std::size_t who_width = 3;
    for (std::size_t i = 0; i < shown; ++i) who_width = std::max(who_width, who_waited(a_.delays[i]).size());
    const auto numbers = [&](std::string_view wait, std::string_view share, std::string_view number,
                             std::string_view who) {
      return fmt::format("  {}{}{}  {}  ", pad_left(wait, 8), pad_left(share, 7), pad_left(number, 8),
                         pad_right(who, who_width));
    };
    page_.line(numbers("wait", "%", "count", "who") + "for", Style::kDim);
    std::vector<bool> done(shown, false);
    for (std::size_t first = 0; first < shown; ++first) {
      if (done[first]) continue;
      const DelayRow& head = a_.delays[first];
      const std::string kind = fmt::format("  {}", wait_kind(head.kind));
      page_.line(
          {{fmt::format("  {}", describe(a_.places[head.site], paths_, page_.width() - 2 - kind.size())),
            Style::kMpi},
           {kind, Style::kDim}});
      for (std::size_t i = first; i < shown; ++i) {
        const DelayRow& row = a_.delays[i];
        if (done[i] || row.site != head.site || row.kind != head.kind) continue;
        done[i] = true;
        const std::string start =
            numbers(scale_(row.wait_s), percent_cell(row.wait_s, total_s_),
                    row.count == 0 ? "-" : count(static_cast<double>(row.count)), who_waited(row)) +
            (row.rank ? fmt::format("rank {}", *row.rank) : std::string("a rank that is not known"));
        const std::size_t room = page_.width() - std::min(columns(start) + 4, page_.width());
        page_.line(row.place == 0
                       ? start
                       : fmt::format("{} in {}", start, describe(a_.places[row.place], paths_, room)));
      }
    }
    note_the_rest(shown, a_.delays.size());
  }

  void critical_path() {
    if (a_.critical_path.empty()) return;
    const std::size_t all = a_.critical_path.size();
    double longest = 0, length = 0;
    for (const CriticalRow& row : a_.critical_path) {
      longest = std::max({longest, row.time_s, row.mean_s});
      length += row.time_s;
    }
    const std::size_t shown = worth_showing(a_.critical_path, &CriticalRow::time_s, length);
    const TimeScale scale(longest);
    title(fmt::format("Critical path: where its {} went, in {}", seconds(length), scale.unit()));
    const auto build = [&](std::size_t room) {
      Table table({{"time"}, {"%"}, {"mean"}, {"x mean"}, {"@rank"}, {"in", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const CriticalRow& row = a_.critical_path[i];
        const bool known = row.place != 0;
        table.row({scale(row.time_s), fmt::format("{:.1f}", 100 * row.share), known ? scale(row.mean_s) : "-",
                   known && row.mean_s > 0 ? fmt::format("{:.2f}", row.time_s / row.mean_s) : "-",
                   std::to_string(row.max_rank),
                   room == 0 ? "" : describe(a_.places[row.place], paths_, room)});
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all);
    page_.line("  mean: over all ranks, without waiting; @rank: has most of the time", Style::kDim);
  }

  void time_line() {
    if (a_.windows.empty()) return;
    const double ranks = std::max<double>(1, static_cast<double>(a_.ranks.size()));
    const auto any = [&](auto&& has) { return std::any_of(a_.windows.begin(), a_.windows.end(), has); };
    std::vector<TimeLine> lines;
    const auto line = [&](std::string_view name, auto&& value) {
      TimeLine& made = lines.emplace_back();
      made.name = name;
      for (const WindowRow& window : a_.windows) made.shares.emplace_back(value(window));
    };
    // Those of MPI and of OpenMP's threads are factors of both together.
    const bool hybrid = any([](const WindowRow& w) { return w.openmp_parallel.has_value(); });
    if (hybrid) {
      line("hybrid", [](const WindowRow& w) { return w.hybrid_parallel; });
      line("  OpenMP", [](const WindowRow& w) { return w.openmp_parallel; });
    }
    line(hybrid ? "  MPI" : "parallel", [](const WindowRow& w) { return w.parallel; });
    line(hybrid ? "  load balance" : "load balance", [](const WindowRow& w) { return w.load_balance; });
    line(hybrid ? "  communication" : "communication", [](const WindowRow& w) { return w.communication; });
    line("waiting", [&](const WindowRow& w) { return w.wait_s / ((w.end_s - w.begin_s) * ranks); });
    print_time_lines(page_, spans_of(a_.windows), lines, true, options_.unicode);
  }

  void quality() {
    const WaitQuality& q = *a_.wait_quality;
    const auto number = [](std::uint64_t value) { return count(static_cast<double>(value)); };
    const auto fact = [this](std::string_view name, std::string_view text, Style style = Style::kDim) {
      page_.paragraph({fmt::format("  {:<{}}", name, kTimeLineName - 2), style}, text);
    };
    page_.blank();
    const std::string matched =
        fmt::format("{}, {}", plural(q.messages, "message"), plural(q.collectives, "collective operation"));
    if (q.event_level == 0)
      fact("analysed",
           fmt::format("{}, {}: {}", q.operations == 1 ? "1 operation" : number(q.operations) + " operations",
                       q.events == 1 ? "1 event" : number(q.events) + " events", matched));
    else
      fact("analysed",
           fmt::format("a sample, about one in {} of {} operations, and scaled: {}",
                       number(std::uint64_t{1} << std::min(q.event_level, 63u)), number(q.operations),
                       matched),
           Style::kWarning);
    if (q.unmatched_messages + q.unmatched_collectives != 0)
      fact("not matched", fmt::format("{}, {}", plural(q.unmatched_messages, "message"),
                                      plural(q.unmatched_collectives, "collective operation")));
    if (a_.nodes.size() > 1)
      fact("clocks",
           q.clock_error_s
               ? fmt::format("known to {} between nodes; shorter waits between nodes are not counted",
                             seconds(*q.clock_error_s))
               : "not comparable between some nodes; waiting between these is not known");
    if (q.clock_violations != 0)
      fact("clocks", fmt::format("{} received before sent, by at most {}",
                                 plural(q.clock_violations, "message"), seconds(q.worst_violation_s)));
  }

  Page& page_;
  const Analysis& a_;
  const ShortPaths& paths_;
  WaitsOptions options_;
  TimeScale scale_;
  double total_s_ = 0;
};

}  // namespace

void print_waits(Page& page, const Analysis& analysis, const ShortPaths& paths, const WaitsOptions& options) {
  if (analysis.wait_quality) Waits(page, analysis, paths, options).print();
}

void print_time_lines(Page& page, const std::vector<TimeSpan>& parts, const std::vector<TimeLine>& lines,
                      bool with_mpi, bool unicode) {
  if (parts.empty() || lines.empty()) return;
  const double begin_s = parts.front().begin_s, length_s = parts.back().end_s - begin_s;
  const std::size_t most = page.width() - kTimeLineName - 4;
  const double steps = std::round(length_s / (parts.front().end_s - begin_s));
  const auto number = static_cast<std::size_t>(std::clamp(steps, 1.0, static_cast<double>(most)));
  const double step_s = length_s / static_cast<double>(number);
  const double none_s = 1e-6 * step_s;  // which is rounding, where a part ends with a step
  title(page, fmt::format("Over time, in {} steps of {}; {}", number, seconds(step_s),
                          unicode ? "full height: 100 %" : "blank . : - = + * % #: 0 to 100 %"));
  for (const auto& [name, of_parts] : lines) {
    std::vector<std::optional<double>> shares;
    for (std::size_t step = 0; step < number; ++step) {
      const double from_s = begin_s + static_cast<double>(step) * step_s, to_s = from_s + step_s;
      double sum = 0, weight = 0;
      const auto first = std::partition_point(parts.begin(), parts.end(),
                                              [&](const TimeSpan& part) { return part.end_s <= from_s; });
      for (auto part = first; part != parts.end() && part->begin_s < to_s; ++part) {
        const double shared = std::min(to_s, part->end_s) - std::max(from_s, part->begin_s);
        const std::optional<double>& share = of_parts[static_cast<std::size_t>(part - parts.begin())];
        if (shared < none_s || !share) continue;
        sum += shared * *share;
        weight += shared;
      }
      shares.insert(shares.end(), most / number,
                    weight > 0 ? std::optional(sum / weight) : std::optional<double>());
    }
    page.line(fmt::format("  {:<{}}{}", name, kTimeLineName - 2, sparkline(shares, unicode)));
  }
  // MPI_Init is left out, too.
  const bool has_gap =
      std::adjacent_find(parts.begin(), parts.end(), [&](const TimeSpan& part, const TimeSpan& next) {
        return next.begin_s - part.end_s > none_s;
      }) != parts.end();
  const bool has_unknown = std::any_of(lines.begin(), lines.end(), [](const TimeLine& line) {
    return std::find(line.shares.begin(), line.shares.end(), std::nullopt) != line.shares.end();
  });
  if (!has_gap && !has_unknown) return;
  const std::string_view why = !with_mpi ? "not recorded"
                               : has_gap ? "not recorded, or nobody was outside MPI"
                                         : "nobody was outside MPI";
  page.line(fmt::format("  ?: {}", why), Style::kDim);
}

std::string sparkline(const std::vector<std::optional<double>>& shares, bool unicode) {
  static constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::string_view kMarks = " .:-=+*%#";
  std::string out = "|";
  for (const std::optional<double>& share : shares) {
    if (!share || std::isnan(*share)) {  // no number in a damaged file
      out += '?';
      continue;
    }
    const auto height = static_cast<std::size_t>(std::lround(std::clamp(*share, 0.0, 1.0) * 8));
    if (unicode)
      out += kBlocks[height];
    else
      out += kMarks[height];
  }
  return out += '|';
}

}  // namespace clusterprof::report::text
