// SPDX-License-Identifier: BSD-3-Clause
// Classifies what limits the run, its ranks and its regions. Definitions: docs/metrics.md, "Bottlenecks".
#include "report/analysis/bottlenecks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_builder.hpp"
#include "report/analysis/limits.hpp"
#include "report/analysis/placement.hpp"
#include "report/analysis/regions.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using Key = EvidenceKey;

// The classes for the time of threads outside MPI.
constexpr std::pair<Limit, const char*> kPlainClasses[] = {
    {Limit::kCompute, "compute"}, {Limit::kMemory, "memory"}, {Limit::kPython, "python"},
    {Limit::kIo, "io"},           {Limit::kIdle, "idle"},     {Limit::kRunnable, "runnable"}};

// Waiting for data that threads or processes of the rank's own make too slowly.
constexpr const char* kInputClass = "input";

// What is of the class input and would be of this one if there were no class input.
double of_input_s(const Limits& limits, Limit limit) {
  double time_s = limits.workers_s[index(limit)] - verdict_workers_s(limits, limit);
  if (limit == Limit::kIo) time_s += limits.input_io_s;
  if (limit == Limit::kIdle)
    time_s = std::accumulate(limits.input_idle_s.begin(), limits.input_idle_s.end(), time_s);
  return time_s;
}

const Finding* slow_input(const Analysis& analysis) {
  const auto found = std::ranges::find_if(analysis.findings, [](const Finding& finding) {
    return finding.kind == FindingKind::kInputBound && finding.site;
  });
  return found == analysis.findings.end() ? nullptr : &*found;
}

bool is_below(const CallPaths& paths, std::uint32_t path, const SourceLocation& place) {
  if (place.function.empty()) return path != 0;  // the finding names none
  for (; path != 0; path = paths.parent(path)) {
    const SourceLocation at = place_of(paths, path);
    if (at.file == place.file && at.function == place.function && at.line == place.line) return true;
  }
  return false;
}

// Leaves the class input to ranks that wait where the finding says, and adds these up for the run. Where
// other ranks wait, it is idle time or I/O as elsewhere.
void keep_slow_input(const CallPaths& paths, Analysis& analysis) {
  const auto forget = [](Limits& limits) {
    limits.input_idle_s = {};
    limits.input_io_s = limits.input_relayed_s = 0;
  };
  const Finding* const slow = slow_input(analysis);
  Limits& sum = analysis.limits;
  for (RankInfo& rank : analysis.ranks) {
    Limits& limits = rank.limits;
    if (slow == nullptr || !is_below(paths, limits.input_path, slow->place)) {
      forget(limits);
      continue;
    }
    for (std::size_t k = 0; k < kOffCpuKinds; ++k) sum.input_idle_s[k] += limits.input_idle_s[k];
    sum.input_io_s += limits.input_io_s;
    sum.input_relayed_s += limits.input_relayed_s;
  }
}

void largest_first(std::vector<Bottleneck>& classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const Bottleneck& a, const Bottleneck& b) { return a.share > b.share; });
}

// Adds places to Analysis::places, each once.
class LocationTable {
 public:
  LocationTable(const CallPaths& paths, std::vector<SourceLocation>& places)
      : paths_(paths), places_(places) {
    if (places_.empty()) places_.emplace_back();
  }
  LocationIndex of(std::uint32_t path) {
    if (path == 0) return 0;
    const auto [known, is_new] = by_path_.try_emplace(path, static_cast<LocationIndex>(places_.size()));
    if (is_new) places_.push_back(place_of(paths_, path));
    return known->second;
  }
  LocationIndex of(const SourceLocation& place) {
    places_.push_back(place);
    return static_cast<LocationIndex>(places_.size() - 1);
  }

 private:
  const CallPaths& paths_;
  std::vector<SourceLocation>& places_;
  std::map<std::uint32_t, LocationIndex> by_path_;
};

class Describer {
 public:
  Describer(const CallPaths& paths, Analysis& analysis)
      : places_(paths, analysis.places), a_(analysis), input_(slow_input(analysis)) {
    if (input_ != nullptr) {
      input_place_ = places_.of(input_->place);
      input_site_ = places_.of(*input_->site);
    }
    if (!a_.io) return;
    for (const IoCallRow& row : a_.io->calls)  // largest first
      if (row.time_s > 0) io_of_rank_.try_emplace(row.max_rank, &row);
  }

  // Whether main threads wait for data that is made too slowly, which then is a class of its own.
  [[nodiscard]] bool has_input() const { return input_ != nullptr; }
  void add_input(const Limits& limits, double whole_s, Bottleneck& row) const {
    row.evidence.set(Key::kTime, input_s(limits));
    row.evidence.set(Key::kWhole, whole_s);
    row.evidence.set(Key::kWorkerKind, std::string(input_->evidence.name(Key::kWorkerKind)));
    row.evidence.set(Key::kWorkersBusy, input_->evidence.number(Key::kWorkersBusy));
    row.place = input_place_;
    row.cause = input_site_;
  }

  void add(Limit limit, const Limits& limits, double whole_s, Bottleneck& row) {
    const double time_s = verdict_s(limits, limit);
    row.evidence.set(Key::kTime, time_s);
    row.evidence.set(Key::kWhole, whole_s);
    const auto part = [&](Key key, double part_s) {
      if (part_s > 0) row.evidence.set(key, part_s);
    };
    const double workers_s = verdict_workers_s(limits, limit);
    part(Key::kWorkersTime, workers_s);
    if (workers_s > 0 && limits.threads_s > 0) {
      const double all_s = std::accumulate(limits.workers_s.begin(), limits.workers_s.end(), 0.0);
      const bool only = limits.threads_s >= (1 - kNegligible) * all_s;
      row.evidence.set(Key::kWorkerKind, std::string(only ? "threads" : "threads and processes"));
    }
    if (limit == Limit::kIdle) add_idle_kinds(verdict_idle_s(limits), row.evidence);
    if (limit == Limit::kCompute) part(Key::kKernel, limits.kernel_s);
    if (limit == Limit::kMemory) {
      const double own_s = limits.time_s[index(limit)];
      part(Key::kData, std::max(0.0, own_s - limits.page_fault_s - limits.mapping_s));
      part(Key::kPageFault, limits.page_fault_s);
      part(Key::kMapping, limits.mapping_s);
    }
    // The place may have its time from what is of the class input.
    if (of_input_s(limits, limit) > kNegligible * time_s) return;
    if (const std::uint32_t path = limits.most_path[index(limit)]; path != 0) {
      row.place = places_.of(path);
      row.evidence.set(Key::kPlaceTime, limits.most_s[index(limit)]);
    }
  }
  // How much a cache would have to hold for the function with most of the time.
  void add_data(Bottleneck& row) {
    if (a_.memory_functions.empty()) return;
    row.cause = places_.of(a_.memory_functions.front().path);
    add_memory_evidence(a_.memory_functions.front(), row.evidence);
  }
  // The file calls with most of the time, for one rank or for all.
  void add_files(Bottleneck& row) const {
    const IoCallRow* calls = nullptr;
    if (row.rank) {
      const auto known = io_of_rank_.find(*row.rank);
      if (known != io_of_rank_.end()) calls = known->second;
    } else if (a_.io && !a_.io->calls.empty() && a_.io->calls.front().time_s > 0) {
      calls = &a_.io->calls.front();
    }
    if (calls == nullptr) return;
    add_io_evidence(a_, *calls, row.rank ? calls->rank_count : calls->count, row.evidence);
    row.evidence.set(Key::kCallTime, row.rank ? calls->rank_time_s : calls->time_s);
  }

 private:
  static constexpr double kNegligible = 0.02;
  LocationTable places_;
  const Analysis& a_;
  const Finding* input_;  // null: there is no such class
  LocationIndex input_place_ = 0, input_site_ = 0;
  std::map<std::int32_t, const IoCallRow*> io_of_rank_;  // for each rank, the call in which it spends most
};

// The largest root cause.
void add_delay(const Analysis& analysis, Bottleneck& row) {
  if (analysis.root_functions.empty()) return;
  const RootCauseRow& cause = analysis.root_functions.front();
  row.cause = cause.place;
  row.evidence.set(Key::kCauseRank, cause.rank);
  row.evidence.set(cause.at_least ? Key::kWaitingRanksAtLeast : Key::kWaitingRanks, cause.waiting_ranks);
  row.evidence.set(Key::kWait, cause.wait_s);
}

void add_mpi_io(double mpi_io_s, double whole_s, Bottleneck& row) {
  if (mpi_io_s <= 0) return;
  row.share += mpi_io_s / whole_s;
  row.evidence.set(Key::kMpiIo, mpi_io_s);
}

std::vector<Bottleneck> classes_of_run(const Analysis& analysis, Describer& describer) {
  std::vector<Bottleneck> classes;
  // MPI calls that work on files are not communication.
  double mpi_io_s = 0;
  for (const RankInfo& rank : analysis.ranks) mpi_io_s += rank.mpi_io_s.value_or(0);
  for (const auto& [limit, name] : kPlainClasses) {
    Bottleneck& row = classes.emplace_back();
    row.kind = name;
    row.share = verdict_s(analysis.limits, limit) / analysis.rank_seconds;
    describer.add(limit, analysis.limits, analysis.rank_seconds, row);
    if (limit == Limit::kMemory) describer.add_data(row);
    if (limit == Limit::kIo) {
      describer.add_files(row);
      add_mpi_io(mpi_io_s, analysis.rank_seconds, row);
    }
  }
  if (describer.has_input()) {
    Bottleneck& row = classes.emplace_back();
    row.kind = kInputClass;
    row.share = input_s(analysis.limits) / analysis.rank_seconds;
    describer.add_input(analysis.limits, analysis.rank_seconds, row);
  }
  if (analysis.efficiency.load_balance) {
    // All threads that call MPI count. If only main threads do, the result is the same.
    const bool threads = analysis.threads_efficiency.parallel.has_value();
    const double elapsed = analysis.focus_s;
    const double mean = threads ? *analysis.threads_mean_useful_s : *analysis.mean_useful_s;
    const double max = threads ? *analysis.threads_max_useful_s : *analysis.max_useful_s;
    Bottleneck& imbalance = classes.emplace_back();
    imbalance.kind = "imbalance";
    imbalance.share = (max - mean) / elapsed;
    imbalance.evidence.set(Key::kSlowestRank,
                           threads ? *analysis.threads_slowest_rank : *analysis.slowest_rank);
    imbalance.evidence.set(Key::kMaxUseful, max);
    imbalance.evidence.set(Key::kMeanUseful, mean);
    add_delay(analysis, imbalance);
    Bottleneck& communication = classes.emplace_back();
    communication.kind = "communication";
    communication.share =
        std::max(0.0, 1 - max / elapsed - mpi_io_s / analysis.rank_seconds - lost_to_processors(analysis));
    Evidence& evidence = communication.evidence;
    if (threads) {
      std::uint64_t helpers = 0;
      for (const RankInfo& rank : analysis.ranks) helpers += rank.mpi_helper_threads;
      evidence.set(Key::kThreads, helpers);
    }
    evidence.set(Key::kMaxUseful, max);
    evidence.set(Key::kElapsed, elapsed);
    if (analysis.mpi_wait_s) {
      evidence.set(Key::kMpi, *analysis.mpi_wait_s + analysis.mpi_transfer_s.value_or(0));
      evidence.set(Key::kWait, *analysis.mpi_wait_s);
    }
    const Efficiency& e = analysis.efficiency;
    if (e.serialization && e.transfer) {
      evidence.set(Key::kSerialization, *e.serialization);
      evidence.set(Key::kTransfer, *e.transfer);
    }
  }
  return classes;
}

// For each rank, the largest cause in Analysis::waits, with the wait of its row.
std::map<std::int32_t, WaitPart> largest_causes(const Analysis& analysis) {
  std::map<std::int32_t, WaitPart> result;
  for (const WaitRow& row : analysis.waits) {
    if (row.causes.empty() || row.causes.front().rest != 0) continue;
    WaitPart& largest = result[row.rank];
    if (row.causes.front().wait_s > largest.wait_s) largest = row.causes.front();
  }
  return result;
}

// The largest class of a rank. It has no evidence if its share is 0.
Bottleneck class_of_rank(const Analysis& analysis, Describer& describer,
                         const std::map<std::int32_t, WaitPart>& causes, const RankInfo& rank) {
  struct Candidate {
    double share = 0;
    const char* kind = "";
    std::optional<Limit> limit;
  };
  std::vector<Candidate> classes;
  for (const auto& [limit, name] : kPlainClasses)
    classes.push_back({verdict_s(rank.limits, limit) / rank.recorded_s, name, limit});
  if (input_s(rank.limits) > 0) classes.push_back({input_s(rank.limits) / rank.recorded_s, kInputClass, {}});
  double mpi_s = 0, waiting = 0;
  if (rank.useful_s && analysis.max_useful_s) {
    mpi_s = of(rank.category_s, Category::kMpi) - rank.mpi_io_s.value_or(0);
    for (Candidate& row : classes)
      if (row.limit == Limit::kIo) row.share += rank.mpi_io_s.value_or(0) / rank.recorded_s;
    waiting = std::min(mpi_s, *analysis.max_useful_s - *rank.useful_s);
    classes.push_back({waiting / rank.recorded_s, "imbalance", {}});
    classes.push_back({(mpi_s - waiting) / rank.recorded_s, "communication", {}});
  }
  const Candidate most = *std::max_element(classes.begin(), classes.end(),
                                           [](const auto& x, const auto& y) { return x.share < y.share; });
  Bottleneck row;
  row.rank = rank.rank;
  row.kind = most.kind;
  row.share = most.share;
  if (most.share <= 0) return row;
  if (std::string_view(most.kind) == kInputClass) {
    describer.add_input(rank.limits, rank.recorded_s, row);
    return row;
  }
  if (most.limit) {
    describer.add(*most.limit, rank.limits, rank.recorded_s, row);
    if (most.limit == Limit::kIo) {
      describer.add_files(row);
      if (rank.mpi_io_s.value_or(0) > 0) row.evidence.set(Key::kMpiIo, *rank.mpi_io_s);
    }
    return row;
  }
  Evidence& evidence = row.evidence;
  evidence.set(Key::kTime, row.kind == "imbalance" ? waiting : mpi_s - waiting);
  if (row.kind == "imbalance")
    evidence.set(Key::kSlowestRank, *analysis.slowest_rank);
  else
    evidence.set(Key::kMpi, mpi_s);
  if (!rank.mpi_wait_s) return row;
  evidence.set(Key::kWait, *rank.mpi_wait_s);
  const auto cause = causes.find(rank.rank);
  if (cause == causes.end() || !cause->second.rank) return row;
  row.cause = cause->second.place;
  evidence.set(Key::kSiteWait, std::min(cause->second.wait_s, *rank.mpi_wait_s));
  evidence.set(Key::kCauseRank, *cause->second.rank);
  return row;
}

// The largest class of a region. It has no evidence if nothing is known.
Bottleneck class_of_region(Describer& describer, const RegionRow& region) {
  std::vector<Bottleneck> classes;
  for (const auto& [limit, name] : kPlainClasses) {
    Bottleneck& row = classes.emplace_back();
    row.kind = name;
    row.share = region.limits.time_s[index(limit)] / region.sampled_s;
    describer.add(limit, region.limits, region.sampled_s, row);
  }
  const double mpi_s = region.limits.time_s[index(Limit::kMpi)];
  if (region.efficiency.load_balance) {
    const double mean = *region.mean_useful_s, max = *region.max_useful_s, focus = *region.focus_s;
    Bottleneck& imbalance = classes.emplace_back();
    imbalance.kind = "imbalance";
    imbalance.share = (max - mean) / focus;
    imbalance.evidence.set(Key::kSlowestRank, *region.slowest_rank);
    imbalance.evidence.set(Key::kMaxUseful, max);
    imbalance.evidence.set(Key::kMeanUseful, mean);
    Bottleneck& communication = classes.emplace_back();
    communication.kind = "communication";
    communication.share = std::max(0.0, 1 - max / focus);
    communication.evidence.set(Key::kMpi, mpi_s);
    communication.evidence.set(Key::kWhole, region.sampled_s);
    communication.evidence.set(Key::kMaxUseful, max);
    communication.evidence.set(Key::kElapsed, focus);
  }
  largest_first(classes);
  classes.front().region = region_name(region);
  return std::move(classes.front());
}

}  // namespace

void find_bottlenecks(const CallPaths& paths, Analysis& analysis) {
  if (analysis.rank_seconds <= 0) return;
  keep_slow_input(paths, analysis);
  Describer describer(paths, analysis);
  const std::map<std::int32_t, WaitPart> causes = largest_causes(analysis);
  std::vector<Bottleneck> run = classes_of_run(analysis, describer);
  std::erase_if(run, [](const Bottleneck& b) { return b.share < thresholds::kBottleneck; });
  largest_first(run);
  analysis.bottlenecks = std::move(run);
  for (const RankInfo& rank : analysis.ranks) {
    if (rank.recorded_s <= 0) continue;
    Bottleneck row = class_of_rank(analysis, describer, causes, rank);
    if (row.share > 0) analysis.bottlenecks.push_back(std::move(row));
  }
  std::vector<RegionRow*> hot;
  for (RegionRow& region : analysis.regions)
    if (region.sampled_s > 0) hot.push_back(&region);
  std::stable_sort(hot.begin(), hot.end(),
                   [](const RegionRow* x, const RegionRow* y) { return x->share > y->share; });
  for (std::size_t i = 0; i < hot.size(); ++i) {
    Bottleneck row = class_of_region(describer, *hot[i]);
    hot[i]->bottleneck = row.kind;
    if (i < thresholds::kMaxHotRegions && hot[i]->share >= thresholds::kHotRegion)
      analysis.bottlenecks.push_back(std::move(row));
  }
}

}  // namespace clusterprof::report
