// SPDX-License-Identifier: BSD-3-Clause
// Goes through a node's times in the order in which a profile stores them: all ranks of a call path stand
// together. So sums per rank are made only where the page shows ranks separately.
#include "report/page/time_sums.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "report/analysis/partial_sums.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::kCategories;
using shard::kNone;

namespace {

// Into TimeCharges::charges.
constexpr std::size_t charge_at(std::uint32_t path, Category category) {
  return std::size_t{path} * kCategories + static_cast<std::size_t>(category);
}

}  // namespace

TimeCharges::TimeCharges(const CallPaths& paths, const PathSlots& path_slots, bool with_off_cpu,
                         std::span<const std::uint32_t> row_function)
    : charges(paths.size() * kCategories), row_functions(1), slots(path_slots.size()) {
  std::vector<std::uint32_t> innermost(paths.size(), 0);  // of row_functions
  // Paths through the same functions share a list, so that few lists stay in the processor's cache.
  std::unordered_map<std::uint64_t, std::uint32_t> known;  // by function and what is outside of it
  for (std::uint32_t path = 1; path < paths.size(); ++path) {
    innermost[path] = innermost[paths.parent(path)];
    if (row_function[path] == kNone) continue;
    const auto [entry, is_new] = known.try_emplace(std::uint64_t{row_function[path]} << 32 | innermost[path],
                                                   static_cast<std::uint32_t>(row_functions.size()));
    if (is_new) row_functions.push_back({row_function[path], innermost[path]});
    innermost[path] = entry->second;
  }
  for (std::uint32_t path = 0; path < paths.size(); ++path)
    for (std::size_t c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      const std::uint32_t counted = paths.counted(path, category);
      charges[charge_at(path, category)] = {path_slots.slot(counted), innermost[counted],
                                            is_work(paths, path, category)};
    }
  if (with_off_cpu)
    for (std::uint32_t path = 0; path < paths.size(); ++path) off_cpu.push_back(off_cpu_of(paths, path));
}

TimeSums::TimeSums(const TimeCharges& charges, std::size_t functions, std::size_t rows)
    : charges_(charges),
      functions_(functions),
      sums_(charges.slots),
      row_function_ns_(rows * functions, 0),
      by_slot_(charges.slots),
      slot_used_(words_of(charges.slots), 0) {}

void TimeSums::add(const profile::NodeTimes& times, std::span<const PageRank> ranks, GroupTimes& groups,
                   std::mutex& lock, std::span<std::uint64_t> off_cpu_ns) {
  GroupTimes::Division division;
  {
    std::vector<std::uint32_t> positions;
    for (const std::uint32_t rank : times.ranks) positions.push_back(ranks[rank].position);
    const std::lock_guard<std::mutex> held(lock);
    division = groups.divide(positions);
  }
  struct NodeRank {
    PageRank rank;
    std::uint32_t group = 0;
  };
  std::vector<NodeRank> of_node;
  for (std::size_t i = 0; i < times.ranks.size(); ++i)
    of_node.push_back({ranks[times.ranks[i]], division.group_of[i]});
  const std::size_t count = division.first_rank.size();
  groups_.resize(std::max(groups_.size(), count));
  for (GroupTimes::Times& of_group : groups_) of_group.clear();

  const bool with_off_cpu = !charges_.off_cpu.empty();
  Run run;
  for (std::size_t p = 0; p < times.paths.size(); ++p) {
    const std::uint32_t path = times.paths[p];
    const std::size_t off_cpu = with_off_cpu ? static_cast<std::size_t>(charges_.off_cpu[path]) : 0;
    // Consecutive ranks that count for the same group and row are one run; `of` is one of them.
    const NodeRank* of = nullptr;
    for (std::uint32_t i = times.first_rows[p]; i < times.first_rows[p + 1]; ++i) {
      const std::uint64_t wall_ns = times.wall_ns[i];
      const NodeRank& here = of_node[times.rank[i]];
      const auto category = static_cast<Category>(times.category[i]);
      // As in FunctionTime: for threads without samples, only the time in MPI is known.
      if (wall_ns == 0 || (!here.rank.sampled && category != Category::kMpi)) continue;
      if (of != nullptr && (of->group != here.group || of->rank.row != here.rank.row)) {
        add_run(path, run, of->rank.row, groups_[of->group]);
      }
      of = &here;
      (times.main_thread[i] != 0 ? run.main_ns : run.helper_ns)[times.category[i]] += wall_ns;
      run.categories |= 1u << times.category[i];
      if (with_off_cpu && (category == Category::kIdle || category == Category::kIo) &&
          wall_ns > times.cpu_ns[i])
        off_cpu_ns[here.rank.position * kOffCpuKinds + off_cpu] += wall_ns - times.cpu_ns[i];
    }
    if (of != nullptr) add_run(path, run, of->rank.row, groups_[of->group]);
  }

  for (std::size_t group = 0; group < count; ++group) sort(groups_[group]);
  const std::lock_guard<std::mutex> held(lock);
  for (std::size_t group = 0; group < count; ++group)
    if (!groups_[group].empty()) groups.add(division.first_rank[group], groups_[group]);
}

void TimeSums::add_run(std::uint32_t path, Run& run, std::uint32_t row, GroupTimes::Times& group) {
  for (unsigned left = std::exchange(run.categories, 0u); left != 0; left &= left - 1) {
    const auto c = static_cast<std::size_t>(std::countr_zero(left));
    const std::uint64_t main_ns = std::exchange(run.main_ns[c], 0);
    const std::uint64_t helper_ns = std::exchange(run.helper_ns[c], 0);
    const std::uint64_t all_ns = main_ns + helper_ns;
    const TimeCharges::Charge& charge = charges_.charges[charge_at(path, static_cast<Category>(c))];
    const std::uint64_t idle_ns = charge.is_work ? 0 : helper_ns;
    Sum& sum = sums_[charge.slot];
    sum.self_ns[c] += all_ns;
    sum.helper_idle_ns += idle_ns;
    if (group.empty() || group.back().key != charge.slot) group.push_back({charge.slot, 0, 0});
    group.back().all_ns += all_ns;
    group.back().helper_idle_ns += idle_ns;
    add_to_functions(charge.row_functions, row, all_ns - idle_ns);
  }
}

void TimeSums::add_to_functions(std::uint32_t row_functions, std::uint32_t row, std::uint64_t ns) {
  for (std::uint32_t at = row_functions; at != 0; at = charges_.row_functions[at].outer)
    row_function_ns_[row * functions_ + charges_.row_functions[at].function] += ns;
}

// By slot, each once.
void TimeSums::sort(GroupTimes::Times& times) {
  const auto ascend = [](const GroupTimes::Time& a, const GroupTimes::Time& b) { return a.key >= b.key; };
  if (std::adjacent_find(times.begin(), times.end(), ascend) == times.end()) return;
  for (const GroupTimes::Time& time : times) {
    by_slot_[time.key].all_ns += time.all_ns;
    by_slot_[time.key].helper_idle_ns += time.helper_idle_ns;
    slot_used_[time.key / 64] |= std::uint64_t{1} << time.key % 64;
  }
  times.clear();
  for (std::size_t word = 0; word < slot_used_.size(); ++word)
    for (std::uint64_t& bits = slot_used_[word]; bits != 0; bits &= bits - 1) {
      const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
      times.push_back(
          {static_cast<std::uint32_t>(slot), by_slot_[slot].all_ns, by_slot_[slot].helper_idle_ns});
      by_slot_[slot] = {};
    }
}

void TimeSums::unite(const TimeSums& other) {
  for (std::size_t slot = 0; slot < sums_.size(); ++slot) {
    for (std::size_t c = 0; c < kCategories; ++c) sums_[slot].self_ns[c] += other.sums_[slot].self_ns[c];
    sums_[slot].helper_idle_ns += other.sums_[slot].helper_idle_ns;
  }
  for (std::size_t i = 0; i < row_function_ns_.size(); ++i) row_function_ns_[i] += other.row_function_ns_[i];
}

}  // namespace clusterprof::report
