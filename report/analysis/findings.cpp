// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
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

std::vector<Bottleneck> classes_of_run(const Analysis& analysis) {
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
                       fmt::format("outside MPI rank {} takes {}, the mean rank {}", *analysis.slowest_rank,
                                   seconds(max), seconds(mean))});
    classes.push_back({std::nullopt, "communication", std::max(0.0, 1 - max / elapsed),
                       fmt::format("even the busiest rank is outside MPI for only {} of {}", seconds(max),
                                   seconds(elapsed))});
  }
  return classes;
}

std::vector<Bottleneck> classes_of_rank(const Analysis& analysis, const RankInfo& rank) {
  std::vector<Bottleneck> classes;
  for (const auto& [category, name] : kPlainClasses) {
    const double time_s = of(rank.category_s, category);
    classes.push_back({rank.rank, name, time_s / rank.elapsed_s,
                       fmt::format("{} of its {}", seconds(time_s), seconds(rank.elapsed_s))});
  }
  if (rank.useful_s && analysis.max_useful_s) {
    const double mpi_s = of(rank.category_s, Category::kMpi);
    const double waiting = std::min(mpi_s, *analysis.max_useful_s - *rank.useful_s);
    classes.push_back(
        {rank.rank, "imbalance", waiting / rank.elapsed_s,
         fmt::format("works {} less than rank {}, the slowest", seconds(waiting), *analysis.slowest_rank)});
    classes.push_back({rank.rank, "communication", (mpi_s - waiting) / rank.elapsed_s,
                       fmt::format("{} in MPI, {} of it not explained by imbalance", seconds(mpi_s),
                                   seconds(mpi_s - waiting))});
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
    imbalance();
    mpi();
    waits_for_the_gil();
    python();
    of_rank_time(Category::kIo, any_activity, thresholds::kIo, "File and socket calls take");
    idle();
    of_rank_time(Category::kSystem, any_activity, thresholds::kSystem,
                 "The kernel (system calls other than I/O, page faults) takes");
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

  void imbalance() {
    if (!analysis_.efficiency.load_balance) return;
    const double mean = *analysis_.mean_useful_s, max = *analysis_.max_useful_s;
    const double excess = max - mean, share = excess / analysis_.run.elapsed_s;
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

  void mpi() {
    const double time_s = of(analysis_.category_s, Category::kMpi);
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kMpi) return;
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

  // "; 80.0 % of it in compute() train.py:57"
  void blame_most(Finding& finding, const std::vector<double>& weight) const {
    const double all = total(weight);
    const Blame culprit = blame(paths_, weight, all);
    if (culprit.path == 0) return;
    finding.text += fmt::format("; {} of it in {}", percent(culprit.time_s / all), name_path(culprit.path));
    point_to(finding, culprit.path);
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
    blame_most(finding, part);
    finding.text += ".";
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

  void measurement() {
    std::uint64_t dropped = 0;
    for (const auto& [reason, count] : analysis_.run.dropped) dropped += count;
    const Quality& quality = analysis_.quality;
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const std::uint64_t samples = analysis_.run.samples;
    if (const double s = share(dropped, samples + dropped); s >= thresholds::kDropped)
      add("info", s, fmt::format("{} of what was measured was dropped; see section quality.", percent(s)));
    if (const double s = share(quality.truncated, samples); s >= thresholds::kTruncated)
      add("info", s, fmt::format("The call path of {} of the samples is cut short.", percent(s)));
    if (const double s = share(quality.merges_failed, quality.merges_tried); s >= thresholds::kMergeFailed)
      add("info", s,
          fmt::format("In {} of the samples Python and native frames could not be joined.", percent(s)));
    if (samples == 0 && !analysis_.ranks.empty())
      add("info", std::nullopt,
          analysis_.mpi_calls.empty()
              ? "There are no samples: functions, lines and categories are not known."
              : "There are no samples: outside MPI, functions, lines and categories are not known.");
  }

  const shard::ShardData& data_;
  const std::vector<shard::Value>& charged_;
  const CallPaths& paths_;
  Analysis& analysis_;
  text::ShortPaths names_;
};

}  // namespace

void find_bottlenecks(Analysis& analysis) {
  if (analysis.rank_seconds <= 0) return;
  std::vector<Bottleneck> run = classes_of_run(analysis);
  std::erase_if(run, [](const Bottleneck& b) { return b.share < thresholds::kBottleneck; });
  largest_first(run);
  analysis.bottlenecks = std::move(run);
  for (const RankInfo& rank : analysis.ranks) {
    if (rank.elapsed_s <= 0) continue;
    std::vector<Bottleneck> classes = classes_of_rank(analysis, rank);
    largest_first(classes);
    if (classes.front().share > 0) analysis.bottlenecks.push_back(std::move(classes.front()));
  }
}

void find_findings(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                   const CallPaths& paths, Analysis& analysis) {
  Finder(data, charged, paths, analysis).run();
}

}  // namespace clusterprof::report
