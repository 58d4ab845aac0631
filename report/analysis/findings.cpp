// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/findings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "report/analysis/limits.hpp"
#include "report/analysis/placement.hpp"
#include "report/analysis/verdict.hpp"
#include "report/text/format.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using text::percent;
using text::seconds;

double of(const OptionalCategorySeconds& categories, Category category) {
  return categories[static_cast<std::size_t>(category)].value_or(0);
}

constexpr double kMissed = 0.05;  // of a rank's time, between calls that were timed and samples

// What to try.
constexpr const char* kTryBalance = " Give the ranks equal work.";
constexpr const char* kTrySerialization = " Let ranks do something else while they wait for their turn.";
constexpr const char* kTryMessages = " Send fewer and larger messages, or overlap them with computing.";
constexpr const char* kTryPython = " Move the loop to NumPy or compiled code.";
constexpr const char* kTryGarbage =
    " Make fewer objects that refer to each other, or collect less often (gc.freeze).";
constexpr const char* kTryGil = " Use processes, or code that lets go of the lock.";
constexpr const char* kTryFiles = " Read and write less often, in larger pieces.";
constexpr const char* kTrySync = " Call fsync less often, once for many writes.";
constexpr const char* kTryBuffer = " Buffer them.";
constexpr const char* kTryCache = " Work on blocks that fit into the cache, or on smaller types.";
constexpr const char* kTryPages = " Reuse memory instead of freeing it, or use huge pages.";
constexpr const char* kTryKernel = " Make fewer system calls.";

const char* try_for(OffCpu kind) {
  switch (kind) {
    case OffCpu::kSleep:
      return " Wait for what the sleep is for.";
    case OffCpu::kLock:
      return " Hold the lock for less, or split what it protects.";
    case OffCpu::kPoll:
      return " Have something to do until data come.";
    case OffCpu::kChild:
      return " Start child processes earlier, or work while they do.";
    case OffCpu::kGil:
    case OffCpu::kFile:
    case OffCpu::kNetwork:
    case OffCpu::kPipe:
    case OffCpu::kOther:
      break;
  }
  return " Find out what they wait for.";
}

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
  std::vector<std::uint32_t> heaviest(paths.size(), 0);  // child, if any is heavy
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    std::uint32_t& child = heaviest[paths.parent(path)];
    if (weight[path] > 0 && weight[path] >= enough && (child == 0 || weight[path] > weight[child]))
      child = path;
  }

  Blame result;
  for (std::uint32_t at = paths.size() == 0 ? 0 : heaviest[0]; at != 0; at = heaviest[at])
    if (paths.source(at) == at) result = {at, weight[at]};
  return result;
}

class Finder {
 public:
  Finder(const PathTime& time, const CallPaths& paths, Analysis& analysis)
      : time_(time), paths_(paths), analysis_(analysis), names_(analysis) {}

  void run() {
    abnormal_ends();
    delays();
    passed_on();
    imbalance();
    network();
    mpi();
    waits_for_the_gil();
    python();
    memory();
    pages();
    io();
    small_io();
    idle();
    kernel();
    for (Finding& finding : placement_findings(analysis_)) analysis_.findings.push_back(std::move(finding));
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

  std::string name_path(std::uint32_t path) const { return report::name_path(paths_, names_, path); }

  void point_to(Finding& finding, std::uint32_t path) const {
    const shard::Frame& f = *paths_.frame(path);
    finding.file = paths_.text(f.file);
    finding.line = f.line;
  }

  // Seconds by path. `ns_of`: of a path and category.
  template <typename NsOf>
  std::vector<double> weigh(const NsOf& ns_of) const {
    std::vector<double> weight(paths_.size(), 0.0);
    for (std::uint32_t path = 0; path < paths_.size(); ++path)
      for (std::size_t c = 0; c < shard::kCategories; ++c) {
        const auto category = static_cast<Category>(c);
        const double ns = ns_of(path, category);
        if (ns != 0) weight[paths_.counted(path, category)] += ns / 1e9;
      }
    return weight;
  }
  double main_ns(std::uint32_t path, Category category) const {
    return static_cast<double>(time_.main_ns(cell_of(path, category)));
  }

  void abnormal_ends() {
    std::map<int, std::vector<std::int32_t>> by_signal, by_status;
    std::vector<std::int32_t> lost, unfinished;
    std::map<std::int32_t, std::string> last_seen;
    for (const RankInfo& rank : analysis_.ranks) {
      if (rank.exit_signal)
        by_signal[*rank.exit_signal].push_back(rank.rank);
      else if (rank.exit_status.value_or(0) != 0)
        by_status[*rank.exit_status].push_back(rank.rank);
      else if (rank.lost)
        (rank.exit_status ? unfinished : lost).push_back(rank.rank);
      // The innermost frame that has a line, if there is one: below it may be an interpreter's.
      const auto& path = rank.last_call_path;
      const auto frame = std::find_if(path.rbegin(), path.rend(), [](const std::string& text) {
        return text.find(" (") != std::string::npos;
      });
      if (!path.empty()) last_seen.emplace(rank.rank, frame != path.rend() ? *frame : path.back());
    }
    const auto who = [](const std::vector<std::int32_t>& ranks) {
      return fmt::format("{} {}", ranks.size() == 1 ? "Rank" : "Ranks", text::rank_list(ranks));
    };
    // Where that was, when it was the same place for all of them; else of the first.
    const auto where = [&](const std::vector<std::int32_t>& ranks) {
      const auto first = last_seen.find(ranks.front());
      if (first == last_seen.end()) return std::string(".");
      const bool same = std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
        const auto found = last_seen.find(rank);
        return found != last_seen.end() && found->second == first->second;
      });
      return same ? fmt::format(", last seen in {}.", first->second)
                  : fmt::format("; rank {} was last seen in {}.", ranks.front(), first->second);
    };
    for (const auto& [signal, ranks] : by_signal)
      add("high", std::nullopt,
          fmt::format("{} ended by {}{}", who(ranks), text::signal_name(signal), where(ranks)))
          .rank = ranks.front();
    for (const auto& [status, ranks] : by_status)
      add("high", std::nullopt, fmt::format("{} exited with status {}{}", who(ranks), status, where(ranks)))
          .rank = ranks.front();
    if (!unfinished.empty())
      add("high", std::nullopt,
          fmt::format("{} ended without MPI_Finalize{}", who(unfinished), where(unfinished)))
          .rank = unfinished.front();
    if (!lost.empty())
      add("high", std::nullopt,
          fmt::format("{} ended without saying how (SIGKILL, out of memory, node failure?){}", who(lost),
                      where(lost)))
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
    return (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.recorded_s;
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
        blame(paths_, weigh([&](std::uint32_t path, Category category) {
                if (category == Category::kMpi) return 0.0;
                const std::size_t cell = cell_of(path, category);
                return static_cast<double>(time_.apart_ns(cell)) -
                       static_cast<double>(time_.mpi_ranks_ns(cell)) / static_cast<double>(mpi_ranks);
              }),
              excess);
    if (culprit.path != 0) {
      finding.text += fmt::format(" Rank {} spends {} more than the mean in {}.", slowest,
                                  seconds(culprit.time_s), name_path(culprit.path));
      point_to(finding, culprit.path);
    }
    finding.text += kTryBalance;
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
              "ranks wait for each other in turn or start late; none works longer than {} outside MPI.{}",
              percent(serialization), seconds(ideal_s), seconds(*analysis_.max_useful_s), kTrySerialization));
      return;
    }
    Finding& finding = add_by_share(
        transfer,
        fmt::format("Transfer costs {} of the run: on an ideal network it would take {} instead of {}",
                    percent(transfer), seconds(ideal_s), seconds(elapsed_s)));
    name_most_transfer(finding, " of all ranks without waiting");
    finding.text += std::string(".") + kTryMessages;
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
    finding.text += std::string(".") + kTryMessages;
  }

  void mpi() {
    const double time_s = of(analysis_.category_s, Category::kMpi);
    if (analysis_.rank_seconds <= 0 || time_s / analysis_.rank_seconds < thresholds::kMpi) return;
    if (analysis_.mpi_wait_s) return mpi_with_waits();
    const double share = time_s / analysis_.rank_seconds;
    double waiting = 0;  // for the slowest rank: another finding's share
    if (analysis_.efficiency.load_balance)
      waiting = (*analysis_.max_useful_s - *analysis_.mean_useful_s) / analysis_.recorded_s;
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
    finding.text += std::string(".") + kTryMessages;
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

  using Chosen = std::function<bool(std::uint32_t path)>;  // of those with the category in question
  Chosen any() const {
    return [](std::uint32_t) { return true; };
  }
  Chosen doing(Category category, Activity activity) const {
    return [this, category, activity](std::uint32_t path) {
      return activity_of(paths_, path, category) == activity;
    };
  }

  // The category of the main threads, of it what is chosen. Null: too little.
  Finding* of_rank_time(Category which, const Chosen& chosen, double threshold, std::string_view verb,
                        std::string_view remark = {}) {
    if (analysis_.rank_seconds <= 0) return nullptr;
    const double category_s = of(analysis_.category_s, which);
    if (category_s / analysis_.rank_seconds < threshold) return nullptr;
    const auto whole = weigh([&](std::uint32_t path, Category category) {
      return category == which ? main_ns(path, category) : 0.0;
    });
    const auto part = weigh([&](std::uint32_t path, Category category) {
      const double ns = category == which ? main_ns(path, category) : 0.0;
      return ns != 0 && chosen(path) ? ns : 0.0;
    });
    const double all = total(whole);
    const double share = all > 0 ? category_s * total(part) / all / analysis_.rank_seconds : 0;
    if (share < threshold) return nullptr;
    Finding& finding =
        add_by_share(share, fmt::format("{} {} of all rank time{}", verb, percent(share), remark));
    const std::uint32_t path = blame_most(finding, part);
    finding.text += ".";
    if (path == 0 || which == Category::kPython) return &finding;
    const shard::Frame& frame = *paths_.frame(path);
    blocked_places_.push_back(
        {analysis_.findings.size() - 1, paths_.text(frame.name), paths_.text(frame.file)});
    return &finding;
  }

  void python() {
    // What was asked for, so never worse than time that is lost.
    if (Finding* const finding =
            of_rank_time(Category::kPython, doing(Category::kPython, Activity::kInterpreter),
                         thresholds::kPython, "The Python interpreter runs bytecode for")) {
      finding->severity = *finding->share >= thresholds::kMostlyPython ? "medium" : "low";
      finding->text += kTryPython;
    }
    if (Finding* const finding =
            of_rank_time(Category::kPython, doing(Category::kPython, Activity::kGarbageCollection),
                         thresholds::kGarbage, "Python's garbage collection takes"))
      finding->text += kTryGarbage;
  }

  double of_all(double time_s) const {
    return analysis_.rank_seconds > 0 ? time_s / analysis_.rank_seconds : 0;
  }

  // Computing on data that no cache holds.
  void memory() {
    if (analysis_.memory_functions.empty()) return;
    double time_s = 0;
    for (const MemoryRow& row : analysis_.memory_functions) time_s += row.time_s;
    const double share = of_all(time_s);
    if (share < thresholds::kMemory) return;
    const MemoryRow& most = analysis_.memory_functions.front();
    Finding& finding =
        add_by_share(share, fmt::format("Memory bounds {} of all rank time: ", percent(share)));
    finding.text += most.path == 0 ? std::string("most of it") : name_path(most.path);
    if (analysis_.memory_functions.size() > 1)
      finding.text += fmt::format(" ({})", percent(of_all(most.time_s)));
    finding.text += fmt::format(" computes on {}.{}", memory_evidence(most), kTryCache);
    finding.rank = most.rank;
    if (most.path != 0) point_to(finding, most.path);
  }

  bool is_of_pages(std::uint32_t path) const {
    return activity_of(paths_, path, Category::kSystem) == Activity::kPageFault ||
           maps_memory(system_call_of(paths_, path));
  }

  // Page faults, and calls that map and unmap memory.
  void pages() {
    const Limits& limits = analysis_.limits;
    std::string parts;
    const auto part = [&](std::string_view name, double time_s) {
      if (of_all(time_s) >= thresholds::kPageFaults / 10)
        parts += fmt::format("{}{} {}", parts.empty() ? ": " : ", ", name, percent(of_all(time_s)));
    };
    part("page faults", limits.page_fault_s);
    part("mapping and unmapping (mmap, munmap, brk)", limits.mapping_s);
    std::uint64_t faults = 0;
    bool known = !analysis_.ranks.empty();
    for (const RankInfo& rank : analysis_.ranks) {
      faults += rank.minor_faults.value_or(0) + rank.major_faults.value_or(0);
      known = known && rank.minor_faults;
    }
    if (known)
      parts += fmt::format("; {} faults/s per rank", text::count(of_all(static_cast<double>(faults))));
    if (Finding* const finding = of_rank_time(
            Category::kSystem, [this](std::uint32_t path) { return is_of_pages(path); },
            thresholds::kPageFaults, "Memory pages (page faults and mapping) take", parts))
      finding->text += kTryPages;
  }

  void kernel() {
    const bool apart = analysis_.activity_s[index(Activity::kPageFault)].has_value();
    Finding* const finding = of_rank_time(
        Category::kSystem, [this](std::uint32_t path) { return !is_of_pages(path); }, thresholds::kSystem,
        apart ? "System calls other than I/O and mapping take"
              : "The kernel (system calls other than I/O, page faults) takes");
    if (finding != nullptr && apart) finding->text += kTryKernel;
  }

  // "Rank 0 spends 34.0 % of its time in 12000 fsync calls on out.dat"
  std::string who_calls(const IoCallRow& row, double share) const {
    const auto rank = rank_of(row);
    // Timed exactly, unlike the time by category.
    const bool more = rank != analysis_.ranks.end() && rank->threads == 1 &&
                      share - of(rank->category_s, Category::kIo) / rank->recorded_s >= kMissed;
    return fmt::format("Rank {} spends {} of its time in {}{}", row.max_rank, percent(share),
                       io_calls(analysis_, row, row.rank_count),
                       more ? " (timed; samples miss part of such short waits)" : "");
  }

  std::string place_of(const IoCallRow& row) const {
    if (row.function.empty()) return {};
    const std::string place = names_.place(row.file, row.line);
    return fmt::format("{}{}{}", text::function_label(row.function, row.kind), place.empty() ? "" : " ",
                       place);
  }

  // The rank that has most of it; end() where nothing is recorded of it.
  std::vector<RankInfo>::const_iterator rank_of(const IoCallRow& row) const {
    const std::vector<RankInfo>& ranks = analysis_.ranks;
    const auto rank =
        std::lower_bound(ranks.begin(), ranks.end(), row.max_rank,
                         [](const RankInfo& r, std::int32_t number) { return r.rank < number; });
    return rank == ranks.end() || rank->rank != row.max_rank || rank->recorded_s <= 0 ? ranks.end() : rank;
  }

  // Of its own time, what the rank that has most of it spends in one kind of calls.
  double rank_share(const IoCallRow& row) const {
    const auto rank = rank_of(row);
    if (rank == analysis_.ranks.end()) return 0;
    return row.rank_time_s / rank->recorded_s;
  }

  static const char* try_for(const IoCallRow& row) {
    return row.operation == shard::IoOperation::kSync ? kTrySync : kTryFiles;
  }

  void io() {
    const IoCallRow* most = nullptr;
    if (analysis_.io && !analysis_.io->calls.empty()) most = &analysis_.io->calls.front();
    if (Finding* const finding =
            of_rank_time(Category::kIo, any(), thresholds::kIo, "File and socket calls take")) {
      const bool explains =
          most != nullptr && most->time_s >= thresholds::kBlame * of(analysis_.category_s, Category::kIo);
      if (explains) {
        finding->text += fmt::format(" {}.", who_calls(*most, rank_share(*most)));
        finding->rank = most->max_rank;
        if (finding->file.empty() && !most->file.empty()) {
          finding->text.insert(finding->text.size() - 1, fmt::format(", {}", place_of(*most)));
          finding->file = most->file;
          finding->line = most->line;
        }
      }
      finding->text += explains ? try_for(*most) : kTryFiles;
      return;
    }
    // Too little of all ranks' time, but a rank's.
    if (most == nullptr) return;
    for (const IoCallRow& row : analysis_.io->calls)
      if (row.rank_time_s > most->rank_time_s) most = &row;
    const double share = rank_share(*most);
    if (share < thresholds::kIo) return;
    const std::string place = place_of(*most);
    Finding& finding = add_by_share(
        of_all(most->time_s),
        fmt::format("{}{}{}.{}", who_calls(*most, share), place.empty() ? "" : ", ", place, try_for(*most)));
    finding.rank = most->max_rank;
    finding.file = most->file;
    finding.line = most->line;
  }

  // Many reads or writes of little.
  void small_io() {
    if (!analysis_.io) return;
    for (const IoCallRow& row : analysis_.io->calls) {  // largest first
      const double share = of_all(row.time_s);
      if (share < thresholds::kSmallIo) return;
      const bool read = row.operation == shard::IoOperation::kRead;
      if ((!read && row.operation != shard::IoOperation::kWrite) || row.count < thresholds::kManyCalls)
        continue;
      const double size = static_cast<double>(row.bytes) / static_cast<double>(row.count);
      if (size >= thresholds::kSmallIoBytes) continue;
      const std::string place = place_of(row);
      Finding& finding =
          add_by_share(share, fmt::format("Small {}: {} of {} on average take {} of all rank time{}{}.{}",
                                          read ? "reads" : "writes", io_calls(analysis_, row, row.count),
                                          text::bytes(size), percent(share), place.empty() ? "" : ", ", place,
                                          kTryBuffer));
      finding.rank = row.max_rank;
      finding.file = row.file;
      finding.line = row.line;
      return;
    }
  }

  void idle() {
    Limits others = analysis_.limits;
    double& gil_s = others.idle_s[static_cast<std::size_t>(OffCpu::kGil)];
    const bool gil = gil_s > 0 || analysis_.activity_s[index(Activity::kGilWait)].value_or(0) > 0;
    gil_s = 0;
    const std::string kinds = idle_kinds(others);
    Finding* const finding = of_rank_time(
        Category::kIdle,
        [this](std::uint32_t path) {
          return activity_of(paths_, path, Category::kIdle) != Activity::kGilWait;
        },
        thresholds::kIdle,
        gil ? "Apart from MPI, I/O and the GIL, ranks are blocked for"
            : "Ranks are blocked outside MPI and I/O for",
        kinds.empty() ? "" : fmt::format(" ({})", kinds));
    if (finding == nullptr) return;
    const auto most = std::max_element(others.idle_s.begin(), others.idle_s.end()) - others.idle_s.begin();
    finding->text += report::try_for(static_cast<OffCpu>(most));
  }

  void waits_for_the_gil() {
    const double threads_s = analysis_.sampled_s - analysis_.helper_idle_s;
    const Seconds& gil = analysis_.active_activity_s[index(Activity::kGilWait)];
    if (!gil || threads_s <= 0 || *gil / threads_s < thresholds::kGil) return;
    const double share = *gil / threads_s;
    Finding& finding = add_by_share(
        share,
        fmt::format("Threads wait for Python's global lock (GIL) for {} of their time", percent(share)));
    blame_most(finding, weigh([&](std::uint32_t path, Category category) {
                 if (activity_of(paths_, path, category) != Activity::kGilWait) return 0.0;
                 return main_ns(path, category) +
                        static_cast<double>(time_.helper_ns(cell_of(path, category)));
               }));
    finding.text += ". The threads of a process run Python one at a time.";
    finding.text += kTryGil;
  }

  static bool is_of_mpi(std::string_view reason) {
    return reason.find("mpi") != std::string_view::npos || reason == "communicator_table_full";
  }

  void measurement() {
    // Of MPI calls and events there may be far more than of samples: what is lost of them is another matter.
    std::uint64_t dropped = 0, dropped_of_mpi = 0, throttled = 0, operations = 0;
    for (const auto& [reason, count] : analysis_.run.dropped)
      (is_of_mpi(reason) ? dropped_of_mpi : reason == kThrottled ? throttled : dropped) += count;
    for (const MpiCallRow& call : analysis_.mpi_calls) operations += call.count;
    const Quality& quality = analysis_.quality;
    const auto share = [](std::uint64_t part, std::uint64_t whole) {
      return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
    };
    const std::uint64_t samples = analysis_.run.samples;
    if (const double s = share(dropped, samples + dropped); s >= thresholds::kDropped)
      add("info", s, fmt::format("{} of what was measured was dropped; see section quality.", percent(s)));
    // The time between is told by the samples that were taken.
    if (const double s = share(throttled, samples + throttled); s >= thresholds::kDropped)
      add("info", s,
          fmt::format("{} of the samples were left out, since they would have taken the program's time "
                      "(throttled): a lower rate shows as much.",
                      percent(s)));
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

  const PathTime& time_;
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

void find_findings(const PathTime& time, const CallPaths& paths, Analysis& analysis) {
  Finder(time, paths, analysis).run();
}

}  // namespace clusterprof::report
