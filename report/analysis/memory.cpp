// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/memory.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "report/analysis/counters.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::DataAccess;
using shard::kNone;

constexpr double kBits = 256;
constexpr double kLineBytes = 64;
constexpr double kMostBlocks = 1e9;

// Different blocks behind `unset` bits of 256: linear counting.
double distinct_blocks(double unset) { return kBits * std::log(kBits / std::clamp(unset, 0.5, kBits)); }

// How many blocks there are when `accesses` random ones hit `distinct` of them: distinct = M (1 - exp(-N /
// M)).
double all_blocks(double distinct, double accesses) {
  if (distinct >= accesses) return kMostBlocks;
  double low = distinct, high = kMostBlocks;
  for (int i = 0; i < 100 && high - low > 1e-6 * low; ++i) {
    const double middle = std::sqrt(low * high);  // over orders of magnitude
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

  // Two errors: bits that are set by several blocks, and how often chance hit the same block again.
  const double load = distinct / kBits;
  const double unset_deviation = std::sqrt(kBits * std::exp(-load) * (1 - (1 + load) * std::exp(-load)));
  const double of_bits =
      distinct - std::min(distinct, distinct_blocks(unset + std::max(1.0, unset_deviation)));
  const double per_block = n / std::min(all_blocks(distinct, n), kMostBlocks);
  const double again =
      n / std::max(per_block, 1e-12) * std::exp(-per_block) * (1 - (1 + per_block) * std::exp(-per_block));
  const double least = std::max(1.0, distinct - std::sqrt(of_bits * of_bits + std::max(1.0, again)));

  WorkingSet result;
  const auto block_bytes = static_cast<double>(DataAccess::kBlockBytes);
  const double upper =
      all_blocks(std::min(n, distinct + std::sqrt(of_bits * of_bits + std::max(1.0, again))), n);
  result.at_least_bytes = all_blocks(std::min(least, n * (1 - 1e-9)), n) * block_bytes;
  result.is_more = upper >= kMostBlocks || unset == 0;
  result.bytes = result.is_more ? result.at_least_bytes : all_blocks(distinct, n) * block_bytes;
  return result;
}

MemoryUse::MemoryUse(const shard::ShardData& data, const std::vector<shard::Value>& charged,
                     const CallPaths& paths) {
  const auto key = [&](std::uint32_t rank, std::uint32_t path) -> std::optional<std::uint64_t> {
    if (rank >= data.ranks.size() || path >= paths.size()) return {};
    const std::uint32_t function = paths.function(paths.counted(path, Category::kNative));
    if (function == kNone) return {};
    return std::uint64_t{rank} << 32 | function;
  };
  for (const DataAccess& row : data.data_accesses) {
    const auto at = key(row.rank, row.path);
    if (!at) continue;
    Use& use = uses_[*at];
    use.samples += row.samples;
    use.accesses += std::min(row.accesses, row.samples);
    for (std::size_t i = 0; i < use.blocks.size(); ++i) use.blocks[i] |= row.blocks[i];
  }
  const std::uint32_t misses = find_counter(data.counters, kCacheMisses);
  const std::uint32_t instructions = find_counter(data.counters, kInstructions);
  std::vector<bool> counted(data.ranks.size(), false);
  if (misses != kNone)
    for (const shard::PathCounter& row : data.path_counters) {
      if (row.counter != misses && row.counter != instructions) continue;
      const auto at = key(row.rank, row.path);
      if (!at) continue;
      Use& use = uses_[*at];
      (row.counter == misses ? use.misses : use.instructions) += row.value;
      if (row.counter == misses) counted[row.rank] = true;
    }
  if (uses_.empty()) return;
  for (const shard::Value& value : charged) {
    if (value.category != Category::kNative) continue;
    const auto at = key(value.rank, value.path);
    if (const auto use = at ? uses_.find(*at) : uses_.end(); use != uses_.end())
      use->second.cpu_ns += std::min(value.cpu_ns, value.wall_ns);
  }
  for (auto& [at, use] : uses_) {
    use.working_set = estimate_working_set(use.blocks, use.accesses);
    use.counted = counted[at >> 32];  // where others had misses, none is a count too
    if (use.counted && use.cpu_ns != 0) {
      const double bytes = static_cast<double>(use.misses) * kLineBytes;
      use.bound =
          bytes >= thresholds::kMemoryBandwidth * static_cast<double>(use.cpu_ns) / 1e9 ||
          (use.instructions != 0 && static_cast<double>(use.misses) * 1000 >=
                                        thresholds::kMissesPerKilo * static_cast<double>(use.instructions));
    } else {
      const std::uint32_t node = data.ranks[at >> 32].node;
      const std::uint64_t cache = node < data.nodes.size() ? data.nodes[node].cache_bytes : 0;
      use.bound = cache != 0 && use.accesses >= thresholds::kFewestAccesses &&
                  static_cast<double>(use.accesses) >=
                      thresholds::kMemoryOperands * static_cast<double>(use.samples) &&
                  use.working_set.at_least_bytes > static_cast<double>(cache);
    }
    any_bound_ = any_bound_ || use.bound;
  }
}

void MemoryUse::describe(std::vector<FunctionRow>& rows) const {
  std::unordered_map<std::uint32_t, const Use*> most;
  for (const auto& [at, use] : uses_) {
    if (use.accesses < thresholds::kFewestAccesses) continue;
    const Use*& known = most[static_cast<std::uint32_t>(at)];
    if (known == nullptr || use.working_set.bytes > known->working_set.bytes ||
        (use.working_set.bytes == known->working_set.bytes && !use.working_set.is_more))
      known = &use;
  }
  for (FunctionRow& row : rows)
    if (const auto use = most.find(row.id); use != most.end()) {
      row.working_set_bytes = use->second->working_set.bytes;
      row.working_set_is_more = use->second->working_set.is_more;
    }
}

}  // namespace clusterprof::report
