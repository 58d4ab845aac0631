// SPDX-License-Identifier: BSD-3-Clause
// The text report: one method for each section. Sections on files, blocked time, regions, timeline and
// nodes are in resources.cpp, the one on waiting in waiting.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "report/analysis/drops.hpp"
#include "report/analysis/efficiency.hpp"
#include "report/format/format.hpp"
#include "report/report.hpp"
#include "report/text/resources.hpp"
#include "report/text/table.hpp"
#include "report/text/tree.hpp"
#include "report/text/waiting.hpp"
#include "report/words/calls_under_way.hpp"
#include "report/words/drops.hpp"
#include "report/words/findings.hpp"
#include "report/words/notes.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {
namespace {

using namespace text;
using shard::Category;
using shard::kCategories;
using shard::kCategoryNames;
using Align = Table::Align;

constexpr int kNarrowest = 40;               // columns
constexpr std::size_t kMostRanksShown = 16;  // beyond, distributions and outliers
constexpr std::size_t kOutliers = 5;
constexpr double kHelperIdleNote = 0.01;  // of the sampled time
constexpr std::size_t kCallSitesInAnyCase = 8;
constexpr std::size_t kWideCallSites = 100;  // columns of the page
constexpr std::size_t kUsualWidth = 80;
constexpr std::size_t kWideRanks = 100;
constexpr std::size_t kWideFunctions = 100;
constexpr auto kRunnable = static_cast<std::size_t>(shard::Category::kRunnable);  // short of room: ready
constexpr double kWorthMentioning = 0.01;  // of rank time: calls on files
constexpr double kMuchBlocked = 0.10;      // the same: blocked time
constexpr double kSmallActivity = 0.01;    // of the time of all threads without idle helpers
constexpr double kSmallCallSite = 0.001;   // of the time in MPI; left out beyond the first ones

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string seconds_cell(const Seconds& value, const TimeScale& scale) { return value ? scale(*value) : "-"; }

class Report {
 public:
  Report(const Analysis& analysis, const TextOptions& options)
      : a_(analysis),
        rows_(options.rows),
        unicode_(options.unicode),
        all_(options.sections.empty()),
        asked_(options.sections),
        paths_(analysis),
        page_(static_cast<std::size_t>(std::max(options.width, kNarrowest)), options.colour) {}

  std::string render() {
    using Section = void (Report::*)();
    static constexpr std::pair<std::string_view, Section> kSections[] = {
        {"summary", &Report::summary},   {"efficiency", &Report::efficiency},
        {"ranks", &Report::ranks},       {"hotspots", &Report::hotspots},
        {"lines", &Report::lines},       {"tree", &Report::tree},
        {"comm", &Report::comm},         {"matrix", &Report::matrix},
        {"waits", &Report::waits},       {"io", &Report::io},
        {"off-cpu", &Report::off_cpu},   {"regions", &Report::regions},
        {"timeline", &Report::timeline}, {"nodes", &Report::nodes},
        {"counters", &Report::counters}, {"quality", &Report::quality}};
    for (const auto& [name, section] : kSections)
      if (all_ || asked(name)) (this->*section)();
    return page_.take();
  }

 private:
  bool asked(std::string_view section) const {
    return std::find(asked_.begin(), asked_.end(), section) != asked_.end();
  }

  // True when there is something to show; says so itself when the section was asked for.
  bool worth(bool anything, std::string_view title, std::string_view otherwise) {
    if (anything) return true;
    if (!all_) {
      page_.section(title);
      page_.line(fmt::format("  {}", otherwise));
    }
    return false;
  }

  // --- summary -----------------------------------------------------------------------------

  void summary() {
    const RunInfo& run = a_.run;
    page_.section(fmt::format("clusterprof report  {}", printable(run.id)),
                  run.region.empty() ? "" : fmt::format("region {} alone", printable(run.region)));
    if (!run.command.empty()) page_.line(fmt::format("  {}", command_line(run)));
    std::string facts = fmt::format("{}, {}", ranks_and_nodes(run), seconds(run.elapsed_s));
    if (run.start_utc_ns != 0) facts += fmt::format(", {}", utc(run.start_utc_ns));
    page_.line(fmt::format("  {}", facts));
    page_.line(fmt::format("  {}, {} Hz {} clock, {} samples, {}", mpi_name(), run.rate_hz,
                           run.clock.empty() ? "wall" : run.clock, count(static_cast<double>(run.samples)),
                           run.complete ? "complete" : "INCOMPLETE"));
    categories();
    activities();
    findings();
  }

  std::string mpi_name() const {
    // "Open MPI v4.1.4, package: ...": the rest is for the JSON.
    if (!a_.run.mpi_library.empty()) {
      // "MPICH Version:\t4.0.2"
      std::string name = a_.run.mpi_library.substr(0, a_.run.mpi_library.find_first_of(",\n"));
      std::replace(name.begin(), name.end(), '\t', ' ');
      return name;
    }
    return a_.slowest_rank || !a_.mpi_calls.empty() ? "MPI" : "no MPI";
  }

  void categories() {
    std::vector<std::size_t> order;
    for (std::size_t c = 0; c < kCategories; ++c)
      if (a_.category_s[c]) order.push_back(c);
    page_.section("Main threads by category",
                  fmt::format("{} of rank time in all", seconds(a_.rank_seconds)));
    if (order.empty()) {
      page_.line("  Not measured.");
      return;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](auto x, auto y) { return *a_.category_s[x] > *a_.category_s[y]; });
    const std::size_t bar_width = page_.width() - 34;
    for (const std::size_t c : order) {
      const double share = share_of(*a_.category_s[c], a_.rank_seconds);
      page_.line({{fmt::format("  {:<8}{:>8}  ", kCategoryNames[c], percent(share)), Style::kPlain},
                  {pad_right(bar(share, bar_width), bar_width), category_style(c)},
                  {fmt::format("  {:>9}", seconds(*a_.category_s[c])), Style::kPlain}});
    }
  }

  // "  native code   libopenblas.so.0 43.1 %, train 1.2 %"
  void shares(std::string_view title, std::vector<std::pair<std::string, double>> parts, double whole) {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& x, const auto& y) { return x.second > y.second; });
    std::string text;
    for (const auto& [name, value] : parts)
      if (share_of(value, whole) >= kSmallActivity)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, percent(share_of(value, whole)));
    if (!text.empty()) page_.paragraph({fmt::format("  {:<14}", title)}, text);
  }

  void activities() {
    const double whole = a_.sampled_s - a_.helper_idle_s;
    if (a_.run.samples == 0 || whole <= 0) return;
    std::vector<std::pair<std::string, double>> parts;
    std::string unknown;
    for (std::size_t i = 0; i < kActivities; ++i) {
      if (a_.active_activity_s[i]) {
        parts.emplace_back(kActivityNames[i], *a_.active_activity_s[i]);
      } else {
        unknown += fmt::format("{}{}", unknown.empty() ? "" : ", ", kActivityNames[i]);
      }
    }
    page_.section(
        "All threads by activity",
        fmt::format("{}{}", seconds(whole), without_idle_helpers() ? " without idle helper threads" : ""));
    shares("activities", std::move(parts), whole);
    if (!unknown.empty()) page_.paragraph({fmt::format("  {:<14}", "not known"), Style::kDim}, unknown);
    std::map<std::string, double> modules;
    for (const auto& [path, time_s] : a_.native_modules)
      modules[printable(path.substr(path.find_last_of('/') + 1))] += time_s;
    shares("native code", {modules.begin(), modules.end()}, whole);
    shares("system calls", {a_.active_system_calls.begin(), a_.active_system_calls.end()}, whole);
  }

  // "0-3, 7", and of a longer list how many they are as well: "52 (0-3, 7, 9, ..)"
  static std::string counted_list(const std::vector<std::int32_t>& ascending) {
    constexpr std::size_t kMostGroups = 6;
    const std::string list = rank_list(ascending, kMostGroups);
    return list == rank_list(ascending, ascending.size())
               ? list
               : fmt::format("{} ({})", ascending.size(), rank_list(ascending, kMostGroups / 2));
  }

  // "  bound by  compute 58.7 %, imbalance 23.7 %; ranks mostly: compute 0-3"
  void bound_by() {
    std::string text;
    std::map<std::string, std::vector<std::int32_t>> ranks;
    for (const Bottleneck& row : a_.bottlenecks) {
      if (row.rank)
        ranks[row.kind].push_back(*row.rank);
      else if (row.region.empty())
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", row.kind, percent(row.share));
    }
    if (text.empty()) return;
    if (a_.ranks.size() > 1)
      for (const auto& [kind, numbers] : ranks)
        text += fmt::format("{}{} {}", &numbers == &ranks.begin()->second ? "; ranks mostly: " : ", ", kind,
                            counted_list(numbers));
    page_.paragraph({"  bound by  "}, text);
  }

  std::string with_gain(const Finding& finding) const {
    const std::string gain = words::gain(finding);
    return words::sentences(finding, paths_) + (gain.empty() ? "" : " " + gain);
  }

  void findings() {
    page_.section("Findings");
    bound_by();
    if (a_.findings.empty()) page_.line("  Nothing stands out.");
    for (const Finding& finding : a_.findings) {
      page_.paragraph({fmt::format("  {:<8}", name_of(finding.severity)), severity_style(finding.severity)},
                      with_gain(finding));
    }
    calls_under_way();
  }

  // Of a run that hung: who is where.
  void calls_under_way() {
    constexpr std::size_t kMost = 8;
    const std::vector<words::CallUnderWayText> all = words::calls_under_way(a_, paths_);
    if (all.empty()) return;
    page_.section("MPI calls that had not returned", "when ranks were last looked at");
    for (std::size_t i = 0; i < std::min(all.size(), kMost); ++i) {
      const std::string who =
          fmt::format("{} {}", all[i].ranks.size() == 1 ? "rank" : "ranks", rank_list(all[i].ranks, 3));
      page_.paragraph({fmt::format("  {:<12}  ", who)}, all[i].text);
    }
    note_the_rest(std::min(all.size(), kMost), all.size());
  }

  // --- efficiency --------------------------------------------------------------------------

  void efficiency() {
    const Efficiency& e = a_.efficiency;
    if (!worth(e.parallel.has_value(), "Efficiency", "Not known: no rank used MPI.")) return;
    page_.section("Efficiency", "100 % is ideal");
    const auto show = [this](std::string_view name, const std::optional<double>& share,
                             std::string_view why) {
      page_.line(fmt::format("  {:<17}{:>8}  {:<20}  {}", name, share ? percent(*share) : "-",
                             bar(share.value_or(0), 20), why));
    };
    show("parallel", e.parallel, "load balance x communication");
    show("  load balance", e.load_balance,
         fmt::format("mean {} / max {} (@{})", seconds(*a_.mean_useful_s), seconds(*a_.max_useful_s),
                     *a_.slowest_rank));
    show("  communication", e.communication,
         fmt::format("max {} / run {}", seconds(*a_.max_useful_s), seconds(a_.focus_s)));
    if (e.serialization && e.transfer) {
      const std::string ideal = seconds(a_.wait_quality->ideal_s.value_or(0));
      show("    serialization", e.serialization,
           fmt::format("max {} / ideal {}", seconds(*a_.max_useful_s), ideal));
      show("    transfer", e.transfer, fmt::format("ideal {} / run {}", ideal, seconds(a_.focus_s)));
      page_.line("  ideal: of the same run on a network that takes no time", Style::kDim);
    } else if (!all_) {
      const char* const why = !a_.wait_quality                   ? "waiting was not analysed"
                              : a_.wait_quality->event_level > 0 ? "the events are a sample"
                                                                 : "the replay was not possible";
      show("    serialization", {}, why);
      show("    transfer", {}, why);
    }
    if (const Efficiency& threads = a_.threads_efficiency; threads.parallel) {
      page_.line("  over all threads that call MPI");
      show("parallel", threads.parallel, "load balance x communication");
      show("  load balance", threads.load_balance,
           fmt::format("mean {} / max {} (@{})", seconds(*a_.threads_mean_useful_s),
                       seconds(*a_.threads_max_useful_s), *a_.threads_slowest_rank));
      show("  communication", threads.communication,
           fmt::format("max {} / run {}", seconds(*a_.threads_max_useful_s), seconds(a_.focus_s)));
    }
    if (a_.startup_s > 0)
      page_.line(fmt::format("  run: without the {} that every rank was in MPI_Init and MPI_Finalize",
                             seconds(a_.startup_s)),
                 Style::kDim);
    page_.line("  mean, max: useful time per rank; @: the rank that has the max", Style::kDim);
    if (!above_one(e).empty() || !above_one(a_.threads_efficiency).empty())
      page_.line("  above 100 %: measuring errors", Style::kDim);
  }

  // --- ranks -------------------------------------------------------------------------------

  void ranks() {
    if (!worth(!a_.ranks.empty(), "Ranks", "There are none.")) return;
    std::string legend;
    for (const std::size_t c : kBarOrder)
      legend += fmt::format("{}{} {}", legend.empty() ? "" : "  ", category_letter(c), kCategoryNames[c]);
    page_.section("Ranks", legend);
    if (a_.ranks.size() <= kMostRanksShown) {
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

  // One rank is always the slowest; it stands out only when that matters.
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

  // What is known of ranks in seconds, all in one unit.
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

  void each_rank() {
    const auto [quantities, scale] = times();
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

    Table processes({{"rank"},
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
      processes.row({std::to_string(rank.rank), std::to_string(rank.pid), std::to_string(rank.threads),
                     count(static_cast<double>(rank.samples)), size_cell(rank.max_rss_bytes),
                     size_cell(rank.read_bytes), size_cell(rank.write_bytes), ended},
                    rank.exit_signal || rank.lost ? Style::kBad : Style::kPlain);
    }
    processes.print(page_);
  }

  static std::string ending(const RankInfo& rank) {
    if (rank.exit_signal) return signal_name(*rank.exit_signal);
    if (rank.lost && rank.exit_status.value_or(0) == 0) return "lost";
    if (rank.exit_status) return fmt::format("exit {}", *rank.exit_status);
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

  // --- functions and lines -----------------------------------------------------------------

  // The longest tables: rows by what is active, because that is where time is spent.
  template <typename Row>
  std::vector<const Row*> most_active(const std::vector<Row>& rows) const {
    std::vector<const Row*> result;
    for (const Row& row : rows)
      if (row.active_self_s > 0) result.push_back(&row);
    std::stable_sort(result.begin(), result.end(),
                     [](const Row* x, const Row* y) { return x->active_self_s > y->active_self_s; });
    return result;
  }

  void note_the_rest(std::size_t shown, std::size_t all) {
    if (all > shown) page_.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
  }

  template <typename Row, typename TimeOf>
  static double largest(const std::vector<const Row*>& rows, std::size_t shown, const TimeOf& time_of) {
    double most_s = 0;
    for (std::size_t i = 0; i < shown; ++i) most_s = std::max(most_s, time_of(*rows[i]));
    return most_s;
  }

  // What all ranks have in hours, each may have in seconds.
  static TimeScale scale_of_ranks(const TimeScale& of_sums, double largest_s) {
    const TimeScale scale(largest_s);
    return of_sums.unit() == std::string_view("h") ? scale : of_sums;
  }
  static std::string other_unit(const TimeScale& of_sums, const TimeScale& of_ranks) {
    const std::string unit = of_ranks.unit();
    return unit == of_sums.unit() ? "" : " in " + unit;
  }

  bool without_idle_helpers() const { return a_.helper_idle_s > kHelperIdleNote * a_.sampled_s; }

  void note_helper_idle() {
    if (!without_idle_helpers()) return;
    page_.line(fmt::format("  not counted: {} in which helper threads were idle", seconds(a_.helper_idle_s)),
               Style::kDim);
  }

  void hotspots() {
    if (!worth(!a_.functions.empty(), "Hotspots", "There are no samples.")) return;
    const auto all = most_active(a_.functions);
    const std::size_t shown = std::min(rows_, all.size());
    const double active_s = a_.sampled_s - a_.helper_idle_s;
    const TimeScale scale(largest(all, shown, [](const auto& row) { return row.active_total_s; }));
    const TimeScale of_ranks = scale_of_ranks(
        scale, largest(all, shown, [](const FunctionRow& row) { return row.active_spread.max_s; }));
    page_.section("Hotspots", fmt::format("by self time, in {}; all ranks and threads", scale.unit()));
    const bool wide = page_.width() >= kWideFunctions;
    const auto build = [&](std::size_t room) {
      std::vector<Table::Column> columns{{"self"}, {"%"}, {"total"}};
      if (wide) columns.push_back({"cpu"});
      for (const char* const name : {"min", "mean", "max", "@rank"})
        columns.push_back({name, Align::kRight, true});
      columns.push_back({"function", Align::kLeft});
      Table table(std::move(columns));
      for (std::size_t i = 0; i < shown; ++i) {
        const FunctionRow& row = *all[i];
        const RankSpread& spread = row.active_spread;
        std::vector<std::string> cells{scale(row.active_self_s),
                                       fmt::format("{:.1f}", 100 * share_of(row.active_self_s, active_s)),
                                       scale(row.active_total_s)};
        if (wide) cells.push_back(scale(row.cpu_s));
        cells.insert(cells.end(),
                     {of_ranks(spread.min_s), of_ranks(spread.mean_s), of_ranks(spread.max_s),
                      std::to_string(spread.max_rank), room == 0 ? "" : describe(row, paths_, room)});
        table.row(std::move(cells));
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all.size());
    page_.line(std::string(wide ? "  cpu: of self; " : "  ") + "min, mean, max, @rank: of total, per rank" +
                   other_unit(scale, of_ranks),
               Style::kDim);
    note_helper_idle();
  }

  static std::string place_and_name(const std::string& place, const std::string& name, std::size_t room) {
    if (columns(place) + 5 > room) return shorten_middle(place, room);
    return fmt::format("{} {}", place, shorten_name(name, room - columns(place) - 1));
  }

  static std::string mostly(const LineRow& row) {
    const ActivitySeconds& active = row.active_activity_s;
    const auto most = std::max_element(active.begin(), active.end());
    return fmt::format("{} {:.0f} %", kActivityTags[static_cast<std::size_t>(most - active.begin())],
                       100 * share_of(*most, row.active_self_s));
  }

  void lines() {
    if (!worth(!a_.lines.empty(), "Lines", "No source lines are known (compile with -g).")) return;
    const auto all = most_active(a_.lines);
    const std::size_t shown = std::min(rows_, all.size());
    const double active_s = a_.sampled_s - a_.helper_idle_s;
    const TimeScale scale(largest(all, shown, [](const auto& row) { return row.active_total_s; }));
    const TimeScale of_ranks = scale_of_ranks(
        scale, largest(all, shown, [](const LineRow& row) { return row.active_spread.max_s; }));
    page_.section("Lines", fmt::format("by self time, in {}; all ranks and threads", scale.unit()));
    const auto build = [&](std::size_t room) {
      Table table({{"self"},
                   {"%"},
                   {"total", Align::kRight, true},
                   {"min", Align::kRight, true},
                   {"max", Align::kRight, true},
                   {"@rank", Align::kRight, true},
                   {"mostly", Align::kLeft},
                   {"line", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const LineRow& row = *all[i];
        const std::string place = paths_.place(row.file, row.line);
        const std::string function = function_label(row.function, shard::FrameKind::kNative);
        table.row({scale(row.active_self_s),
                   fmt::format("{:.1f}", 100 * share_of(row.active_self_s, active_s)),
                   scale(row.active_total_s), of_ranks(row.active_spread.min_s),
                   of_ranks(row.active_spread.max_s), std::to_string(row.active_spread.max_rank), mostly(row),
                   room == 0 ? "" : place_and_name(place, function, room)});
      }
      return table;
    };
    build(build(0).room(page_.width())).print(page_);
    note_the_rest(shown, all.size());
    page_.line(
        "  self: the line and what it calls in libraries; min, max: of self" + other_unit(scale, of_ranks),
        Style::kDim);
  }

  void tree() {
    if (!worth(!a_.call_tree.empty(), "Call tree", "There are no samples.")) return;
    page_.section("Call tree", "callers above what they call; all ranks and threads");
    print_tree(page_, a_, paths_, {rows_, !all_});
    note_helper_idle();
  }

  // --- MPI ---------------------------------------------------------------------------------

  void comm() {
    const bool full = !all_;
    if (full && !asked("efficiency") && a_.efficiency.parallel) efficiency();
    if (!worth(!a_.mpi_calls.empty(), "MPI by call site", "No MPI calls were recorded.")) return;
    double total = 0, calls = 0, longest = 0, longest_of_rank = 0;
    for (const MpiCallRow& row : a_.mpi_calls) {
      total += row.time_s;
      calls += static_cast<double>(row.count);
      longest = std::max(longest, row.time_s);
      longest_of_rank = std::max(longest_of_rank, row.spread.max_s);
    }
    const TimeScale scale(longest), of_ranks = scale_of_ranks(scale, longest_of_rank);
    page_.section("MPI by call site", fmt::format("in {}; {} in {} calls, all ranks", scale.unit(),
                                                  seconds(total), count(calls)));
    const bool waits = a_.wait_quality.has_value();
    const bool narrow = waits && page_.width() < kWideCallSites, tight = page_.width() < kUsualWidth;
    // Columns: 2, 3 with known waiting; 7, 8 where there is room.
    const auto numbers = [&](const std::vector<std::string>& cells, Style style) {
      static constexpr std::size_t kWidths[] = {10, 7, 9, 9, 9, 10, 10, 9, 9, 9, 6};
      std::string out;
      for (std::size_t i = 0; i < cells.size(); ++i) {
        if ((!waits && (i == 2 || i == 3)) || (narrow && (i == 7 || i == 8)) || (tight && (i == 5 || i == 6)))
          continue;
        out += pad_left(cells[i], kWidths[i] - (narrow && i == 1 ? 1 : 0));
      }
      page_.line(out, style);
    };
    numbers({"time", "%", "wait", "transfer", "calls", "sent", "received", "min", "mean", "max", "@rank"},
            Style::kDim);
    std::size_t shown = std::min(rows_, a_.mpi_calls.size());  // largest first
    while (shown > kCallSitesInAnyCase && a_.mpi_calls[shown - 1].time_s < kSmallCallSite * total) --shown;
    for (std::size_t i = 0; i < shown; ++i) {
      const MpiCallRow& row = a_.mpi_calls[i];
      const std::string mark =
          row.unfinished == 0 ? "" : fmt::format("  ({} not returned)", plural(row.unfinished, "call"));
      page_.line(fmt::format("  {}{}", describe(row, paths_, page_.width() - 2 - mark.size()), mark),
                 Style::kMpi);
      numbers({scale(row.time_s), fmt::format("{:.1f}", 100 * share_of(row.time_s, total)),
               seconds_cell(row.wait_s, scale), seconds_cell(row.transfer_s, scale),
               count(static_cast<double>(row.count)), bytes(static_cast<double>(row.sent_bytes)),
               bytes(static_cast<double>(row.recv_bytes)), of_ranks(row.spread.min_s),
               of_ranks(row.spread.mean_s), of_ranks(row.spread.max_s), std::to_string(row.spread.max_rank)},
              Style::kPlain);
    }
    note_the_rest(shown, a_.mpi_calls.size());
    page_.line(
        fmt::format("  {}{}max, @rank: of time, per rank{}", waits ? "transfer: time without wait; " : "",
                    narrow ? "" : "min, mean, ", other_unit(scale, of_ranks)),
        Style::kDim);
    message_sizes();
    if (full && !asked("matrix") && !(a_.matrix.empty() && a_.collectives.empty())) matrix();
  }

  void waits() {
    if (!worth(
            a_.wait_quality.has_value(), "Waiting for other ranks",
            a_.mpi_calls.empty() ? "No MPI calls were recorded." : "Not analysed: there are no MPI events."))
      return;
    print_waits(page_, a_, paths_, {rows_, !all_, unicode_});
  }

  void message_sizes() {
    if (a_.mpi_sizes.empty()) return;
    page_.blank();
    page_.line("  Message sizes: upper bound x messages", Style::kDim);
    std::size_t op_width = 18;
    for (const MpiSizeRow& row : a_.mpi_sizes) op_width = std::max(op_width, columns(printable(row.op)) + 2);
    for (std::size_t i = 0; i < a_.mpi_sizes.size();) {
      const std::string& op = a_.mpi_sizes[i].op;
      std::string bins;
      for (; i < a_.mpi_sizes.size() && a_.mpi_sizes[i].op == op; ++i)
        bins += fmt::format("{}{} x {}", bins.empty() ? "" : ", ", bin_bytes(a_.mpi_sizes[i].le_bytes),
                            count(static_cast<double>(a_.mpi_sizes[i].count)));
      page_.paragraph({fmt::format("  {:<{}}", printable(op), op_width)}, bins);
    }
  }

  void matrix() {
    if (!worth(!a_.matrix.empty(), "Heaviest pairs", "No messages between ranks were recorded.")) {
      note_collectives();
      return;
    }
    double total_bytes = 0, total_messages = 0;
    for (const shard::MatrixCell& cell : a_.matrix) {
      total_bytes += static_cast<double>(cell.bytes);
      total_messages += static_cast<double>(cell.messages);
    }
    page_.section("Heaviest pairs", fmt::format("{} in {} messages between {}", bytes(total_bytes),
                                                count(total_messages), plural(a_.matrix.size(), "pair")));
    pairs(
        a_.matrix, [](std::int32_t rank) { return rank < 0 ? "?" : std::to_string(rank); }, total_bytes);
    note_collectives();
    if (a_.nodes.size() < 2) return;
    page_.blank();
    page_.line("  between nodes", Style::kDim);
    const auto node_name = [this](const std::optional<std::uint32_t>& node) {
      return node && *node < a_.nodes.size() ? printable(a_.nodes[*node].name) : "?";
    };
    pairs(a_.node_matrix, node_name, total_bytes);
  }

  // What is in no pair: it is addressed to no rank.
  void note_collectives() {
    constexpr std::size_t kNamed = 4;
    double total_bytes = 0;
    std::string named;
    for (std::size_t i = 0; i < a_.collectives.size(); ++i) {
      const CollectiveRow& row = a_.collectives[i];
      total_bytes += static_cast<double>(row.bytes);
      if (i < kNamed)
        named += fmt::format("{}{} {} in {} calls", i == 0 ? "" : ", ", printable(row.op),
                             bytes(static_cast<double>(row.bytes)), count(static_cast<double>(row.count)));
    }
    if (a_.collectives.empty()) return;
    page_.paragraph({"  not in it: ", Style::kDim},
                    fmt::format("{} of collective operations, which address no rank ({}{})",
                                bytes(total_bytes), named, a_.collectives.size() > kNamed ? ", ..." : ""));
  }

  struct Pair {
    std::string from, to;
    std::uint64_t messages = 0, bytes = 0;
  };
  // In order where equally heavy. There may be many cells: only what is shown is given names.
  template <typename Cell, typename NameOf>
  void pairs(const std::vector<Cell>& cells, const NameOf& name_of, double total_bytes) {
    const std::size_t shown = std::min(rows_, cells.size());
    std::vector<const Cell*> order;
    order.reserve(cells.size());
    for (const Cell& cell : cells) order.push_back(&cell);
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(shown);
    std::partial_sort(order.begin(), middle, order.end(), [](const Cell* x, const Cell* y) {
      return std::tie(y->bytes, y->messages, x) < std::tie(x->bytes, x->messages, y);
    });
    std::vector<Pair> all;
    for (auto cell = order.begin(); cell != middle; ++cell)
      all.push_back(
          {name_of((*cell)->source), name_of((*cell)->destination), (*cell)->messages, (*cell)->bytes});
    const double heaviest = shown > 0 ? static_cast<double>(all[0].bytes) : 0;
    std::size_t longest = 4;
    for (std::size_t i = 0; i < shown; ++i)
      longest = std::max({longest, columns(all[i].from), columns(all[i].to)});
    const std::size_t name_width = std::min<std::size_t>(longest, 16);
    const auto build = [&](std::size_t bar_width) {
      Table table({{"from"}, {"to"}, {"bytes"}, {"%"}, {"messages"}, {"mean size"}, {"", Align::kLeft}});
      for (std::size_t i = 0; i < shown; ++i) {
        const auto size = static_cast<double>(all[i].bytes);
        const auto messages = static_cast<double>(all[i].messages);
        table.row({shorten_middle(all[i].from, name_width), shorten_middle(all[i].to, name_width),
                   bytes(size), fmt::format("{:.1f}", 100 * share_of(size, total_bytes)), count(messages),
                   bytes(share_of(size, messages)), bar(share_of(size, heaviest), bar_width)});
      }
      return table;
    };
    build(std::min<std::size_t>(build(0).room(page_.width()), 24)).print(page_);
    note_the_rest(shown, cells.size());
  }

  // --- files, blocked time, regions, time, nodes -----------------------------------------------

  [[nodiscard]] ResourceOptions resource_options() const { return {rows_, !all_, unicode_}; }

  void io() {
    double time_s = 0;
    if (a_.io)
      for (const IoCallRow& row : a_.io->calls) time_s += row.time_s;
    if (all_ && share_of(time_s, a_.rank_seconds) < kWorthMentioning) return;
    const bool any = a_.io && !a_.io->calls.empty();
    if (worth(any, "File I/O", a_.io ? "No calls on files were recorded." : "Not measured."))
      print_io(page_, a_, paths_, resource_options());
  }

  void off_cpu() {
    double main_s = 0;
    if (a_.off_cpu)
      for (const OffCpuRow& row : *a_.off_cpu) main_s += row.main_thread_s;
    if (all_ && share_of(main_s, a_.rank_seconds) < kMuchBlocked) return;
    const bool any = a_.off_cpu && !a_.off_cpu->empty();
    if (worth(any, "Blocked outside MPI", a_.off_cpu ? "No thread was." : "Not measured."))
      print_off_cpu(page_, a_, paths_, resource_options());
  }

  void regions() {
    if (worth(!a_.regions.empty(), "Regions", "The program named none."))
      print_regions(page_, a_, resource_options());
  }

  void timeline() {
    if (all_) return;
    if (worth(a_.timeline && a_.timeline->bins != 0, "Over time", "Not measured."))
      print_timeline(page_, a_, resource_options());
  }

  void nodes() {
    if (all_) return;
    if (worth(!a_.nodes.empty(), "Nodes", "There are none.")) print_nodes(page_, a_, resource_options());
  }

  // --- counters ----------------------------------------------------------------------------

  // The kernel's clocks, by any of their names.
  static bool counts_ns(std::string_view event) {
    std::string name(event);
    std::replace(name.begin(), name.end(), '_', '-');
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return name.ends_with("task-clock") || name.ends_with("cpu-clock");
  }

  void counters() {
    const bool any = !a_.rank_counters.empty() || !a_.unavailable_counters.empty();
    if (!worth(any || (!all_ && !a_.derived.empty()), "Counters", "None were asked for.")) return;
    page_.section("Counters", a_.counters_multiplexed ? "per rank; they took turns: estimates" : "per rank");
    Table table({{"event", Align::kLeft}, {"total"}, {"min"}, {"mean"}, {"max"}, {"@rank"}});
    bool counted = false;
    for (const CounterSpread& row : a_.counter_spreads) {
      if (row.max_rank < 0) continue;
      counted = true;
      const auto amount = [is_time = counts_ns(row.name)](double value) {
        return is_time ? seconds(value / 1e9) : count(value);
      };
      table.row({row.name, amount(row.total), amount(row.min), amount(row.mean), amount(row.max),
                 std::to_string(row.max_rank)});
    }
    if (counted) table.print(page_);
    if (counted && !a_.derived.empty()) page_.blank();
    print_derived(page_, a_.derived);
    std::map<std::string, std::string> by_reason;
    for (const auto& [name, reason] : a_.unavailable_counters) {
      std::string& names = by_reason[reason];
      names += fmt::format("{}{}", names.empty() ? "" : ", ", printable(name));
    }
    for (const auto& [reason, names] : by_reason)
      page_.paragraph({"  not available  ", Style::kDim}, fmt::format("{}: {}", names, reason));
  }

  // --- quality -----------------------------------------------------------------------------

  void quality() {
    const RunInfo& run = a_.run;
    page_.section("Quality of this measurement", fmt::format("clusterprof {}", run.version));
    const auto fact = [this](std::string_view name, std::string_view value, Style style = Style::kPlain) {
      page_.paragraph({fmt::format("  {:<18}", name), style}, value);
    };
    const Quality& quality = a_.quality;
    double recording_s = 0;
    std::size_t threads = 0;
    std::vector<std::int32_t> lost;
    for (const RankInfo& rank : a_.ranks) {
      recording_s += rank.handler_s;
      threads += rank.threads;
      if (rank.lost) lost.push_back(rank.rank);
    }
    const auto part = [](std::uint64_t some, std::uint64_t all) {
      return fmt::format("{} of {} ({})", count(static_cast<double>(some)), count(static_cast<double>(all)),
                         percent(share_of(static_cast<double>(some), static_cast<double>(all))));
    };
    fact("samples",
         fmt::format("{} on {}{}", count(static_cast<double>(run.samples)), plural(threads, "thread"),
                     quality.rate_reached_hz ? fmt::format("; {:.0f} Hz reached of {} Hz asked",
                                                           *quality.rate_reached_hz, run.rate_hz)
                                             : ""));
    if (run.dropped.empty()) fact("dropped", "nothing");
    std::string few;
    for (const auto& [reason, number] : run.dropped) {
      if (!drop_matters(reason, number, run.samples)) {
        few += fmt::format("{}{} x {}", few.empty() ? "" : ", ", number, printable(reason));
        continue;
      }
      const std::string_view meaning = words::meaning_of_drop(reason);
      fact("dropped",
           fmt::format("{} x {}{}{}", count(static_cast<double>(number)), printable(reason),
                       meaning.empty() ? "" : ": ", meaning),
           Style::kWarning);
    }
    if (!few.empty()) fact("dropped", fmt::format("{}: too few samples to matter", few));
    unsampled_threads();
    fact("call paths cut", part(quality.truncated, run.samples));
    if (quality.merge_success)
      fact("merges failed",
           fmt::format("{} of {} ({:.2f} %)", count(static_cast<double>(quality.merges_failed)),
                       count(static_cast<double>(quality.merges_tried)), 100 * (1 - *quality.merge_success)));
    if (!lost.empty())
      fact("ranks lost", fmt::format("{} of {}: {}", lost.size(), a_.ranks.size(), rank_list(lost)),
           Style::kBad);
    last_call_paths();
    if (!run.missing_ranks.empty())
      fact("ranks missing", fmt::format("{} of {}: {}", run.missing, run.world_size, missing_ranks(run)),
           Style::kBad);
    double cpu_s = 0;
    for (const RankInfo& rank : a_.ranks) cpu_s += rank.cpu_s.value_or(0);
    if (recording_s > 0)
      fact("recording cost", cpu_s > 0 ? fmt::format("{} ({} of the ranks' CPU time)", seconds(recording_s),
                                                     percent(recording_s / cpu_s))
                                       : seconds(recording_s));
    if (quality.handler_median_s)
      fact("", fmt::format("per sample: median {}, 99th percentile {}", seconds(*quality.handler_median_s),
                           seconds(*quality.handler_p99_s)));
    collectors();
    for (const NoteRecord& note : run.notes) fact("note", words::sentence(note));
  }

  // By rank, those with most CPU time in such threads first.
  void unsampled_threads() {
    if (a_.quality.unsampled_threads == 0) return;
    constexpr std::size_t kMost = 3;
    std::vector<const RankInfo*> ranks;
    for (const RankInfo& rank : a_.ranks)
      if (rank.unsampled_threads != 0) ranks.push_back(&rank);
    std::stable_sort(ranks.begin(), ranks.end(), [](const RankInfo* x, const RankInfo* y) {
      return x->unsampled_cpu_s > y->unsampled_cpu_s;
    });
    page_.paragraph(
        {fmt::format("  {:<18}", "short threads")},
        fmt::format("{} ended before a first sample; the {} of CPU time is charged to the functions "
                    "they were started with",
                    plural(a_.quality.unsampled_threads, "thread"), seconds(a_.quality.unsampled_cpu_s)));
    if (a_.ranks.size() == 1) return;
    for (std::size_t i = 0; i < std::min(ranks.size(), kMost); ++i)
      page_.paragraph(
          {fmt::format("  {:<18}", "")},
          fmt::format("rank {}: {}, {}", ranks[i]->rank, plural(ranks[i]->unsampled_threads, "thread"),
                      seconds(ranks[i]->unsampled_cpu_s)));
  }

  // Of the first lost ranks.
  void last_call_paths() {
    constexpr std::size_t kMost = 3;
    std::size_t shown = 0;
    for (const RankInfo& rank : a_.ranks) {
      if (rank.last_call_path.empty()) continue;
      if (shown++ == kMost) break;
      std::string path;
      for (const SourceLocation& frame : rank.last_call_path)
        path += (path.empty() ? "" : " > ") + words::frame(frame);
      page_.paragraph({fmt::format("  {:<18}", shown == 1 ? "last call path" : "")},
                      fmt::format("rank {}: {}", rank.rank, printable(path)));
    }
  }

  void collectors() {
    if (a_.nodes.empty()) return;
    const auto load = [](const NodeInfo& node) { return share_of(node.collector_cpu_s, node.elapsed_s); };
    const NodeInfo* busiest = &a_.nodes.front();
    double total = 0;
    for (const NodeInfo& node : a_.nodes) {
      total += node.collector_cpu_s;
      if (load(node) > load(*busiest)) busiest = &node;
    }
    page_.paragraph({fmt::format("  {:<18}", "collectors' CPU")},
                    fmt::format("{} on {}; most on {}: {}, {} of one core, {} of memory", seconds(total),
                                plural(a_.nodes.size(), "node"), printable(busiest->name),
                                seconds(busiest->collector_cpu_s), percent(load(*busiest)),
                                bytes(static_cast<double>(busiest->collector_max_rss_bytes))));
  }

  const Analysis& a_;
  std::size_t rows_;
  bool unicode_;
  bool all_;
  std::vector<std::string> asked_;
  ShortPaths paths_;
  Page page_;
};

}  // namespace

const std::vector<std::string>& section_names() {
  static const std::vector<std::string> kNames = {
      "summary", "efficiency", "ranks",   "hotspots", "lines",    "tree",  "comm",     "matrix",
      "waits",   "io",         "off-cpu", "regions",  "timeline", "nodes", "counters", "quality"};
  return kNames;
}

std::string render_text(const Analysis& analysis, const TextOptions& options) {
  return Report(analysis, options).render();
}

}  // namespace clusterprof::report
