// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "report/analysis/counters.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::DataAccess;
using shard::kNone;

constexpr double kBits = 256;
constexpr double kMaxBlocks = 1e9;

// The number of different blocks that leave `unset` of 256 bits unset (linear counting).
double distinct_blocks(double unset) { return kBits * std::log(kBits / std::clamp(unset, 0.5, kBits)); }

// The number of blocks M if N = `accesses` random accesses hit `distinct` of them: distinct = M (1 - exp(-N /
// M)).
double all_blocks(double distinct, double accesses) {
  if (distinct >= accesses) return kMaxBlocks;
  double low = distinct, high = kMaxBlocks;
  for (int i = 0; i < 100 && high - low > 1e-6 * low; ++i) {
    const double middle = std::sqrt(low * high);  // the range spans orders of magnitude
    const double hit = -middle * std::expm1(-accesses / middle);
    (hit < distinct ? low : high) = middle;
  }
  return low;
}

}  // namespace

WorkingSet estimate_working_set(const std::array<std::uint64_t, 4>& blocks, std::uint64_t accesses) {
  int set = 0;
  for (const std::uint64_t word : blocks) set += std::popcount(word);
  if (set == 0 || accesses == 0) return {};
  const auto n = static_cast<double>(accesses);
  const double unset = kBits - set;
  const double distinct = std::min(distinct_blocks(unset), n);

  // There are two errors: several blocks may set the same bit, and chance decides how often a block is hit
  // again.
  const double load = distinct / kBits;
  const double unset_deviation = std::sqrt(kBits * std::exp(-load) * (1 - (1 + load) * std::exp(-load)));
  const double of_bits =
      distinct - std::min(distinct, distinct_blocks(unset + std::max(1.0, unset_deviation)));
  const double per_block = n / std::min(all_blocks(distinct, n), kMaxBlocks);
  const double again =
      n / std::max(per_block, 1e-12) * std::exp(-per_block) * (1 - (1 + per_block) * std::exp(-per_block));
  const double least = std::max(1.0, distinct - std::sqrt(of_bits * of_bits + std::max(1.0, again)));

  WorkingSet result;
  const auto block_bytes = static_cast<double>(DataAccess::kBlockBytes);
  const double upper =
      all_blocks(std::min(n, distinct + std::sqrt(of_bits * of_bits + std::max(1.0, again))), n);
  result.at_least_bytes = all_blocks(std::min(least, n * (1 - 1e-9)), n) * block_bytes;
  result.is_more = upper >= kMaxBlocks || unset == 0;
  result.bytes = result.is_more ? result.at_least_bytes : all_blocks(distinct, n) * block_bytes;
  return result;
}

MemoryUse::MemoryUse(const shard::ShardData& head, const CallPaths& paths)
    : head_(head),
      misses_(find_counter(head.counters, kCacheMisses)),
      instructions_(find_counter(head.counters, kInstructions)),
      use_of_(paths.functions().size(), 0),
      uses_(1),
      bound_(use_of_.size(), 0) {
  for (std::uint32_t path = 0; path < paths.size(); ++path)
    function_.push_back(paths.function(paths.counted(path, Category::kNative)));
}

MemoryUse::Use& MemoryUse::use_of(std::uint32_t function) {
  std::uint32_t& at = use_of_[function];
  if (at == 0) {
    at = static_cast<std::uint32_t>(uses_.size());
    uses_.emplace_back();
    functions_.push_back(function);
  }
  return uses_[at];
}

void MemoryUse::collect(const RankInput& rank) {
  const auto function_of = [this](std::uint32_t path) {
    return path < function_.size() ? function_[path] : kNone;
  };
  for (const DataAccess& row : rank.data_accesses) {
    const std::uint32_t function = function_of(row.path);
    if (function == kNone) continue;
    Use& use = use_of(function);
    use.samples += row.samples;
    use.accesses += std::min(row.accesses, row.samples);
    for (std::size_t i = 0; i < use.blocks.size(); ++i) use.blocks[i] |= row.blocks[i];
  }
  bool counted = false;
  if (misses_ != kNone)
    for (const shard::PathCounter& row : rank.path_counters) {
      if (row.counter != misses_ && row.counter != instructions_) continue;
      const std::uint32_t function = function_of(row.path);
      if (function == kNone) continue;
      Use& use = use_of(function);
      (row.counter == misses_ ? use.misses : use.instructions) += row.value;
      counted = counted || row.counter == misses_;
    }
  if (functions_.empty()) return;
  for (const shard::Value& value : rank.values) {
    if (value.category != Category::kNative || function_[value.path] == kNone) continue;
    // If the rank has no entry for the function, the value goes to the first entry, which is never read.
    uses_[use_of_[function_[value.path]]].cpu_ns += std::min(value.cpu_ns, value.wall_ns);
  }
  for (Use& use : uses_) use.counted = counted;  // if others had misses, having none is a count, too
}

const WorkingSet& MemoryUse::working_set(const Use& use) {
  constexpr std::size_t kKnown = 1u << 14;
  if (known_.empty()) known_.resize(kKnown);
  std::uint64_t set = 0;
  for (const std::uint64_t word : use.blocks) set += static_cast<std::uint64_t>(std::popcount(word));
  Known& known = known_[(use.accesses * 257 + set) % kKnown];
  if (const std::array key{set, use.accesses}; known.of != key)
    known = {key, estimate_working_set(use.blocks, use.accesses)};
  return known.set;
}

bool MemoryUse::is_bound(const Use& use, std::uint64_t cache_bytes) {
  if (use.counted && use.cpu_ns != 0) {
    const double bytes = static_cast<double>(use.misses) * kCacheLine_bytes;
    return bytes >= thresholds::kMemoryBandwidth * static_cast<double>(use.cpu_ns) / 1e9 ||
           (use.instructions != 0 && static_cast<double>(use.misses) * 1000 >=
                                         thresholds::kMissesPerKilo * static_cast<double>(use.instructions));
  }
  return cache_bytes != 0 && use.accesses >= thresholds::kMinAccesses &&
         static_cast<double>(use.accesses) >=
             thresholds::kMemoryOperands * static_cast<double>(use.samples) &&
         working_set(use).at_least_bytes > static_cast<double>(cache_bytes);
}

void MemoryUse::add(const RankInput& rank) {
  for (const std::uint32_t function : functions_) use_of_[function] = bound_[function] = 0;
  functions_.clear();
  uses_.resize(1);
  any_bound_ = false;
  collect(rank);

  const std::uint32_t node = rank.of->node;
  const std::uint64_t cache_bytes = node < head_.nodes.size() ? head_.nodes[node].cache_bytes : 0;
  for (std::size_t i = 1; i < uses_.size(); ++i) {
    Use& use = uses_[i];
    const bool bound = is_bound(use, cache_bytes);
    bound_[functions_[i - 1]] = bound;
    any_bound_ = any_bound_ || bound;
    if (use.accesses < thresholds::kMinAccesses) continue;
    largest_.resize(use_of_.size());
    const WorkingSet& set = working_set(use);
    unite(largest_[functions_[i - 1]], Largest{set.bytes, set.is_more});
  }
}

void MemoryUse::finish(std::vector<FunctionRow>& rows) const {
  for (FunctionRow& row : rows) {
    if (row.id >= largest_.size() || largest_[row.id].bytes < 0) continue;
    row.working_set_bytes = largest_[row.id].bytes;
    row.working_set_is_more = largest_[row.id].is_more;
  }
}

}  // namespace clusterprof::report
