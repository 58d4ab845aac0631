// SPDX-License-Identifier: BSD-3-Clause
// Findings on OpenMP: threads that have nothing to do, or too few processors; and on pools of threads that
// are too large for their node. Shares are of all rank time, as if the waiting were all threads' alike.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pools.hpp"
#include "report/analysis/evidence.hpp"
#include "report/analysis/finding_groups.hpp"
#include "report/analysis/openmp.hpp"
#include "report/analysis/placement.hpp"

namespace clusterprof::report {
namespace {

using shard::OmpKind;
using Key = EvidenceKey;
using Kind = FindingKind;

// "dynamic", "static, guided"
std::string schedule_text(std::uint8_t schedules) {
  std::string text;
  for (const std::string& name : shard::omp_schedule_names(schedules))
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool has_construct(const OpenMpRegionRow& region, OmpKind kind) {
  return std::any_of(region.constructs.begin(), region.constructs.end(),
                     [&](const OpenMpConstructRow& construct) { return construct.kind == kind; });
}

// The work of the last thread, as a multiple of the first one's, where it rises or falls from each thread to
// the next; 0: it does neither.
double slope_of(const std::vector<OpenMpThreadRow>& threads) {
  if (threads.size() < 2 || threads.front().work_s <= 0 || threads.back().work_s <= 0) return 0;
  const auto less = [](const OpenMpThreadRow& a, const OpenMpThreadRow& b) { return a.work_s < b.work_s; };
  const auto more = [](const OpenMpThreadRow& a, const OpenMpThreadRow& b) { return a.work_s > b.work_s; };
  if (!std::is_sorted(threads.begin(), threads.end(), less) &&
      !std::is_sorted(threads.begin(), threads.end(), more))
    return 0;
  return threads.back().work_s / threads.front().work_s;
}

// The loop to which threads that wait for each other most likely owe it: the one in which they have done
// least alike, or else the longest. Null: there is none that is known.
const OpenMpConstructRow* uneven_loop(const OpenMpRegionRow& region) {
  const auto size = [](const OpenMpConstructRow& loop) {
    const double uneven = std::max(0.0, loop.imbalance.value_or(1) - 1);
    return std::pair(uneven * (loop.time_s - loop.wait_s), loop.time_s);
  };
  const OpenMpConstructRow* most = nullptr;
  for (const OpenMpConstructRow& construct : region.constructs)
    if (construct.kind == OmpKind::kLoop && construct.count != 0 &&
        (most == nullptr || size(construct) > size(*most)))
      most = &construct;
  return most;
}

bool is_handed_out(const OpenMpConstructRow& loop) {
  return loop.schedules == 0 ? loop.chunks != 0 : (loop.schedules & ~shard::kOmpStatic) != 0;
}

// Iterations of an instance of the loop, for each thread of the team; 0 not known. Each thread counts.
double iterations_per_thread(const OpenMpConstructRow& loop) {
  return static_cast<double>(loop.iterations) / static_cast<double>(loop.count);
}

// What a chunk should have; at least one iteration.
void advise_size(double per_thread, Evidence& evidence) {
  evidence.set(Key::kChunkSize, std::max(1.0, std::floor(per_thread / thresholds::kGoodChunks)));
}

// For a loop whose parts the run time hands out to threads that are done.
FindingAction better_chunks(const OpenMpConstructRow& loop, Evidence& evidence) {
  const double per_thread = iterations_per_thread(loop);
  if (loop.chunks == 0) {
    // Chunks have an iteration at least. Of these there are too few to share out, or too many to be to blame.
    if (per_thread > 0 && per_thread < thresholds::kFewChunks) return FindingAction::kBalanceThreads;
    if (per_thread > 0) advise_size(per_thread, evidence);
    return FindingAction::kOtherChunks;
  }
  const double chunks = static_cast<double>(loop.chunks) / static_cast<double>(loop.count);
  evidence.set(Key::kChunks, chunks);
  const bool is_divisible = per_thread <= 0 || per_thread > chunks;
  if (chunks >= thresholds::kFewChunks || !is_divisible) return FindingAction::kBalanceThreads;
  if (per_thread > 0) advise_size(per_thread, evidence);
  return FindingAction::kSmallerChunks;
}

// What would give the threads of a region equal work, as far as its loops tell. `tells_loops`: all of them
// are known, those with a static schedule as well.
FindingAction balancing(const OpenMpRegionRow& region, bool tells_loops, Evidence& evidence) {
  if (has_construct(region, OmpKind::kTask) || has_construct(region, OmpKind::kSections))
    return FindingAction::kBalanceThreads;
  const OpenMpConstructRow* const loop = uneven_loop(region);
  if (loop == nullptr && tells_loops) return FindingAction::kBalanceThreads;
  if (loop != nullptr) {
    if (loop->schedules != 0) evidence.set(Key::kSchedule, schedule_text(loop->schedules));
    if (loop->iterations != 0) evidence.set(Key::kIterations, iterations_per_thread(*loop) * region.threads);
    if (is_handed_out(*loop)) return better_chunks(*loop, evidence);
    if (loop->schedules == 0) return FindingAction::kScheduleOrChunks;
    const double per_thread = iterations_per_thread(*loop);
    if (per_thread > 0 && per_thread < 2) return FindingAction::kBalanceThreads;  // one for each
  }
  const double slope = slope_of(region.threads_of_team);
  const bool is_steep =
      slope >= thresholds::kRisingWork || (slope > 0 && slope <= 1 / thresholds::kRisingWork);
  if (!is_steep) {
    if (loop != nullptr && loop->iterations != 0) advise_size(iterations_per_thread(*loop), evidence);
    return FindingAction::kDynamicSchedule;
  }
  evidence.set(Key::kLastByFirst, slope);
  return FindingAction::kCyclicSchedule;
}

class OpenMpFindings {
 public:
  explicit OpenMpFindings(FindingBuilder& builder)
      : builder_(builder), a_(builder.analysis()), openmp_(*a_.openmp) {}

  void find() {
    too_few_processors(Kind::kOpenMpOneProcessor,
                       [](const OpenMpRank& rank) { return rank.processors == 1 && rank.threads > 1; });
    too_few_processors(Kind::kOpenMpThreads, [](const OpenMpRank& rank) {
      return rank.processors > 1 && rank.threads > rank.processors;
    });
    imbalance();
    small_regions();
    one_at_a_time();
    serial();
  }

 private:
  static bool is_small(const OpenMpRegionRow& region) {
    const std::uint64_t ended = region.count - std::min(region.count, region.unfinished);
    return ended != 0 && region.time_s < thresholds::kSmallRegion_s * static_cast<double>(ended) &&
           region.thread_s > 2 * region.work_s;
  }
  [[nodiscard]] bool lacks_processors(std::int32_t rank) const { return crowded_.contains(rank); }
  // Threads that wait for one which has lost its processor: n threads that each lack one for R let each other
  // wait for (n - 1) R each. What is known is the main thread's R. Whether that may be most of what each has
  // waited.
  [[nodiscard]] bool may_be_for_processors(std::int32_t rank, double each_s, std::uint32_t threads) const {
    const RankInfo* const info = info_of(rank);
    return info != nullptr &&
           lacked_time(a_, *info).runnable_s * (threads - 1) >= thresholds::kBlame * each_s;
  }
  // GCC computes loops with a static schedule in the program.
  [[nodiscard]] bool tells_loops(std::optional<std::int32_t> rank) const {
    return std::any_of(openmp_.ranks.begin(), openmp_.ranks.end(), [&](const OpenMpRank& row) {
      return row.rank == rank && row.method == shard::OmpMethod::kOmpt;
    });
  }
  // What threads lose together, as a share of all rank time.
  [[nodiscard]] double share_of(double lost_s, std::uint32_t threads) const {
    return threads == 0 ? 0 : builder_.share_of_ranks(lost_s / threads);
  }
  [[nodiscard]] const RankInfo* info_of(std::int32_t rank) const {
    const auto found =
        std::lower_bound(a_.ranks.begin(), a_.ranks.end(), rank,
                         [](const RankInfo& info, std::int32_t number) { return info.rank < number; });
    return found == a_.ranks.end() || found->rank != rank ? nullptr : &*found;
  }

  template <typename Lacks>
  void too_few_processors(Kind kind, const Lacks& lacks) {
    std::vector<std::int32_t> ranks;
    double region_s = 0, lost_s = 0, most_lost_s = 0;
    const OpenMpRank* worst = nullptr;
    std::map<std::uint32_t, double> threads_on_node;
    std::map<std::uint32_t, std::uint32_t> ranks_on_node;  // of these ranks
    for (const OpenMpRank& rank : openmp_.ranks) {
      if (!lacks(rank)) continue;
      ranks.push_back(rank.rank);
      region_s += rank.region_s;
      const double rank_lost_s = rank.region_s * (1 - static_cast<double>(rank.processors) / rank.threads);
      lost_s += rank_lost_s;
      most_lost_s = std::max(most_lost_s, rank_lost_s);
      if (worst == nullptr || rank.threads > worst->threads) worst = &rank;
      if (const RankInfo* const info = info_of(rank.rank)) {
        threads_on_node[info->node] += rank.threads;
        ++ranks_on_node[info->node];
      }
    }
    if (worst == nullptr || builder_.share_of_ranks(region_s) < thresholds::kOpenMpUsed) return;
    crowded_.insert(ranks.begin(), ranks.end());
    const RankInfo* const info = info_of(worst->rank);
    const bool has_more = info != nullptr && info->node < a_.nodes.size() &&
                          threads_on_node[info->node] <= a_.nodes[info->node].cpus;
    Finding& finding = has_more ? builder_.add_by_share(kind, builder_.share_of_ranks(lost_s))
                                : builder_.add(kind, Severity::kMedium);
    if (has_more) finding.gain_s = most_lost_s;
    finding.action = has_more ? FindingAction::kBindWider : FindingAction::kFewerThreads;
    set_ranks(finding, std::move(ranks));
    finding.rank = worst->rank;
    finding.evidence.set(Key::kThreads, worst->threads);
    if (info == nullptr || info->node >= a_.nodes.size()) return;
    finding.evidence.set(Key::kNode, a_.nodes[info->node].name);
    finding.evidence.set(Key::kNodes, threads_on_node.size());
    if (!has_more) {
      const std::uint32_t cpus = a_.nodes[info->node].cpus;  // 0: not known
      const std::uint32_t for_each = cpus == 0 ? worst->processors : cpus / ranks_on_node[info->node];
      finding.evidence.set(Key::kPoolSize, std::string("OMP_NUM_THREADS"));
      finding.evidence.set(Key::kAdvisedSize, std::max(1u, std::min(worst->processors, for_each)));
    }
    if (const auto list = parse_number_list(info->affinity))
      finding.evidence.set(Key::kProcessors, std::vector<std::int32_t>(list->begin(), list->end()));
  }

  void imbalance() {
    struct Loss {
      const OpenMpRegionRow* region;
      double wait_s, share;
    };
    std::vector<Loss> losses;
    for (const OpenMpRegionRow& region : openmp_.regions) {
      if (is_small(region) || lacks_processors(region.wait_spread.max_rank)) continue;
      const double wait_s = region.wait_s - region.serial_s, share = share_of(wait_s, region.threads);
      if (share < thresholds::kOpenMpLoss) continue;
      const double each_s = region.wait_spread.max_s * (wait_s / region.wait_s) / region.threads;
      if (may_be_for_processors(region.wait_spread.max_rank, each_s, region.threads)) continue;
      losses.push_back({&region, wait_s, share});
    }
    std::stable_sort(losses.begin(), losses.end(),
                     [](const Loss& a, const Loss& b) { return a.share > b.share; });
    if (losses.size() > thresholds::kMaxDelays) losses.resize(thresholds::kMaxDelays);
    for (const Loss& loss : losses) {
      const OpenMpRegionRow& region = *loss.region;
      Finding& finding = builder_.add_by_share(Kind::kOpenMpImbalance, loss.share);
      finding.gain_s = region.wait_spread.max_s * (loss.wait_s / region.wait_s) / region.threads;
      finding.rank = region.wait_spread.max_rank;
      finding.place = region.place;
      finding.evidence.set(Key::kWait, loss.wait_s);
      finding.evidence.set(Key::kWhole, region.thread_s);
      finding.evidence.set(Key::kThreads, region.threads);
      // Where most of it is inside the region, there.
      const auto most =
          std::find_if(region.constructs.begin(), region.constructs.end(), [&](const auto& construct) {
            return !shard::lets_one_through(construct.kind) &&
                   construct.wait_s >= thresholds::kBlame * loss.wait_s;
          });
      if (most != region.constructs.end() && !most->place.function.empty() && most->place.line != 0) {
        finding.site = most->place;
        finding.evidence.set(Key::kSiteWait, most->wait_s);
      }
      finding.action = balancing(region, tells_loops(finding.rank), finding.evidence);
    }
  }

  void small_regions() {
    const OpenMpRegionRow* most = nullptr;
    double lost_s = 0, share = 0, gain_s = 0;
    std::uint64_t count = 0;
    for (const OpenMpRegionRow& region : openmp_.regions) {
      if (!is_small(region) || lacks_processors(region.wait_spread.max_rank)) continue;
      const double region_lost_s = region.thread_s - region.work_s;
      lost_s += region_lost_s;
      share += share_of(region_lost_s, region.threads);
      gain_s += region.spread.max_s * region_lost_s / region.thread_s;
      count += region.count;
      if (most == nullptr || region_lost_s > most->thread_s - most->work_s) most = &region;
    }
    if (most == nullptr || share < thresholds::kOpenMpLoss) return;
    Finding& finding = builder_.add_by_share(Kind::kOpenMpSmallRegions, share);
    finding.gain_s = gain_s;
    finding.place = most->place;
    finding.action = FindingAction::kLargerRegions;
    finding.evidence.set(Key::kTime, lost_s);
    finding.evidence.set(Key::kPlaceShare, (most->thread_s - most->work_s) / lost_s);
    finding.evidence.set(Key::kCalls, count);
    finding.evidence.set(Key::kMeanTime, most->time_s / static_cast<double>(most->count));
    finding.evidence.set(Key::kThreads, most->threads);
  }

  void one_at_a_time() {
    double wait_s = 0, share = 0, gain_s = 0;
    const OpenMpConstructRow* most = nullptr;
    for (const OpenMpRegionRow& region : openmp_.regions) {
      if (region.serial_s <= 0 || lacks_processors(region.wait_spread.max_rank)) continue;
      wait_s += region.serial_s;
      share += share_of(region.serial_s, region.threads);
      gain_s += region.wait_spread.max_s * (region.serial_s / region.wait_s) / region.threads;
      for (const OpenMpConstructRow& construct : region.constructs)
        if (shard::lets_one_through(construct.kind) && (most == nullptr || construct.wait_s > most->wait_s))
          most = &construct;
    }
    if (most == nullptr || share < thresholds::kOpenMpLoss) return;
    Finding& finding = builder_.add_by_share(Kind::kOpenMpOneAtATime, share);
    finding.gain_s = gain_s;
    finding.place = most->place;
    const bool is_lock =
        most->kind == OmpKind::kCritical || most->kind == OmpKind::kLock || most->kind == OmpKind::kAtomic;
    finding.action = is_lock ? FindingAction::kReducePerThread : FindingAction::kWaitLess;
    finding.evidence.set(Key::kWait, wait_s);
    finding.evidence.set(Key::kPlaceShare, std::min(most->wait_s / wait_s, 1.0));
    finding.evidence.set(Key::kConstruct, std::string(shard::omp_kind_name(most->kind)));
    finding.evidence.set(Key::kCalls, most->count);
  }

  void serial() {
    double serial_s = 0, native_s = 0, lost_s = 0, most_lost_s = 0, region_s = 0, work_s = 0;
    std::uint32_t threads = 0;
    for (const OpenMpRank& rank : openmp_.ranks) {
      if (rank.threads < 2 || lacks_processors(rank.rank)) continue;
      // No region takes over what the interpreter does, nor waiting.
      const double rank_lost_s = rank.serial_native_s * (1 - 1.0 / rank.threads);
      serial_s += rank.serial_s;
      native_s += rank.serial_native_s;
      lost_s += rank_lost_s;
      most_lost_s = std::max(most_lost_s, rank_lost_s);
      region_s += rank.region_s;
      work_s += rank.work_s;
      threads = std::max(threads, rank.threads);
    }
    const double share = builder_.share_of_ranks(lost_s);
    if (share < thresholds::kOpenMpLoss || builder_.share_of_ranks(region_s) < thresholds::kOpenMpUsed)
      return;
    Finding& finding = builder_.add_by_share(Kind::kOpenMpSerial, share);
    // It is work as well, and some of it may have to be done by one thread.
    finding.severity = std::max(finding.severity, Severity::kMedium);
    finding.gain_s = most_lost_s;
    finding.action = FindingAction::kMoreInRegions;
    finding.evidence.set(Key::kTime, native_s);
    finding.evidence.set(Key::kThreads, threads);
    finding.evidence.set(Key::kSpeedupBound, (serial_s + work_s) / serial_s);
    double listed_s = 0;
    const OpenMpSerialRow* most = nullptr;
    for (const OpenMpSerialRow& row : openmp_.serial) {
      listed_s += row.native_s;
      if (most == nullptr || row.native_s > most->native_s) most = &row;
    }
    if (most == nullptr || most->native_s <= 0 || most->place.function.empty()) return;
    finding.place = most->place;
    finding.evidence.set(Key::kPlaceShare, most->native_s / listed_s);
  }

  FindingBuilder& builder_;
  Analysis& a_;
  const OpenMp& openmp_;
  std::set<std::int32_t> crowded_;  // ranks whose threads lack processors: they wait for these
};

// What sets how many threads a pool has.
std::string_view size_of_pool(std::string_view pool) {
  if (pool == "OpenMP") return "OMP_NUM_THREADS";
  if (pool == "OpenBLAS") return "OPENBLAS_NUM_THREADS";
  if (pool == "BLIS") return "BLIS_NUM_THREADS";
  if (pool == "MKL") return "MKL_NUM_THREADS";
  if (pool == "PyTorch") return "torch.set_num_threads";
  if (pool == "TBB") return "tbb::global_control";
  return {};
}

// The threads of one pool on a node, by process: each has a pool of its own. The thread that uses a pool
// works with it, and is counted as one of them: so it is with all pools that size_of_pool() knows.
struct PoolOfNode {
  struct Process {
    std::uint64_t threads = 0;
    std::int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;
  };
  std::uint64_t threads = 0;
  std::map<std::pair<std::uint32_t, std::int32_t>, Process> processes;  // by rank and pid

  void add(const shard::Thread& thread) {
    const auto [at, is_new] = processes.try_emplace({thread.rank, thread.pid});
    Process& process = at->second;
    const std::uint64_t more = thread.count + (is_new ? 1 : 0);
    threads += more;
    process.threads += more;
    process.start_ns = std::min(process.start_ns, thread.start_utc_ns);
    process.end_ns =
        std::max(process.end_ns, thread.start_utc_ns + static_cast<std::int64_t>(thread.elapsed_ns));
  }
  [[nodiscard]] std::size_t ranks() const {
    std::set<std::uint32_t> ranks;
    for (const auto& [key, process] : processes) ranks.insert(key.first);
    return ranks.size();
  }
  [[nodiscard]] std::uint64_t most_of_a_process() const {
    std::uint64_t most = 0;
    for (const auto& [key, process] : processes) most = std::max(most, process.threads);
    return most;
  }
  // Workers that follow each other need the processors one after the other. At least 1.
  [[nodiscard]] std::size_t processes_at_a_time() const {
    std::vector<std::int64_t> starts, ends;
    for (const auto& [key, process] : processes) {
      starts.push_back(process.start_ns);
      ends.push_back(std::max(process.end_ns, process.start_ns + 1));
    }
    std::ranges::sort(starts);
    std::ranges::sort(ends);
    std::size_t most = 1, ended = 0;
    for (std::size_t begun = 1; begun <= starts.size(); ++begun) {
      while (ended < ends.size() && ends[ended] <= starts[begun - 1]) ++ended;
      most = std::max(most, begun - ended);
    }
    return most;
  }
};

}  // namespace

void find_openmp_costs(FindingBuilder& builder) {
  if (builder.analysis().openmp) OpenMpFindings(builder).find();
}

void name_large_pools(FindingBuilder& builder) {
  const Analysis& a = builder.analysis();
  for (Finding& finding : builder.analysis().findings) {
    if (finding.action != FindingAction::kFewerThreads || finding.kind == Kind::kOpenMpThreads ||
        finding.kind == Kind::kOpenMpOneProcessor)
      continue;
    const std::string node = finding.evidence.name(Key::kNode);
    std::map<std::string_view, PoolOfNode> pools;
    for (const shard::Thread& thread : builder.data().threads) {
      if (thread.rank >= builder.data().ranks.size()) continue;
      const shard::Rank& rank = builder.data().ranks[thread.rank];
      const shard::Frame* const frame = builder.paths().frame(thread.path);
      if (frame == nullptr || rank.node >= a.nodes.size() || a.nodes[rank.node].name != node) continue;
      const ThreadPool* const pool = thread_pool_of(builder.paths().text(frame->module));
      if (pool != nullptr && !size_of_pool(pool->name).empty()) pools[pool->name].add(thread);
    }
    const auto most = std::max_element(pools.begin(), pools.end(), [](const auto& x, const auto& y) {
      return x.second.threads < y.second.threads;
    });
    const std::size_t processors = finding.evidence.list(Key::kProcessors).size();
    // As many as there are processors are not the reason.
    if (most == pools.end() || most->second.threads <= processors) continue;
    const std::size_t processes = most->second.processes_at_a_time();
    finding.evidence.set(Key::kPool, std::string(most->first));
    finding.evidence.set(Key::kPoolThreads, most->second.threads);
    finding.evidence.set(Key::kPoolRanks, most->second.ranks());
    finding.evidence.set(Key::kPoolProcesses, processes);
    finding.evidence.set(Key::kPoolOfProcess, most->second.most_of_a_process());
    finding.evidence.set(Key::kPoolSize, std::string(size_of_pool(most->first)));
    finding.evidence.set(Key::kAdvisedSize, std::max<std::size_t>(1, processors / processes));
    finding.action = FindingAction::kSmallerPool;
  }
}

}  // namespace clusterprof::report
