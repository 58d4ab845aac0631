// SPDX-License-Identifier: BSD-3-Clause
// What limited the program, for all of its time: docs/metrics.md, "Bottlenecks".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/input_calls.hpp"
#include "report/analysis/location_numbers.hpp"
#include "report/analysis/memory.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

constexpr std::size_t index(Limit limit) { return static_cast<std::size_t>(limit); }

// The finest division of time by what limited it. Idle time is further divided by OffCpu.
namespace causes {
inline constexpr std::uint8_t kPython = 0, kNative = 1, kNativeMemory = 2, kKernel = 3, kPageFault = 4;
inline constexpr std::uint8_t kMapping = 5, kIo = 6, kMpi = 7, kRunnable = 8, kIdle = 9;
inline constexpr std::size_t kCount = kIdle + kOffCpuKinds;
}  // namespace causes
Limit limit_of(std::uint8_t cause);
// Of a path and category; native code is kNative.
std::uint8_t cause_of(const CallPaths& paths, std::uint32_t path, shard::Category category);
void add_time(Limits& to, std::uint8_t cause, double time_s);

// What counts for the verdict: the time in which a main thread waited for processes or threads that worked is
// theirs.
// Without what is of the class input.
double verdict_s(const Limits& limits, Limit limit);
// Of it, by processes and threads that were waited for.
double verdict_workers_s(const Limits& limits, Limit limit);
// By OffCpu.
std::array<double, kOffCpuKinds> verdict_idle_s(const Limits& limits);
double input_s(const Limits& limits);

// The main threads' time by what limited it. It adds up to the categories of their ranks.
class LimitTime {
 public:
  LimitTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places,
            const Cells& cells);

  // Adds a rank, which `memory` must have, and returns its limits.
  Limits add(const RankInput& rank, const MemoryUse& memory);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table.by_cell(self.path_ns_);
    table(self.memory_ns_, self.paths_.size());
    table(self.helper_memory_ns_, self.paths_.size());
    table.by_cell(self.relayed_ns_);
    table.by_cell(self.worker_ns_);
    table(self.worker_memory_ns_, self.paths_.size());
    table(self.bound_, self.paths_.functions().size());
  }

  // Fills in Analysis::limits and memory_functions. Needs the ranks with their limits.
  void finish(const RankOrder& ranks, Analysis& analysis);

  // For regions, after finish(): the time of a cell, and how much of it is native code that memory limits.
  // Helper threads' time of that kind is as it was charged.
  [[nodiscard]] std::uint64_t main_ns(std::uint32_t cell) const {
    return cell < path_ns_.size() ? path_ns_[cell] : 0;
  }
  [[nodiscard]] std::uint64_t memory_ns(std::uint32_t path) const {
    return memory_ns_.empty() ? 0 : memory_ns_[path];
  }
  [[nodiscard]] std::uint64_t helper_memory_ns(std::uint32_t path) const {
    return helper_memory_ns_.empty() ? 0 : helper_memory_ns_[path];
  }
  // Of a cell that there is.
  [[nodiscard]] std::uint8_t cause(std::uint32_t cell) const { return causes_[cell].cause; }

 private:
  enum class Awaits : std::uint8_t {
    kProcesses,  // or what these send
    kThreads,
    kAnything,  // but not files, networks and the like
    kNothing,
  };
  struct Cause {
    std::uint32_t place = 0;
    std::uint8_t cause = 0;
    bool counts = true;
    // If the main thread is there.
    Awaits awaits = Awaits::kNothing;
    bool takes_input = false;
  };
  // Of a rank: how long its main thread waited for processes, or for threads, and how long these worked, all
  // together.
  struct Workers {
    std::uint64_t awaited_ns = 0, busy_ns = 0;
    [[nodiscard]] std::uint64_t relayed_ns() const { return std::min(awaited_ns, busy_ns); }
    [[nodiscard]] std::uint64_t of_awaited(std::uint64_t ns) const;  // the part that is relayed
    [[nodiscard]] std::uint64_t of_busy(std::uint64_t ns) const;     // the part that stands for it
  };
  // A function that is limited by memory, on the rank where it takes longest.
  struct Bound {
    double time_s = 0;
    std::uint32_t position = kNoPosition;
    MemoryUse::Use use;
    friend void unite(Bound& into, const Bound& from) {
      if (from.position == kNoPosition) return;
      if (from.time_s > into.time_s || (from.time_s == into.time_s && from.position < into.position))
        into = from;
    }
  };

  void find_causes();
  [[nodiscard]] bool passes_data(std::uint32_t path);
  [[nodiscard]] Awaits awaits(std::uint32_t path);
  void find_processes();
  // By kProcesses and kThreads.
  using WorkersOfRank = std::array<Workers, 2>;
  static constexpr std::size_t index_of(Awaits kind) { return static_cast<std::size_t>(kind); }
  // kNothing: it does not work.
  [[nodiscard]] Awaits worker(const RankInput& rank, const shard::Value& value, const Cause& known) const;
  [[nodiscard]] WorkersOfRank sum_workers(const RankInput& rank, bool& threads_use_all) const;
  void add_worker(const shard::Value& value, std::uint32_t cell, std::uint8_t cause, std::uint64_t ns);
  void add_to_place(std::uint32_t place, std::uint8_t cause, std::uint64_t ns);
  void find_most(Limits& limits);
  void end_bound(const RankInput& rank, const MemoryUse& memory);
  void find_places(Limits& limits) const;
  void describe_functions(const RankOrder& ranks, Analysis& analysis) const;

  const shard::ShardData& head_;
  const CallPaths& paths_;
  const LocationNumbers& places_;
  const Cells& cells_;
  bool cpu_clock_;
  InputCalls input_calls_;
  std::vector<Cause> causes_;                                // by cell
  std::vector<std::uint64_t> path_ns_;                       // by cell
  std::vector<std::uint64_t> memory_ns_, helper_memory_ns_;  // by path
  // For the verdict: what main threads waited for processes, by cell, and what these did instead.
  std::vector<std::uint64_t> relayed_ns_, worker_ns_;
  std::vector<std::uint64_t> worker_memory_ns_;  // of it, by path
  std::vector<bool> of_process_;                 // by path: it is below the creation of a process
  std::vector<bool> is_progress_;                // by path: of a thread that a communication library has made
  std::vector<std::optional<bool>> passes_data_;  // by path, where it was asked for
  std::vector<bool> makes_processes_;             // by row of the head's ranks
  std::vector<Bound> bound_;                      // by function

  // Of the rank at hand; 0 between ranks.
  std::vector<std::uint64_t> of_place_;  // by place and limit
  std::vector<std::uint64_t> of_function_;
  std::vector<std::uint32_t> touched_places_, touched_functions_;
};

}  // namespace clusterprof::report
