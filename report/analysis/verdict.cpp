// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "report/analysis/limits.hpp"
#include "report/analysis/regions.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using text::percent;
using text::seconds;

constexpr double kMentioned = 0.02;  // part of a class from which a part of it is evidence

double of(const OptionalCategorySeconds& categories, Category category) {
  return categories[static_cast<std::size_t>(category)].value_or(0);
}

// The classes that are time of threads outside MPI.
constexpr std::pair<Limit, const char*> kPlainClasses[] = {{Limit::kCompute, "compute"},
                                                           {Limit::kMemory, "memory"},
                                                           {Limit::kPython, "python"},
                                                           {Limit::kIo, "io"},
                                                           {Limit::kIdle, "idle"}};

void largest_first(std::vector<Bottleneck>& classes) {
  std::stable_sort(classes.begin(), classes.end(),
                   [](const Bottleneck& a, const Bottleneck& b) { return a.share > b.share; });
}

// "a 4.20 s, b 300 ms": what matters, largest first.
std::string listed(std::vector<std::pair<const char*, double>> parts) {
  double whole = 0;
  for (const auto& [name, time_s] : parts) whole += time_s;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& x, const auto& y) { return x.second > y.second; });
  std::string out;
  for (const auto& [name, time_s] : parts)
    if (time_s > 0 && time_s >= kMentioned * whole)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, seconds(time_s));
  return out;
}

class Evidence {
 public:
  Evidence(const CallPaths& paths, const text::ShortPaths& names, const Analysis& analysis)
      : paths_(paths), names_(names), a_(analysis) {
    if (!a_.io) return;
    for (const IoCallRow& row : a_.io->calls)  // largest first
      if (row.time_s > 0) io_of_rank_.try_emplace(row.max_rank, &row);
  }

  // "4.20 s of its 10.0 s: sleep 4.10 s, lock 100 ms; most in wait() a.py:3 (4.10 s)"
  [[nodiscard]] std::string of(Limit limit, const Limits& limits, std::string_view whole) const {
    std::string out = fmt::format("{} of {}", seconds(limits.time_s[index(limit)]), whole);
    if (limit == Limit::kIdle) add(out, ": ", idle_kinds(limits));
    if (limit == Limit::kCompute && limits.kernel_s >= kMentioned * limits.time_s[index(limit)])
      out += fmt::format(", {} in system calls", seconds(limits.kernel_s));
    if (limit == Limit::kMemory) {
      const double data_s =
          std::max(0.0, limits.time_s[index(limit)] - limits.page_fault_s - limits.mapping_s);
      add(out, ": ",
          listed({{"data that no cache holds", data_s},
                  {"page faults", limits.page_fault_s},
                  {"mapping and unmapping", limits.mapping_s}}));
    }
    if (const std::uint32_t path = limits.most_path[index(limit)]; path != 0)
      out += fmt::format("; most in {} ({})", name_path(paths_, names_, path),
                         seconds(limits.most_s[index(limit)]));
    return out;
  }
  // What a cache would have to hold, of the function with most of the time.
  [[nodiscard]] std::string of_data() const {
    if (a_.memory_functions.empty()) return {};
    const MemoryRow& row = a_.memory_functions.front();
    return fmt::format("; {} has {}", row.path == 0 ? "it" : name_path(paths_, names_, row.path),
                       memory_evidence(row));
  }
  // The calls on files with most of the time; of one rank, or of all.
  [[nodiscard]] std::string of_files(std::optional<std::int32_t> rank = {}) const {
    if (!rank) {
      if (!a_.io || a_.io->calls.empty() || a_.io->calls.front().time_s <= 0) return {};
      const IoCallRow& row = a_.io->calls.front();
      return fmt::format("; {} take {}", io_calls(a_, row, row.count), seconds(row.time_s));
    }
    const auto known = io_of_rank_.find(*rank);
    if (known == io_of_rank_.end()) return {};
    const IoCallRow& row = *known->second;
    return fmt::format("; {} take {}", io_calls(a_, row, row.rank_count), seconds(row.rank_time_s));
  }

 private:
  static void add(std::string& out, std::string_view before, const std::string& part) {
    if (!part.empty()) out.append(before).append(part);
  }

  const CallPaths& paths_;
  const text::ShortPaths& names_;
  const Analysis& a_;
  std::map<std::int32_t, const IoCallRow*> io_of_rank_;  // the most it has most of
};

// "; rank 3 in load_batch() data.py:41 made 63 ranks wait 12.3 s": the largest root cause.
std::string delay_evidence(const Analysis& analysis, const text::ShortPaths& names) {
  if (analysis.root_functions.empty()) return {};
  const RootCauseRow& cause = analysis.root_functions.front();
  return fmt::format("; {} made {} wait {}", culprit(analysis, names, cause.rank, cause.place),
                     who_waited(cause), seconds(cause.wait_s));
}

std::vector<Bottleneck> classes_of_run(const Analysis& analysis, const text::ShortPaths& names,
                                       const Evidence& evidence) {
  std::vector<Bottleneck> classes;
  const std::string whole = fmt::format("the {} of all ranks' main threads", seconds(analysis.rank_seconds));
  for (const auto& [limit, name] : kPlainClasses) {
    Bottleneck& row = classes.emplace_back();
    row.kind = name;
    row.share = analysis.limits.time_s[index(limit)] / analysis.rank_seconds;
    row.evidence = evidence.of(limit, analysis.limits, whole);
    if (limit == Limit::kMemory) row.evidence += evidence.of_data();
    if (limit == Limit::kIo) row.evidence += evidence.of_files();
  }
  if (analysis.efficiency.load_balance) {
    const double elapsed = analysis.recorded_s, mean = *analysis.mean_useful_s, max = *analysis.max_useful_s;
    Bottleneck& imbalance = classes.emplace_back();
    imbalance.kind = "imbalance";
    imbalance.share = (max - mean) / elapsed;
    imbalance.evidence =
        fmt::format("outside MPI rank {} takes {}, the mean rank {}{}", *analysis.slowest_rank, seconds(max),
                    seconds(mean), delay_evidence(analysis, names));
    Bottleneck& communication = classes.emplace_back();
    communication.kind = "communication";
    communication.share = std::max(0.0, 1 - max / elapsed);
    std::string& text = communication.evidence =
        fmt::format("even the busiest rank is outside MPI for only {} of {}", seconds(max), seconds(elapsed));
    if (analysis.mpi_wait_s)
      text += fmt::format("; of {} in MPI {} are waiting",
                          seconds(*analysis.mpi_wait_s + analysis.mpi_transfer_s.value_or(0)),
                          seconds(*analysis.mpi_wait_s));
    const Efficiency& e = analysis.efficiency;
    if (e.serialization && e.transfer)
      text += fmt::format("; serialization {}, transfer {}", percent(*e.serialization), percent(*e.transfer));
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

// The largest class of a rank; without evidence where its share is 0.
Bottleneck class_of_rank(const Analysis& analysis, const text::ShortPaths& names, const Evidence& evidence,
                         const std::map<std::int32_t, WaitPart>& causes, const RankInfo& rank) {
  struct Candidate {
    double share = 0;
    const char* kind = "";
    std::optional<Limit> limit;
  };
  std::vector<Candidate> classes;
  for (const auto& [limit, name] : kPlainClasses)
    classes.push_back({rank.limits.time_s[index(limit)] / rank.recorded_s, name, limit});
  double mpi_s = 0, waiting = 0;
  if (rank.useful_s && analysis.max_useful_s) {
    mpi_s = of(rank.category_s, Category::kMpi);
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
  if (most.limit) {
    row.evidence = evidence.of(*most.limit, rank.limits, fmt::format("its {}", seconds(rank.recorded_s)));
    if (most.limit == Limit::kIo) row.evidence += evidence.of_files(rank.rank);
    return row;
  }
  std::string waits;
  if (rank.mpi_wait_s) {
    waits = fmt::format("; waits {}", seconds(*rank.mpi_wait_s));
    const auto cause = causes.find(rank.rank);
    if (cause != causes.end() && cause->second.rank)
      waits += fmt::format(", {} of it for {}", seconds(std::min(cause->second.wait_s, *rank.mpi_wait_s)),
                           culprit(analysis, names, *cause->second.rank, cause->second.place));
  }
  if (row.kind == "imbalance")
    row.evidence = fmt::format("works {} less than rank {}, the slowest{}", seconds(waiting),
                               *analysis.slowest_rank, waits);
  else
    row.evidence = fmt::format("{} in MPI, {} of it not explained by imbalance{}", seconds(mpi_s),
                               seconds(mpi_s - waiting), waits);
  return row;
}

// The largest class of a region; without evidence where nothing is known.
Bottleneck class_of_region(const Evidence& evidence, const RegionRow& region) {
  std::vector<Bottleneck> classes;
  const std::string whole = fmt::format("its {}", seconds(region.sampled_s));
  for (const auto& [limit, name] : kPlainClasses) {
    Bottleneck& row = classes.emplace_back();
    row.kind = name;
    row.share = region.limits.time_s[index(limit)] / region.sampled_s;
    row.evidence = evidence.of(limit, region.limits, whole);
  }
  const double mpi_s = region.limits.time_s[index(Limit::kMpi)];
  if (region.efficiency.load_balance) {
    const double mean = *region.mean_useful_s, max = *region.max_useful_s, longest = *region.longest_s;
    Bottleneck& imbalance = classes.emplace_back();
    imbalance.kind = "imbalance";
    imbalance.share = (max - mean) / longest;
    imbalance.evidence = fmt::format("outside MPI rank {} takes {}, the mean rank {}", *region.slowest_rank,
                                     seconds(max), seconds(mean));
    Bottleneck& communication = classes.emplace_back();
    communication.kind = "communication";
    communication.share = std::max(0.0, 1 - max / longest);
    communication.evidence =
        fmt::format("{} of its {} in MPI; even the busiest rank is outside MPI for only {} of {}",
                    seconds(mpi_s), seconds(region.sampled_s), seconds(max), seconds(longest));
  }
  largest_first(classes);
  classes.front().region = region_name(region);
  return std::move(classes.front());
}

}  // namespace

void find_bottlenecks(const CallPaths& paths, Analysis& analysis) {
  if (analysis.rank_seconds <= 0) return;
  const text::ShortPaths names(analysis);
  const Evidence evidence(paths, names, analysis);
  const std::map<std::int32_t, WaitPart> causes = largest_causes(analysis);
  std::vector<Bottleneck> run = classes_of_run(analysis, names, evidence);
  std::erase_if(run, [](const Bottleneck& b) { return b.share < thresholds::kBottleneck; });
  largest_first(run);
  analysis.bottlenecks = std::move(run);
  for (const RankInfo& rank : analysis.ranks) {
    if (rank.recorded_s <= 0) continue;
    Bottleneck row = class_of_rank(analysis, names, evidence, causes, rank);
    if (row.share > 0) analysis.bottlenecks.push_back(std::move(row));
  }
  std::vector<RegionRow*> hot;
  for (RegionRow& region : analysis.regions)
    if (region.sampled_s > 0) hot.push_back(&region);
  std::stable_sort(hot.begin(), hot.end(),
                   [](const RegionRow* x, const RegionRow* y) { return x->share > y->share; });
  for (std::size_t i = 0; i < hot.size(); ++i) {
    Bottleneck row = class_of_region(evidence, *hot[i]);
    hot[i]->bottleneck = row.kind;
    if (i < thresholds::kMaxHotRegions && hot[i]->share >= thresholds::kHotRegion)
      analysis.bottlenecks.push_back(std::move(row));
  }
}

std::string culprit(const Analysis& analysis, const text::ShortPaths& names, std::int32_t rank,
                    PlaceIndex place) {
  if (place == 0) return fmt::format("rank {}", rank);
  return fmt::format("rank {} in {}", rank, text::describe(analysis.places[place], names));
}

std::string who_waited(const RootCauseRow& cause, std::optional<std::int32_t> only) {
  if (only && cause.waiting_ranks == 1 && !cause.at_least) return fmt::format("rank {}", *only);
  return (cause.at_least ? "at least " : "") + text::plural(cause.waiting_ranks, "rank");
}

std::string name_path(const CallPaths& paths, const text::ShortPaths& names, std::uint32_t path) {
  const shard::Frame& f = *paths.frame(path);
  const std::string place = names.place(paths.text(f.file), f.line);
  const std::string label = text::function_label(paths.text(f.name), f.kind);
  return place.empty() ? label : fmt::format("{} {}", label, place);
}

std::string idle_kinds(const Limits& limits) {
  static constexpr std::array<const char*, kOffCpuKinds> kLabels = {
      "sleep", "locks", "the GIL", "poll", "files", "the network", "pipes", "child processes", "other waits"};
  std::vector<std::pair<const char*, double>> parts;
  for (std::size_t k = 0; k < kOffCpuKinds; ++k) parts.emplace_back(kLabels[k], limits.idle_s[k]);
  return listed(std::move(parts));
}

std::string io_calls(const Analysis& analysis, const IoCallRow& row, std::uint64_t count) {
  static constexpr std::array<const char*, shard::kIoOperations> kNouns = {
      "open", "close", "read", "write", "fsync", "seek", "metadata", "mmap"};
  // What is known of a sync is the group of functions; samples tell which one there was, if one alone.
  const char* noun = kNouns[static_cast<std::size_t>(row.operation)];
  if (row.operation == shard::IoOperation::kSync && analysis.system_calls.count("fsync") == 0)
    noun = analysis.system_calls.count("fdatasync") != 0 ? "fdatasync" : "sync";
  const std::string_view path = row.path;
  const std::string file = path.empty() ? "files" : text::printable(path.substr(path.find_last_of('/') + 1));
  return fmt::format("{} {} call{} on {}", text::count(static_cast<double>(count)), noun,
                     count == 1 ? "" : "s", file);
}

std::string memory_evidence(const MemoryRow& row) {
  if (row.by_counters) {
    std::string out = fmt::format("cache misses worth {}/s", text::bytes(row.bandwidth));
    if (row.misses_per_kilo > 0) out += fmt::format(", {:.1f} per 1000 instructions", row.misses_per_kilo);
    return out;
  }
  return fmt::format("data of {} {} (estimated from {} accesses), the largest cache holds {}",
                     row.working_set_is_more ? "at least" : "about", text::bytes(row.working_set_bytes),
                     text::count(static_cast<double>(row.accesses)),
                     text::bytes(static_cast<double>(row.cache_bytes)));
}

}  // namespace clusterprof::report
