// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/charged_time.hpp"

#include <algorithm>

namespace clusterprof::report {

using shard::Category;

std::uint64_t sampled_outside_mpi_ns(const shard::Rank& rank) {
  std::uint64_t sum = 0;
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    if (c != static_cast<std::size_t>(Category::kMpi)) sum += rank.main_thread_ns[c];
  return sum;
}

double sampled_scale(const shard::Rank& rank, bool cpu_clock) {
  const std::uint64_t sampled_ns = sampled_outside_mpi_ns(rank);
  if (cpu_clock || (rank.flags & shard::kUsedMpi) == 0 || sampled_ns == 0) return 1.0;
  const std::uint64_t recorded_ns = rank.elapsed_ns - std::min(rank.paused_ns, rank.elapsed_ns);
  const std::uint64_t rest_ns = recorded_ns - std::min(rank.mpi_ns, recorded_ns);
  return static_cast<double>(rest_ns) / static_cast<double>(sampled_ns);
}

TimeCharger::TimeCharger(const shard::ShardData& head)
    : head_(head), cpu_clock_(head.run.clock == "cpu"), calls_(by_rank(head.mpi_calls, head.ranks.size())) {}

bool TimeCharger::measures_calls(std::uint32_t rank) const {
  return !cpu_clock_ && (head_.ranks[rank].flags & shard::kUsedMpi) != 0;
}

std::span<const ChargedValue> TimeCharger::charge(std::uint32_t rank, std::span<const shard::Value> values) {
  const double scale = sampled_scale(head_.ranks[rank], cpu_clock_);
  const bool measured = measures_calls(rank);
  const std::size_t paths = head_.paths.size();
  const std::uint32_t first_call = measured ? calls_.starts[rank] : 0;
  const std::uint32_t end_call = measured ? calls_.starts[rank + 1] : 0;
  charged_.resize(std::max(charged_.size(), values.size() + (end_call - first_call)));
  std::size_t size = 0;
  for (const shard::Value& value : values) {
    if (value.path >= paths || static_cast<std::size_t>(value.category) >= shard::kCategories) continue;
    if (measured && value.category == Category::kMpi) continue;
    ChargedValue& row = charged_[size++];
    row = {value.path, value.category, value.main_thread, value.wall_ns, value.cpu_ns};
    if (!value.main_thread || scale == 1) continue;
    row.wall_ns = round_ns(static_cast<double>(value.wall_ns) * scale);
    row.cpu_ns = round_ns(static_cast<double>(value.cpu_ns) * scale);
  }
  for (std::uint32_t i = first_call; i < end_call; ++i) {
    const shard::MpiCall& call = head_.mpi_calls[calls_.order[i]];
    if (call.path < paths) charged_[size++] = {call.path, Category::kMpi, call.main_thread, call.time_ns, 0};
  }
  return {charged_.data(), size};
}

}  // namespace clusterprof::report
