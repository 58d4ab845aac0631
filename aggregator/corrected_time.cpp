// SPDX-License-Identifier: BSD-3-Clause
// Replaces sampled times of call paths by the measured times of MPI calls where there are any, and scales the
// rest so that the categories of a rank's main thread add up to its recorded time. docs/metrics.md, "One set
// of numbers".
#include "aggregator/corrected_time.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "aggregator/unite.hpp"
#include "formats/shard/rank_rows.hpp"

namespace clusterprof::aggregator {
namespace {

using shard::Category;
using shard::kCategories;
using shard::Rank;
using shard::ShardData;
using shard::Value;

constexpr auto kMpi = static_cast<std::size_t>(Category::kMpi);

// Scales amounts that add up to `from` to amounts that add up to `to`. Each is rounded once and no remainder
// is lost: a part is the difference of the scaled running sums after and before it.
class Share {
 public:
  Share(std::uint64_t from, std::uint64_t to)
      : from_(from),
        to_(to),
        factor_(from == 0 ? 1.0 : static_cast<double>(to) / static_cast<double>(from)) {}

  std::uint64_t operator()(std::uint64_t part) {
    if (from_ == to_) return part;
    sum_ += part;
    const std::uint64_t before = std::exchange(scaled_, scaled(sum_));
    return scaled_ - before;
  }

 private:
  [[nodiscard]] std::uint64_t scaled(std::uint64_t sum) const {
    if (sum == from_) return to_;
    const double ns = static_cast<double>(sum) * factor_;
    constexpr double kMost = 9e18;  // three centuries, in damaged data
    const auto whole = static_cast<std::uint64_t>(std::min(ns, kMost));
    return sum < from_ ? std::min(whole, to_) : std::max(whole, to_);
  }

  std::uint64_t from_, to_;
  double factor_;
  std::uint64_t sum_ = 0, scaled_ = 0;
};

bool used_mpi(const Rank& rank) { return (rank.flags & shard::kUsedMpi) != 0; }

// Returns the time that the main thread of each rank spent in its MPI calls.
std::vector<std::uint64_t> main_calls_ns(const ShardData& head) {
  std::vector<std::uint64_t> sums(head.ranks.size(), 0);
  for (const shard::MpiCall& call : head.mpi_calls)
    if (call.rank < sums.size() && call.main_thread) sums[call.rank] += call.time_ns;
  return sums;
}

}  // namespace

void correct_ranks(ShardData& head) {
  const bool cpu_clock = head.run.clock == "cpu";
  const std::vector<std::uint64_t> calls_ns = main_calls_ns(head);
  for (std::size_t i = 0; i < head.ranks.size(); ++i) {
    Rank& rank = head.ranks[i];
    const auto& raw = rank.raw_main_thread_ns = rank.main_thread_ns;
    const std::uint64_t recorded_ns = rank.elapsed_ns - std::min(rank.paused_ns, rank.elapsed_ns);
    // mpi_ns alone has the time of calls that found no row of their own. The last look at a killed rank
    // may have seen a call in its row, and not yet in mpi_ns.
    if (used_mpi(rank)) rank.mpi_ns = std::min(std::max(rank.mpi_ns, calls_ns[i]), recorded_ns);
    const std::uint64_t mpi_ns = used_mpi(rank) ? rank.mpi_ns : std::min(raw[kMpi], recorded_ns);
    rank.main_thread_ns[kMpi] = mpi_ns;
    if (cpu_clock) continue;  // processor time does not add up to anything
    const std::uint64_t sampled_ns = std::accumulate(raw.begin(), raw.end(), std::uint64_t{0}) - raw[kMpi];
    Share share(sampled_ns, recorded_ns - mpi_ns);
    for (std::size_t c = 0; c < kCategories; ++c)
      if (c != kMpi && sampled_ns != 0) rank.main_thread_ns[c] = share(raw[c]);
  }
}

TimeCorrector::TimeCorrector(const ShardData& head)
    : head_(head),
      cpu_clock_(head.run.clock == "cpu"),
      first_call_(head.ranks.size() + 1, 0),
      call_order_(head.mpi_calls.size()) {
  const auto is_known = [&](const shard::MpiCall& call) {
    return call.rank < head.ranks.size() && call.path < head.paths.size();
  };
  for (const shard::MpiCall& call : head.mpi_calls)
    if (is_known(call)) ++first_call_[call.rank + std::size_t{1}];
  std::partial_sum(first_call_.begin(), first_call_.end(), first_call_.begin());
  std::vector<std::size_t> next = first_call_;
  for (std::uint32_t i = 0; i < head.mpi_calls.size(); ++i)
    if (is_known(head.mpi_calls[i])) call_order_[next[head.mpi_calls[i].rank]++] = i;
}

void TimeCorrector::find_calls(std::uint32_t rank) {
  calls_.clear();
  for (std::size_t i = first_call_[rank]; i < first_call_[rank + std::size_t{1}]; ++i) {
    const shard::MpiCall& call = head_.mpi_calls[call_order_[i]];
    calls_.push_back({call.path, call.main_thread, call.time_ns});
  }
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) {
    return std::tuple(a.path, !a.main_thread, a.time_ns) < std::tuple(b.path, !b.main_thread, b.time_ns);
  });
  std::size_t kept = 0;  // of communicators, one
  for (const Call& call : calls_)
    if (kept != 0 && calls_[kept - 1].path == call.path && calls_[kept - 1].main_thread == call.main_thread)
      calls_[kept - 1].time_ns += call.time_ns;
    else
      calls_[kept++] = call;
  calls_.resize(kept);

  const std::uint64_t mpi_ns = head_.ranks[rank].main_thread_ns[kMpi];
  std::uint64_t main_ns = 0;
  for (const Call& call : calls_)
    if (call.main_thread) main_ns += call.time_ns;
  if (main_ns > mpi_ns) {
    Share share(main_ns, mpi_ns);
    for (Call& call : calls_)
      if (call.main_thread) call.time_ns = share(call.time_ns);
  } else if (main_ns < mpi_ns) {
    if (calls_.empty() || calls_.front().path != 0 || !calls_.front().main_thread)
      calls_.insert(calls_.begin(), {0, true, 0});
    calls_.front().time_ns += mpi_ns - main_ns;
  }
}

void TimeCorrector::correct(std::uint32_t rank, std::span<const Value> values,
                            std::vector<Value>& corrected) {
  if (cpu_clock_ || rank >= head_.ranks.size()) {
    corrected.insert(corrected.end(), values.begin(), values.end());
    return;
  }
  const Rank& of = head_.ranks[rank];
  const bool measured = used_mpi(of);
  calls_.clear();
  if (measured) find_calls(rank);
  std::vector<Share> shares;
  for (std::size_t c = 0; c < kCategories; ++c)
    shares.emplace_back(of.raw_main_thread_ns[c], of.main_thread_ns[c]);
  auto call = calls_.begin();
  const auto add_calls_before = [&](const Value* row) {
    for (; call != calls_.end(); ++call) {
      const Value value{rank, call->path, Category::kMpi, call->main_thread, call->time_ns, 0, 0};
      if (row != nullptr && !(key(value) < key(*row))) return;
      corrected.push_back(value);
    }
  };
  for (const Value& row : values) {
    add_calls_before(&row);
    Value& value = corrected.emplace_back(row);
    if (measured && row.category == Category::kMpi) {
      value.wall_ns = 0;  // samples that are of no call path with calls
      if (call != calls_.end() && call->path == row.path && call->main_thread == row.main_thread)
        value.wall_ns = (call++)->time_ns;
    } else if (row.main_thread && static_cast<std::size_t>(row.category) < kCategories) {
      value.wall_ns = shares[static_cast<std::size_t>(row.category)](row.wall_ns);
    }
  }
  add_calls_before(nullptr);
}

void correct_path_series(ShardData& head, std::span<const std::uint64_t> exclusive_ns) {
  std::vector<shard::PathSeries>& rows = head.path_series;
  if (rows.empty()) return;
  std::vector<std::uint64_t> sampled_ns(head.paths.size(), 0),
      due_ns(exclusive_ns.begin(), exclusive_ns.end());
  std::array<std::uint64_t, shard::kMaxPathBins> bins{};
  for (shard::PathSeries& row : rows) {
    row.raw_wall_ns = row.wall_ns;
    sampled_ns[row.path] += row.wall_ns;
    bins[row.bin] += row.wall_ns;
  }
  due_ns.resize(head.paths.size(), 0);
  for (std::size_t path = head.paths.size(); --path != 0;)
    if (sampled_ns[path] == 0) due_ns[head.paths[path].parent] += std::exchange(due_ns[path], 0);
  if (sampled_ns[0] == 0 && due_ns[0] != 0) {  // spread over the bins as all sampled time is
    std::vector<shard::PathSeries> of_root;
    for (std::uint32_t bin = 0; bin < bins.size(); ++bin)
      if (bins[bin] != 0) of_root.push_back({0, bin, bins[bin], 0});
    sampled_ns[0] = std::accumulate(bins.begin(), bins.end(), std::uint64_t{0});
    rows.insert(rows.begin(), of_root.begin(), of_root.end());
  }
  std::uint32_t path = shard::kNone;
  std::optional<Share> share;
  for (shard::PathSeries& row : rows) {  // by path
    if (row.path != path) share.emplace(sampled_ns[path = row.path], due_ns[row.path]);
    row.wall_ns = (*share)(row.wall_ns);
  }
  std::erase_if(rows, [](const shard::PathSeries& row) { return row.wall_ns == 0 && row.raw_wall_ns == 0; });
}

void restore_path_series(ShardData& head) {
  for (shard::PathSeries& row : head.path_series) row.wall_ns = std::exchange(row.raw_wall_ns, 0);
  std::erase_if(head.path_series, [](const shard::PathSeries& row) { return row.wall_ns == 0; });
}

void correct_rows(ShardData& data) {
  const shard::InMemoryRows rows(data);
  TimeCorrector corrector(data);
  std::vector<Value> corrected;
  std::vector<bool> seen(data.ranks.size(), false);
  rows.for_each_rank([&](const shard::RankRows& rank) {
    if (rank.rank < seen.size()) seen[rank.rank] = true;
    corrector.correct(rank.rank, rank.values, corrected);
  });
  for (std::uint32_t rank = 0; rank < seen.size(); ++rank)
    if (!seen[rank]) corrector.correct(rank, {}, corrected);
  std::stable_sort(corrected.begin(), corrected.end(),
                   [](const Value& a, const Value& b) { return a.rank < b.rank; });
  data.values = std::move(corrected);
  std::vector<std::uint64_t> exclusive_ns(data.paths.size(), 0);
  for (const Value& value : data.values)
    if (value.path < exclusive_ns.size()) exclusive_ns[value.path] += value.wall_ns;
  correct_path_series(data, exclusive_ns);
}

}  // namespace clusterprof::aggregator
