// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "report/text/format.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using text::percent;
using text::seconds;

double of(const OptionalCategorySeconds& categories, Category category) {
  return categories[static_cast<std::size_t>(category)].value_or(0);
}

// --- bottlenecks ---------------------------------------------------------------------------

// The categories that are classes by themselves.
constexpr std::pair<Category, const char*> kPlainClasses[] = {{Category::kNative, "compute"},
                                                              {Category::kPython, "python"},
                                                              {Category::kIo, "io"},
                                                              {Category::kIdle, "idle"}};

void largest_first(std::vector<Bottleneck>& classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const Bottleneck& a, const Bottleneck& b) { return a.share > b.share; });
}

// "rank 3 in load_batch() data.py:41"
std::string culprit(const Analysis& analysis, const text::ShortPaths& names, std::int32_t rank,
                    PlaceIndex place) {
  if (place == 0) return fmt::format("rank {}", rank);
  return fmt::format("rank {} in {}", rank, text::describe(analysis.places[place], names));
}

// "63 ranks", "at least 12 ranks"; the one by its number.
std::string who_waited(const RootCauseRow& cause, std::optional<std::int32_t> only = {}) {
  if (only && cause.waiting_ranks == 1 && !cause.at_least) return fmt::format("rank {}", *only);
  return (cause.at_least ? "at least " : "") + text::plural(cause.waiting_ranks, "rank");
}

// "; rank 3 in load_batch() data.py:41 made 63 ranks wait 12.3 s": the largest root cause.
std::string delay_evidence(const Analysis& analysis, const text::ShortPaths& names) {
  if (analysis.root_functions.empty()) return {};
  const RootCauseRow& cause = analysis.root_functions.front();
  return fmt::format("; {} made {} wait {}", culprit(analysis, names, cause.rank, cause.place),
                     who_waited(cause), seconds(cause.wait_s));
}

std::vector<Bottleneck> classes_of_run(const Analysis& analysis, const text::ShortPaths& names) {
  std::vector<Bottleneck> classes;
  for (const auto& [category, name] : kPlainClasses) {
    const double time_s = of(analysis.category_s, category);
    classes.push_back({std::nullopt, name, time_s / analysis.rank_seconds,
                       fmt::format("{} of the {} of all ranks' main threads", seconds(time_s),
                                   seconds(analysis.rank_seconds))});
  }
  if (analysis.efficiency.load_balance) {
    const double elapsed = analysis.run.elapsed_s, mean = *analysis.mean_useful_s,
                 max = *analysis.max_useful_s;
    classes.push_back({std::nullopt, "imbalance", (max - mean) / elapsed,
                       fmt::format("outside MPI rank {} takes {}, the mean rank {}{}", *analysis.slowest_rank,
                                   seconds(max), seconds(mean), delay_evidence(analysis, names))});
    std::string evidence =
        fmt::format("even the busiest rank is outside MPI for only {} of {}", seconds(max), seconds(elapsed));
    if (analysis.mpi_wait_s)
      evidence += fmt::format("; of {} in MPI {} are waiting",
                              seconds(*analysis.mpi_wait_s + analysis.mpi_transfer_s.value_or(0)),
                              seconds(*analysis.mpi_wait_s));
    const Efficiency& e = analysis.efficiency;
    if (e.serialization && e.transfer)
      evidence +=
          fmt::format("; serialization {}, transfer {}", percent(*e.serialization), percent(*e.transfer));
    classes.push_back({std::nullopt, "communication", std::max(0.0, 1 - max / elapsed), std::move(evidence)});
  }
  return classes;
}

// By rank, the largest of Analysis::waits' causes; its wait is that of the row it stands in.
std::map<std::int32_t, WaitPart> largest_causes(const Analysis& analysis) {
  std::map<std::int32_t, WaitPart> result;
  for (const WaitRow& row : analysis.waits) {
    if (row.causes.empty() || row.causes.front().rest != 0) continue;
    WaitPart& largest = result[row.rank];
    if (row.causes.front().wait_s > largest.wait_s) largest = row.causes.front();
  }
  return result;
}

std::vector<Bottleneck> classes_of_rank(const Analysis& analysis, const text::ShortPaths& names,
                                        const std::map<std::int32_t, WaitPart>& causes,
                                        const RankInfo& rank) {
  std::vector<Bottleneck> classes;
  for (const auto& [category, name] : kPlainClasses) {
    const double time_s = of(rank.category_s, category);
    classes.push_back({rank.rank, name, time_s / rank.elapsed_s,
                       fmt::format("{} of its {}", seconds(time_s), seconds(rank.elapsed_s))});
  }
  if (rank.useful_s && analysis.max_useful_s) {
    const double mpi_s = of(rank.category_s, Category::kMpi);
    const double waiting = std::min(mpi_s, *analysis.max_useful_s - *rank.useful_s);
    std::string waits;
    if (rank.mpi_wait_s) {
      waits = fmt::format("; waits {}", seconds(*rank.mpi_wait_s));
      const auto cause = causes.find(rank.rank);
      if (cause != causes.end() && cause->second.rank)
        waits += fmt::format(", {} of it for {}", seconds(std::min(cause->second.wait_s, *rank.mpi_wait_s)),
                             culprit(analysis, names, *cause->second.rank, cause->second.place));
    }
    classes.push_back({rank.rank, "imbalance", waiting / rank.elapsed_s,
                       fmt::format("works {} less than rank {}, the slowest{}", seconds(waiting),
                                   *analysis.slowest_rank, waits)});
    classes.push_back({rank.rank, "communication", (mpi_s - waiting) / rank.elapsed_s,
                       fmt::format("{} in MPI, {} of it not explained by imbalance{}", seconds(mpi_s),
                                   seconds(mpi_s - waiting), waits)});
  }
  return classes;
}

// --- findings ------------------------------------------------------------------------------

struct Blame {
  std::uint32_t path = 0;  // 0: nobody
  double time_s = 0;
};

// Follows the call tree from the root into the child that holds most of `weight` (by path,
// exclusive, seconds; may be negative) as long as it holds kBlame of `total`; the last place on
// the way with a source line of the program is to blame.
Blame blame(const CallPaths& paths, std::vector<double> weight, double total) {
  if (total <= 0) return {};
  for (std::uint32_t path = static_cast<std::uint32_t>(paths.size()); path-- > 1;)
    weight[paths.parent(path)] += weight[path];
  const double enough = total * thresholds::kBlame;
  std::vector<std::uint32_t> heavy;
  for (std::uint32_t path = 1; path < paths.size(); ++path)
    if (weight[path] > 0 && weight[path] >= enough) heavy.push_back(path);

  Blame result;
  std::uint32_t at = 0;
  for (;;) {
    std::uint32_t next = 0;
    for (const std::uint32_t path : heavy)
      if (path > at && paths.parent(path) == at && (next == 0 || weight[path] > weight[next])) next = path;
    if (next == 0) return result;
    at = next;
    if (paths.source(at) == at) result = {at, weight[at]};
  }
}

class Finder {
 public:
  Finder(const shard::ShardData& data, const std::vector<shard::Value>& charged, const CallPaths& paths,
         Analysis& analysis)
      : data_(data), charged_(charged), paths_(paths), analysis_(analysis), names_(analysis) {}

  void run() {
    abnormal_ends();
    delays();
    passed_on();
    imbalance();
    network();
    mpi();
    waits_for_the_gil();
    python();
    of_rank_time(Category::kIo, any_activity, thresholds::kIo, "File and socket calls take");
    idle();
    of_rank_time(Category::kSystem, any_activity, thresholds::kSystem,
                 "The kernel (system calls other than I/O, page faults) takes");
    join_with_delays();
    measurement();

    auto& findings = analysis_.findings;
    std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
      if (level(a) != level(b)) return level(a) < level(b);
      return a.share.value_or(2) > b.share.value_or(2);
    });
    if (findings.size() > thresholds::kMaxFindings) findings.resize(thresholds::kMaxFindings);
  }

 private:
  static int level(const Finding& finding) {
    if (finding.severity == "high") return 0;
    if (finding.severity == "medium") return 1;
    return finding.severity == "low" ? 2 : 3;
  }

  Finding& add(std::string severity, std::optional<double> share, std::string sentence) {
    Finding& finding = analysis_.findings.emplace_back();
    finding.severity = std::move(severity);
    finding.share = share;
    finding.text = std::move(sentence);
    return finding;
  }

  Finding& add_by_share(double share, std::string sentence) {
    const char* severity = share >= thresholds::kHigh     ? "high"
                           : share >= thresholds::kMedium ? "medium"
                                                          : "low";
    return add(severity, share, std::move(sentence));
  }

  // "compute() train.py:57"
  std::string name_path(std::uint32_t path) const {
    const shard::Frame& f = *paths_.frame(path);
    return fmt::format("{} {}", text::function_label(paths_.text(f.name), f.kind),
                       names_.place(paths_.text(f.file), f.line));
  }

  void point_to(Finding& finding, std::uint32_t path) const {
    const shard::Frame& f = *paths_.frame(path);
    finding.file = paths_.text(f.file);
    finding.line = f.line;
  }

  // Seconds by path, of main threads or all, each value weighed by weight_of(value).
  enum class Threads { kMain, kAll };
  std::vector<double> weigh(const std::function<double(const shard::Value&)>& weight_of,
                            Threads threads = Threads::kMain) const {
    std::vector<double> weight(paths_.size(), 0.0);
    for (const shard::Value& value : charged_) {
      if (threads == Threads::kMain && !value.main_thread) continue;
      const double factor = weight_of(value);
      if (factor == 0) continue;
      weight[paths_.counted(value.path, value.category)] += factor * static_cast<double>(value.wall_ns) / 1e9;
    }
    return weight;
  }

  void abnormal_ends() {
    std::map<int, std::vector<std::int32_t>> by_signal, by_status;
    std::vector<std::int32_t> lost;
    for (const RankInfo& rank : analysis_.ranks) {
      if (rank.exit_signal)
        by_signal[*rank.exit_signal].push_back(rank.rank);
      else if (rank.lost)
        lost.push_back(rank.rank);
      else if (rank.exit_status.value_or(0) != 0)
        by_status[*rank.exit_status].push_back(rank.rank);
    }
    const auto who = [](const std::vector<std::int32_t>& ranks) {
      return fmt::format("{} {}", ranks.size() == 1 ? "Rank" : "Ranks", text::rank_list(ranks));
    };
    for (const auto& [signal, ranks] : by_signal)
      add("high", std::nullopt, fmt::format("{} ended by {}.", who(ranks), text::signal_name(signal))).rank =
          ranks.front();
    for (const auto& [status, ranks] : by_status)
      add("high", std::nullopt, fmt::format("{} exited with status {}.", who(ranks), status)).rank =
          ranks.front();
    if (!lost.empty())
      add("high", std::nullopt,
          fmt::format("{} ended without saying how (SIGKILL, out of memory, node failure?).", who(lost)))
          .rank = lost.front();
    if (const auto& missing = analysis_.run.missing_ranks; !missing.empty())
      add("high", std::nullopt,
          fmt::format("{} of {} ranks are not in this profile: {}.", analysis_.run.missing,
                      analysis_.run.world_size, text::missing_ranks(analysis_.run)))
          .rank = missing.front();
  }

  // Where ranks waited longest for a rank that was in that function; null: nowhere directly.
  const DelayRow* where_waited_for(const RootCauseRow& cause) const {
    const Place& code = analysis_.places[cause.place];
    for (const DelayRow& delay : analysis_.delays) {  // largest first
      if (delay.rank != cause.rank) continue;
      const Place& other = analysis_.places[delay.place];
      if (std::tie(other.op, other.function, other.file) == std::tie(code.op, code.function, code.file))
        return &delay;
    }
    return nullptr;
  }

  void point_to(Finding& finding, const Place& place) const {
    finding.file = place.file;
    finding.line = place.line;
  }

  // Who is to blame for waiting, however far it was passed on.
  void delays() {
    double of_slowest = 0;
    for (const RootCauseRow& cause : analysis_.root_functions) {  // largest first
      if (cause.share < thresholds::kDelay || delayed_by_.size() == thresholds::kMaxDelays) break;
      const DelayRow* const where = where_waited_for(cause);
      const std::optional<std::int32_t> only =
          where != nullptr && where->waiting_ranks == 1 ? std::optional(where->waiting_rank) : std::nullopt;
      Finding& finding =
          add_by_share(cause.share, fmt::format("Delay: {} made {} wait {}",
                                                culprit(analysis_, names_, cause.rank, cause.place),
                                                who_waited(cause, only), seconds(cause.wait_s)));
      finding.rank = cause.rank;
      point_to(finding, analysis_.places[cause.place]);
      if (where != nullptr) {
        const bool all = where->wait_s >= (1 - thresholds::kBlame / 5) * cause.wait_s;
        finding.text += fmt::format(
            "{} in {}", all ? "" : fmt::format(", {} of it", seconds(std::min(where->wait_s, cause.wait_s))),
            text::describe(analysis_.places[where->site], names_));
      }
      finding.text += ".";
      delayed_by_.push_back(cause.rank);
      if (const Place& place = analysis_.places[cause.place]; place.op.empty())
        delay_places_.push_back({analysis_.findings.size() - 1, place.function, place.file});
      if (cause.rank != analysis_.slowest_rank) continue;
      if (of_slowest == 0) of_slowest_ = analysis_.findings.size() - 1;
      of_slowest += cause.share;
    }
    if (of_slowest_ && of_slowest < thresholds::kExplained * imbalance_share()) of_slowest_.reset();
  }

  // Whether the rank may have caused most of the delay itself, in whatever function.
  bool is_root_cause(const DelayRow& delay) const {
    double caused_s = 0;
    for (const RootCauseRow& cause : analysis_.root_functions)
      if (cause.rank == delay.rank) caused_s += cause.wait_s;
    return caused_s >= thresholds::kExplained * delay.wait_s;
  }

  // Ranks that made others wait only because they had waited themselves.
  void passed_on() {
    std::size_t number = 0;
    for (const DelayRow& delay : analysis_.delays) {  // largest first
      if (analysis_.rank_seconds <= 0 || delay.wait_s / analysis_.rank_seconds < thresholds::kDelay) break;
      if (number == thresholds::kMaxPassedOn) break;
      if (!delay.rank || delay.place == 0 || analysis_.places[delay.place].op.empty()) continue;
      if (std::find(delayed_by_.begin(), delayed_by_.end(), *delay.rank) != delayed_by_.end()) continue;
      if (is_root_cause(delay)) continue;
      Finding& finding =
          add("low", delay.wait_s / analysis_.rank_seconds,
              fmt::format("Passed on: {} made {} wait {} in {}; it was kept there itself.",
                          culprit(analysis_, names_, *delay.rank, delay.place),
                          delay.waiting_ranks == 1 ? fmt::format("rank {}", delay.waiting_rank)
                                                   : text::plural(delay.waiting_ranks, "rank"),
                          seconds(delay.wait_s), text::describe(analysis_.places[delay.site], names_)));
      finding.rank = delay.rank;
      point_to(finding, analysis_.places[delay.place]);
      ++number;
    }
  }

  double imbalance_share() const {
    if (!analysis_.efficiency.load_balance) return 0;
    return (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.run.elapsed_s;
  }

  void imbalance() {
    if (!analysis_.efficiency.load_balance) return;
    if (of_slowest_ && imbalance_share() >= thresholds::kImbalance) {
      analysis_.findings[*of_slowest_].text +=
          fmt::format(" Outside MPI it works {}, the mean rank {}.", seconds(*analysis_.max_useful_s),
                      seconds(*analysis_.mean_useful_s));
      return;
    }
    const double mean = *analysis_.mean_useful_s, max = *analysis_.max_useful_s;
    const double excess = max - mean, share = imbalance_share();
    if (share < thresholds::kImbalance) return;
    const std::int32_t slowest = *analysis_.slowest_rank;
    Finding& finding = add_by_share(
        share,
        fmt::format("Load imbalance costs {} of the run: rank {} works {} outside MPI, the mean rank {}.",
                    percent(share), slowest, seconds(max), seconds(mean)));
    finding.rank = slowest;

    std::size_t mpi_ranks = 0;
    for (const RankInfo& rank : analysis_.ranks) mpi_ranks += rank.useful_s.has_value();
    const Blame culprit =
        blame(paths_, weigh([&](const shard::Value& value) {
                const shard::Rank& rank = data_.ranks[value.rank];
                if (value.category == Category::kMpi || (rank.flags & shard::kUsedMpi) == 0) return 0.0;
                return (rank.rank == slowest ? 1.0 : 0.0) - 1.0 / static_cast<double>(mpi_ranks);
              }),
              excess);
    if (culprit.path == 0) return;
    finding.text += fmt::format(" Rank {} spends {} more than the mean in {}.", slowest,
                                seconds(culprit.time_s), name_path(culprit.path));
    point_to(finding, culprit.path);
  }

  // The call site with the most time that is not waiting, and that time; none where one of which it is not
  // known may have more.
  std::pair<const MpiCallRow*, double> most_transfer() const {
    std::pair<const MpiCallRow*, double> most{nullptr, 0};
    double not_known_s = 0;
    for (const MpiCallRow& row : analysis_.mpi_calls) {
      if (!row.transfer_s)
        not_known_s = std::max(not_known_s, row.time_s);
      else if (*row.transfer_s > most.second)
        most = {&row, *row.transfer_s};
    }
    return most.second >= not_known_s ? most : std::pair<const MpiCallRow*, double>{nullptr, 0};
  }

  void name_most_transfer(Finding& finding, std::string_view remark) const {
    const auto [row, time_s] = most_transfer();
    if (row == nullptr) return;
    finding.text += fmt::format("; most in {} ({}{})", text::describe(*row, names_), seconds(time_s), remark);
    finding.file = row->file;
    finding.line = row->line;
    finding.rank = row->spread.max_rank;
  }

  // What of the communication loss the replay on an ideal network tells apart, if one part dominates.
  void network() {
    const Efficiency& e = analysis_.efficiency;
    if (!e.serialization || !e.transfer) return;
    const double elapsed_s = analysis_.run.elapsed_s, ideal_s = *analysis_.wait_quality->ideal_s;
    const double serialization = (ideal_s - *analysis_.max_useful_s) / elapsed_s;
    const double transfer = (elapsed_s - ideal_s) / elapsed_s;
    if (std::max(serialization, transfer) < thresholds::kNetwork) return;
    if (serialization >= transfer) {
      add_by_share(
          serialization,
          fmt::format(
              "Serialization costs {} of the run: on an ideal network it would still take {}, as "
              "ranks wait for each other in turn or start late; none works longer than {} outside MPI.",
              percent(serialization), seconds(ideal_s), seconds(*analysis_.max_useful_s)));
      return;
    }
    Finding& finding = add_by_share(
        transfer,
        fmt::format("Transfer costs {} of the run: on an ideal network it would take {} instead of {}",
                    percent(transfer), seconds(ideal_s), seconds(elapsed_s)));
    name_most_transfer(finding, " of all ranks without waiting");
    finding.text += ".";
    transfer_named_ = true;
  }

  // Waiting that no rank in no function causes most of, and what is not waiting.
  void mpi_with_waits() {
    const double wait_s = *analysis_.mpi_wait_s;
    double explained = 0;
    for (const RootCauseRow& cause : analysis_.root_functions)
      if (cause.share >= thresholds::kDelay) explained += cause.share;
    const double waiting = wait_s / analysis_.rank_seconds;
    if (waiting >= thresholds::kMpi && explained < thresholds::kExplained * waiting) {
      Finding& finding = add_by_share(
          waiting, fmt::format("Ranks wait for each other for {} of all rank time, for many in turn",
                               percent(waiting)));
      const MpiCallRow* most = nullptr;
      for (const MpiCallRow& row : analysis_.mpi_calls)
        if (row.wait_s && *row.wait_s > (most == nullptr ? 0 : *most->wait_s)) most = &row;
      if (most != nullptr) {
        finding.text +=
            fmt::format("; most in {} ({})", text::describe(*most, names_), seconds(*most->wait_s));
        finding.file = most->file;
        finding.line = most->line;
      }
      finding.text += ".";
    }
    const double rest = *analysis_.mpi_transfer_s / analysis_.rank_seconds;
    if (rest < thresholds::kMpi || transfer_named_) return;
    Finding& finding =
        add_by_share(rest, fmt::format("MPI takes {} of all rank time besides waiting", percent(rest)));
    name_most_transfer(finding, "");
    finding.text += ".";
  }

  void mpi() {
    const double time_s = of(analysis_.category_s, Category::kMpi);
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kMpi) return;
    if (analysis_.mpi_wait_s) return mpi_with_waits();
    const double share = time_s / analysis_.rank_seconds;
    double waiting = 0;  // for the slowest rank: another finding's share
    if (analysis_.efficiency.load_balance)
      waiting = (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.run.elapsed_s;
    if (waiting < thresholds::kImbalance) waiting = 0;
    waiting = std::min(waiting, share);

    Finding& finding =
        add_by_share(share - waiting, fmt::format("MPI takes {} of all rank time", percent(share)));
    if (waiting > 0) finding.text += fmt::format(" ({} explained by load imbalance)", percent(waiting));
    if (!analysis_.mpi_calls.empty()) {
      const MpiCallRow& top = analysis_.mpi_calls.front();
      finding.text += fmt::format("; most in {} ({})", text::describe(top, names_), seconds(top.time_s));
      finding.file = top.file;
      finding.line = top.line;
      finding.rank = top.spread.max_rank;
    }
    finding.text += ".";
  }

  static double total(const std::vector<double>& weight) {
    return std::accumulate(weight.begin(), weight.end(), 0.0);
  }

  // "; 80.0 % of it in compute() train.py:57"; that path.
  std::uint32_t blame_most(Finding& finding, const std::vector<double>& weight) const {
    const double all = total(weight);
    const Blame culprit = blame(paths_, weight, all);
    if (culprit.path == 0) return 0;
    finding.text += fmt::format("; {} of it in {}", percent(culprit.time_s / all), name_path(culprit.path));
    point_to(finding, culprit.path);
    return culprit.path;
  }

  // A rank that made others wait by being blocked is one matter, not two.
  void join_with_delays() {
    auto& findings = analysis_.findings;
    for (auto blocked = blocked_places_.rbegin(); blocked != blocked_places_.rend(); ++blocked) {
      const auto delay = std::find_if(delay_places_.begin(), delay_places_.end(), [&](const Named& named) {
        return named.function == blocked->function && named.file == blocked->file;
      });
      if (delay == delay_places_.end()) continue;
      if (level(findings[blocked->finding]) < level(findings[delay->finding])) continue;
      findings[delay->finding].text += " " + findings[blocked->finding].text;
      findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(blocked->finding));
    }
  }

  using Chosen = bool (*)(Activity);
  static bool any_activity(Activity) { return true; }

  // The category of the main threads, of it the chosen activities.
  void of_rank_time(Category which, Chosen chosen, double threshold, std::string_view verb) {
    if (analysis_.rank_seconds <= 0) return;
    const double category_s = of(analysis_.category_s, which);
    if (category_s / analysis_.rank_seconds < threshold) return;
    const auto whole = weigh([&](const shard::Value& v) { return v.category == which ? 1.0 : 0.0; });
    const auto part = weigh([&](const shard::Value& v) {
      return v.category == which && chosen(activity_of(paths_, v.path, which)) ? 1.0 : 0.0;
    });
    const double all = total(whole);
    const double share = all > 0 ? category_s * total(part) / all / analysis_.rank_seconds : 0;
    if (share < threshold) return;
    Finding& finding = add_by_share(share, fmt::format("{} {} of all rank time", verb, percent(share)));
    const std::uint32_t path = blame_most(finding, part);
    finding.text += ".";
    if (path == 0 || which == Category::kPython) return;
    const shard::Frame& frame = *paths_.frame(path);
    blocked_places_.push_back(
        {analysis_.findings.size() - 1, paths_.text(frame.name), paths_.text(frame.file)});
  }

  void python() {
    const std::size_t before = analysis_.findings.size();
    of_rank_time(
        Category::kPython, [](Activity a) { return a == Activity::kInterpreter; }, thresholds::kPython,
        "The Python interpreter runs bytecode for");
    // What was asked for, so never worse than time that is lost.
    if (analysis_.findings.size() > before) {
      Finding& finding = analysis_.findings.back();
      finding.severity = *finding.share >= thresholds::kMostlyPython ? "medium" : "low";
    }
    of_rank_time(
        Category::kPython, [](Activity a) { return a == Activity::kGarbageCollection; }, thresholds::kGarbage,
        "Python's garbage collection takes");
  }

  void idle() {
    const bool gil = analysis_.activity_s[index(Activity::kGilWait)].value_or(0) > 0;
    of_rank_time(
        Category::kIdle, [](Activity a) { return a != Activity::kGilWait; }, thresholds::kIdle,
        gil ? "Apart from MPI, I/O and the GIL, ranks are blocked for"
            : "Ranks are blocked outside MPI and I/O for");
  }

  void waits_for_the_gil() {
    const double threads_s = analysis_.sampled_s - analysis_.helper_idle_s;
    const Seconds& gil = analysis_.active_activity_s[index(Activity::kGilWait)];
    if (!gil || threads_s <= 0 || *gil / threads_s < thresholds::kGil) return;
    const double share = *gil / threads_s;
    Finding& finding = add_by_share(
        share,
        fmt::format("Threads wait for Python's global lock (GIL) for {} of their time", percent(share)));
    blame_most(finding, weigh(
                            [&](const shard::Value& v) {
                              return activity_of(paths_, v.path, v.category) == Activity::kGilWait ? 1.0
                                                                                                   : 0.0;
                            },
                            Threads::kAll));
    finding.text += ". The threads of a process run Python one at a time.";
  }

  static bool is_of_mpi(std::string_view reason) {
    return reason.find("mpi") != std::string_view::npos || reason == "communicator_table_full";
  }

  void measurement() {
    // Of MPI calls and events there may be far more than of samples: what is lost of them is another matter.
    std::uint64_t dropped = 0, dropped_of_mpi = 0, operations = 0;
    for (const auto& [reason, count] : analysis_.run.dropped)
      (is_of_mpi(reason) ? dropped_of_mpi : dropped) += count;
    for (const MpiCallRow& call : analysis_.mpi_calls) operations += call.count;
    const Quality& quality = analysis_.quality;
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const std::uint64_t samples = analysis_.run.samples;
    if (const double s = share(dropped, samples + dropped); s >= thresholds::kDropped)
      add("info", s, fmt::format("{} of what was measured was dropped; see section quality.", percent(s)));
    if (const double s = share(dropped_of_mpi, operations + dropped_of_mpi); s >= thresholds::kDropped)
      add("info", s,
          fmt::format("Of {} of the MPI calls something was dropped; see section quality.", percent(s)));
    if (const double s = share(quality.truncated, samples); s >= thresholds::kTruncated)
      add("info", s, fmt::format("The call path of {} of the samples is cut short.", percent(s)));
    if (const double s = share(quality.merges_failed, quality.merges_tried); s >= thresholds::kMergeFailed)
      add("info", s,
          fmt::format("In {} of the samples Python and native frames could not be joined.", percent(s)));
    if (analysis_.wait_quality) waiting_quality(*analysis_.wait_quality);
    if (samples == 0 && !analysis_.ranks.empty())
      add("info", std::nullopt,
          analysis_.mpi_calls.empty()
              ? "There are no samples: functions, lines and categories are not known."
              : "There are no samples: outside MPI, functions, lines and categories are not known.");
  }

  void waiting_quality(const WaitQuality& quality) {
    if (quality.event_level > 0)
      add("info", std::nullopt,
          fmt::format(
              "There were too many MPI operations for all of them: waiting is computed from a sample of "
              "about one in {} and scaled.",
              text::count(static_cast<double>(std::uint64_t{1} << std::min(quality.event_level, 63u)))));
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const double messages = share(quality.unmatched_messages, quality.messages);
    const double collectives = share(quality.unmatched_collectives, quality.collectives);
    if (const double s = std::max(messages, collectives); s >= thresholds::kUnmatched)
      add("info", s,
          fmt::format("{} of the {} have no known other side: waiting in them is not counted.", percent(s),
                      messages >= collectives ? "messages" : "collective operations"));
    const bool early =
        quality.clock_violations != 0 && quality.worst_violation_s >= thresholds::kClockError_s;
    std::string sentence;
    if (early)
      sentence =
          fmt::format("{} seem received before sent, by at most {}: waiting may be wrong by that.",
                      text::plural(quality.clock_violations, "message"), seconds(quality.worst_violation_s));
    if (analysis_.nodes.size() > 1) {
      const char* const space = sentence.empty() ? "" : " ";
      if (!quality.clock_error_s)
        sentence += fmt::format(
            "{}The clocks of some nodes cannot be compared: waiting between these is not known.", space);
      else if (early || *quality.clock_error_s >= thresholds::kClockError_s)
        sentence += fmt::format(
            "{}The nodes' clocks are known to {} only: shorter waits between nodes are not counted.", space,
            seconds(*quality.clock_error_s));
    }
    if (!sentence.empty()) add("info", std::nullopt, std::move(sentence));
  }

  const shard::ShardData& data_;
  const std::vector<shard::Value>& charged_;
  const CallPaths& paths_;
  Analysis& analysis_;
  text::ShortPaths names_;
  std::vector<std::int32_t> delayed_by_;   // ranks with a finding on delay
  std::optional<std::size_t> of_slowest_;  // the finding that explains the slowest rank's imbalance
  bool transfer_named_ = false;
  struct Named {
    std::size_t finding;
    std::string_view function, file;
  };
  std::vector<Named> delay_places_, blocked_places_;  // functions in findings on delay; on blocked time
};

}  // namespace

void find_bottlenecks(Analysis& analysis) {
  if (analysis.rank_seconds <= 0) return;
  const text::ShortPaths names(analysis);
  const std::map<std::int32_t, WaitPart> causes = largest_causes(analysis);
  std::vector<Bottleneck> run = classes_of_run(analysis, names);
  std::erase_if(run, [](const Bottleneck& b) { return b.share < thresholds::kBottleneck; });
  largest_first(run);
  analysis.bottlenecks = std::move(run);
  for (const RankInfo& rank : analysis.ranks) {
    if (rank.elapsed_s <= 0) continue;
    std::vector<Bottleneck> classes = classes_of_rank(analysis, names, causes, rank);
    largest_first(classes);
    if (classes.front().share > 0) analysis.bottlenecks.push_back(std::move(classes.front()));
  }
}

void find_findings(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                   const CallPaths& paths, Analysis& analysis) {
  Finder(data, charged, paths, analysis).run();
}

}  // namespace clusterprof::report
