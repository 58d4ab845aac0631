// SPDX-License-Identifier: BSD-3-Clause
// Which functions are limited by memory: docs/metrics.md, "Memory".
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

struct WorkingSet {
  double bytes = 0;           // estimate; without an upper bound: the lower one
  double at_least_bytes = 0;  // about one standard deviation below
  bool is_more = false;       // there is no upper bound
};

// From which blocks `accesses` random accesses to data lay in: shard::DataAccess.
WorkingSet estimate_working_set(const std::array<std::uint64_t, 4>& blocks, std::uint64_t accesses);

// By rank (index into ShardData::ranks) and function (CallPaths::function).
class MemoryUse {
 public:
  struct Use {
    std::uint64_t samples = 0, accesses = 0;
    std::array<std::uint64_t, 4> blocks{};
    std::uint64_t misses = 0, instructions = 0, cpu_ns = 0;
    bool counted = false;  // misses are known
    bool bound = false;
    WorkingSet working_set;
  };

  MemoryUse(const shard::ShardData& data, const std::vector<shard::Value>& charged, const CallPaths& paths);

  // Null: nothing is known.
  [[nodiscard]] const Use* of(std::uint32_t rank, std::uint32_t function) const {
    const auto known = uses_.find(std::uint64_t{rank} << 32 | function);
    return known == uses_.end() ? nullptr : &known->second;
  }
  [[nodiscard]] bool bound(std::uint32_t rank, std::uint32_t function) const {
    const Use* const use = any_bound_ ? of(rank, function) : nullptr;
    return use != nullptr && use->bound;
  }
  [[nodiscard]] bool any_bound() const { return any_bound_; }
  // Gives functions what is known of their data.
  void describe(std::vector<FunctionRow>& rows) const;

 private:
  std::unordered_map<std::uint64_t, Use> uses_;
  bool any_bound_ = false;
};

}  // namespace clusterprof::report
