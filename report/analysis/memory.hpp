// SPDX-License-Identifier: BSD-3-Clause
// Which functions are limited by memory: docs/metrics.md, "Memory".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

struct WorkingSet {
  double bytes = 0;           // estimate; without an upper bound: the lower one
  double at_least_bytes = 0;  // about one standard deviation below
  bool is_more = false;       // there is no upper bound
};

// Estimated from the blocks that `accesses` random accesses to data were in (shard::DataAccess).
WorkingSet estimate_working_set(const std::array<std::uint64_t, 4>& blocks, std::uint64_t accesses);

// The memory that functions (CallPaths::function) work on: of the rank that was added last, and for each
// function the largest of all ranks.
class MemoryUse {
 public:
  struct Use {
    std::uint64_t samples = 0, accesses = 0;
    std::array<std::uint64_t, 4> blocks{};
    std::uint64_t misses = 0, instructions = 0, cpu_ns = 0;
    std::uint8_t counted = 0;  // whether misses are known; no bool, which cannot be read from any byte
  };

  MemoryUse(const shard::ShardData& head, const CallPaths& paths);

  void add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.largest_, self.use_of_.size());
  }

  // For the rank that was added last. Null: nothing is known.
  [[nodiscard]] const Use* of(std::uint32_t function) const {
    const std::uint32_t at = use_of_[function];
    return at == 0 ? nullptr : &uses_[at];
  }
  // The function of a path in native code; kNone: none.
  [[nodiscard]] std::uint32_t function(std::uint32_t path) const { return function_[path]; }
  [[nodiscard]] bool bound(std::uint32_t path) const {
    return function_[path] != shard::kNone && bound_[function_[path]] != 0;
  }
  [[nodiscard]] bool any_bound() const { return any_bound_; }

  // Fills in what is known of the memory of these functions.
  void finish(std::vector<FunctionRow>& rows) const;

 private:
  struct Largest {
    double bytes = -1;
    std::uint8_t is_more = 0;
    friend void unite(Largest& into, const Largest& from) {
      if (from.bytes > into.bytes || (from.bytes == into.bytes && !from.is_more)) into = from;
    }
  };
  struct Known {
    std::array<std::uint64_t, 2> of{};  // bits that are set, accesses
    WorkingSet set;
  };

  Use& use_of(std::uint32_t function);
  void collect(const RankInput& rank);
  [[nodiscard]] bool is_bound(const Use& use, std::uint64_t cache_bytes);
  const WorkingSet& working_set(const Use& use);

  const shard::ShardData& head_;
  std::uint32_t misses_, instructions_;  // counters
  std::vector<std::uint32_t> function_;  // by path, of native code
  std::vector<Largest> largest_;         // by function
  std::vector<Known> known_;             // estimates made before: many ranks have the same

  // Of the rank at hand.
  std::vector<std::uint32_t> use_of_;     // by function; 0: none
  std::vector<Use> uses_;                 // from 1 on
  std::vector<std::uint32_t> functions_;  // of uses_
  std::vector<std::uint8_t> bound_;       // by function
  bool any_bound_ = false;
};

}  // namespace clusterprof::report
