// SPDX-License-Identifier: BSD-3-Clause
// Sums up allocations by line: innermost line of the user's, Python before native. Definitions:
// docs/metrics.md, "Who holds memory".
#include "report/analysis/held_memory.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "report/analysis/call_tree.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::kNone;
using shard::MemoryDomain;
using shard::MemorySite;
using Ages = std::array<std::uint64_t, MemorySite::kAges>;

// Less is no matter, and may be chance.
constexpr std::uint64_t kLeastLeak = std::uint64_t{1} << 20;
// Samples of what lives, so that its error is below 25 %.
constexpr std::uint64_t kLeastSamples = 16;
// Of the eighths after the first, how many have left something, and how much of their mean at least.
constexpr std::size_t kAgesOfLeak = 6;
constexpr std::uint64_t kPartOfMean = 4;

using Text = std::string_view;
// File, line, function, domain.
using LineKey = std::tuple<Text, std::uint32_t, Text, MemoryDomain>;

// For each path the one whose line memory counts for; 0: not known. Python's lines come before those of
// native code that they call, but not of a program that they start.
class MemoryPlaces {
 public:
  explicit MemoryPlaces(const CallPaths& paths) : paths_(paths), python_(paths.size(), 0) {
    for (std::uint32_t path = 1; path < paths.size(); ++path) {
      const shard::Frame* const frame = paths.frame(path);
      python_[path] = python_[paths.parent(path)];
      if (frame == nullptr) continue;
      if (frame->kind == shard::FrameKind::kPython && paths.owner(path) == Owner::kOwn && frame->line != 0)
        python_[path] = path;
      else if (frame->kind == shard::FrameKind::kNative && paths.text(frame->name) == "main")
        python_[path] = 0;
    }
  }

  [[nodiscard]] std::uint32_t of(std::uint32_t path) const {
    if (path >= python_.size()) return 0;
    return python_[path] != 0 ? python_[path] : paths_.place(path);
  }
  // The function that the line called, where it is not its own.
  [[nodiscard]] std::string called(std::uint32_t path) const {
    if (path >= python_.size()) return {};
    const std::uint32_t place = paths_.place(path);
    if (const std::uint32_t library = paths_.called(path); library != 0) return paths_.library_name(library);
    return place != of(path) && place != 0 ? paths_.library_name(place) : std::string();
  }

 private:
  const CallPaths& paths_;
  std::vector<std::uint32_t> python_;  // by path: it, or the nearest above it that is Python of the user's
};

struct LineSum {
  MemoryLine line;
  double variance = 0;
  std::map<std::string, std::uint64_t> called;  // bytes by library function
  // Of the rank at hand.
  Ages ages{};
  std::uint64_t rank_peak_bytes = 0, node_peak_bytes = 0;
  double confidence = 1;  // of leaks, the least
  bool touched = false;
};

class MemoryByLine {
 public:
  MemoryByLine(const shard::ShardData& data, const CallPaths& paths)
      : data_(data), paths_(paths), places_(paths), parts_(data.nodes.size()), growth_(data.nodes.size()) {}

  void add_rank(std::uint32_t rank, std::span<const std::uint32_t> rows, std::uint64_t interval_bytes) {
    for (const std::uint32_t row : rows)
      if (static_cast<std::size_t>(data_.memory_sites[row].domain) < shard::kMemoryDomains)
        add(data_.memory_sites[row]);
    const shard::Rank& of = data_.ranks[rank];
    for (LineSum* const sum : touched_) {
      MemoryLine& line = sum->line;
      if (sum->rank_peak_bytes > line.max_rank_bytes || line.max_rank < 0) {
        line.max_rank = of.rank;
        line.max_rank_bytes = sum->rank_peak_bytes;
      }
      if (sum->node_peak_bytes != 0 && of.node < parts_.size())
        parts_[of.node].push_back({sum, of.rank, sum->node_peak_bytes});
      if (const LeakJudgement leak = judge_leak(sum->ages, interval_bytes); leak.is_leak) {
        line.leak = true;
        sum->confidence = std::min(sum->confidence, leak.confidence);
        const double half_s = to_seconds(of.elapsed_ns) / 2;
        const double growth = half_s > 0 ? static_cast<double>(leak.late_bytes) / half_s : 0;
        line.growth_bytes_per_s += growth;
        if (of.node < growth_.size()) growth_[of.node][sum] += growth;
      }
      sum->ages = {};
      sum->rank_peak_bytes = sum->node_peak_bytes = 0;
      sum->touched = false;
    }
    touched_.clear();
  }

  void finish(HeldMemory& memory) {
    std::vector<LineSum*> order;
    for (auto& [key, sum] : sums_) order.push_back(&sum);
    std::stable_sort(order.begin(), order.end(), [](const LineSum* a, const LineSum* b) {
      const auto size = [](const LineSum* sum) {
        const MemoryLine& line = sum->line;
        return std::tie(line.node_peak_bytes, line.rank_peak_bytes, line.live_end_bytes, line.alloc_bytes,
                        line.copy_bytes, line.file_bytes);
      };
      return size(b) < size(a);
    });
    std::map<const LineSum*, std::uint32_t> number;
    for (LineSum* const sum : order) {
      number.emplace(sum, static_cast<std::uint32_t>(memory.lines.size()));
      MemoryLine& line = sum->line;
      line.error_bytes = std::sqrt(sum->variance);
      line.called = most_of(sum->called);
      if (line.leak) line.leak_confidence = sum->confidence;
      memory.lines.push_back(line);
    }
    for (std::uint32_t n = 0; n < data_.nodes.size(); ++n) {
      const shard::Node& of = data_.nodes[n];
      if (of.held_peak_bytes == 0) continue;
      HeldNode& node = memory.nodes.emplace_back();
      node.node = n;
      node.peak_bytes = of.held_peak_bytes;
      node.peak_at_s = since_start(of.held_peak_utc_ns);
      for (const auto& [sum, rank, bytes] : parts_[n]) node.held.push_back({number.at(sum), rank, bytes});
      std::stable_sort(node.held.begin(), node.held.end(),
                       [](const HeldPart& a, const HeldPart& b) { return a.bytes > b.bytes; });
      if (node.held.size() > kMaxHeldParts) node.held.resize(kMaxHeldParts);
      std::map<std::uint32_t, double> growth;  // in the order of lines: the sum depends on it
      for (const auto& [sum, bytes_per_s] : growth_[n]) growth[number.at(sum)] = bytes_per_s;
      for (const auto& [line, bytes_per_s] : growth) {
        node.growth_bytes_per_s += bytes_per_s;
        if (node.growth_line == kNone || bytes_per_s > growth.at(node.growth_line)) node.growth_line = line;
      }
    }
    add_over_time(number, memory.over_time);
  }

  [[nodiscard]] Seconds since_start(std::int64_t utc_ns) const {
    return static_cast<double>(utc_ns - data_.run.start_utc_ns) / 1e9;
  }

 private:
  struct Part {
    const LineSum* sum;
    std::int32_t rank;
    std::uint64_t bytes;
  };

  [[nodiscard]] LineKey key_of(std::uint32_t path, MemoryDomain domain) const {
    const std::uint32_t place = places_.of(path);
    const shard::Frame* const frame = paths_.frame(place);
    if (frame == nullptr) return {Text(), 0, Text(), domain};
    return {paths_.text(frame->file), frame->line, paths_.text(frame->name), domain};
  }

  void add(const MemorySite& site) {
    const bool is_file = site.domain == MemoryDomain::kFile;
    const LineKey key = key_of(site.path, is_file ? MemoryDomain::kMapping : site.domain);
    LineSum& sum = sums_[key];
    MemoryLine& line = sum.line;
    if (!std::exchange(sum.touched, true)) touched_.push_back(&sum);
    if (const shard::Frame* const frame = paths_.frame(places_.of(site.path))) line.kind = frame->kind;
    std::tie(line.file, line.line, line.function, line.domain) = key;
    line.alloc_bytes += site.alloc_bytes;
    line.alloc_count += site.alloc_count;
    sum.variance += static_cast<double>(site.variance) * MemorySite::kVarianceUnit;
    line.soon_bytes += std::min(site.soon_bytes, site.alloc_bytes);
    line.soon_count += std::min(site.soon_count, site.alloc_count);
    line.copy_bytes += site.copy_bytes;
    line.copy_count += site.copy_count;
    sum.called[places_.called(site.path)] += site.alloc_bytes + site.copy_bytes;
    if (is_file) {
      line.file_bytes += site.live_end_bytes;
      return;
    }
    line.live_end_bytes += site.live_end_bytes;
    line.rank_peak_bytes += site.rank_peak_bytes;
    line.node_peak_bytes += site.node_peak_bytes;
    sum.rank_peak_bytes += site.rank_peak_bytes;
    sum.node_peak_bytes += site.node_peak_bytes;
    for (std::size_t i = 0; i < MemorySite::kAges; ++i) sum.ages[i] += site.live_by_age[i];
  }

  // By line alone: the series do not tell domains apart.
  void add_over_time(const std::map<const LineSum*, std::uint32_t>& number, HeldOverTime& over_time) {
    const shard::TimeAxis& axis = data_.path_axis;
    if (axis.bin_ns == 0 || data_.memory_series.empty()) return;
    const double width_s = to_seconds(axis.bin_ns);
    over_time.bin_s = width_s;
    over_time.begin_s = since_start(axis.origin_utc_ns).value_or(0);
    std::int64_t end_utc_ns = data_.run.start_utc_ns;
    for (const shard::Rank& rank : data_.ranks)
      end_utc_ns = std::max(end_utc_ns, rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns));
    const double end_s = since_start(end_utc_ns).value_or(0);
    // The first and the last bin may lie partly outside of the run.
    const auto covered_ms = [&](std::uint32_t bin) {
      const double begin = over_time.begin_s + bin * width_s;
      const double part = std::min(begin + width_s, end_s) - std::max(begin, 0.0);
      return std::clamp(part, width_s / 100, width_s) * 1e3;
    };
    using PlaceKey = std::tuple<Text, std::uint32_t, Text>;
    std::map<PlaceKey, std::uint32_t> line_of;  // its largest one
    for (auto& [key, sum] : sums_) {
      const auto& [file, line, function, domain] = key;
      const std::uint32_t n = number.at(&sum);
      const auto [known, added] = line_of.try_emplace({file, line, function}, n);
      if (!added) known->second = std::min(known->second, n);
    }
    std::map<std::uint32_t, std::vector<double>> kib_ms;  // by line
    for (const shard::MemorySeries& row : data_.memory_series) {
      if (row.bin >= shard::kMaxPathBins) continue;
      const auto& [file, line, function, domain] = key_of(row.path, MemoryDomain::kNative);
      const auto known = line_of.find({file, line, function});
      // Paths without rows of their own in the table of sites count for those above them.
      if (known == line_of.end()) continue;
      std::vector<double>& values = kib_ms[known->second];
      if (values.size() <= row.bin) values.resize(row.bin + 1);
      values[row.bin] += static_cast<double>(row.kib_ms);
      over_time.bins = std::max<std::size_t>(over_time.bins, row.bin + 1);
    }
    std::vector<std::pair<double, HeldOverTime::Row>> rows;
    for (const auto& [line, values] : kib_ms) {
      HeldOverTime::Row row;
      row.line = line;
      double sum = 0;
      for (std::uint32_t bin = 0; bin < values.size(); ++bin) {
        row.values.push_back(
            static_cast<std::uint64_t>(std::min(values[bin] / covered_ms(bin) * 1024, 0x1p62) + 0.5));
        sum += values[bin];
      }
      rows.emplace_back(sum, std::move(row));
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [sum, row] : rows) over_time.rows.push_back(std::move(row));
  }

  const shard::ShardData& data_;
  const CallPaths& paths_;
  MemoryPlaces places_;
  std::map<LineKey, LineSum> sums_;
  std::vector<LineSum*> touched_;                         // by the rank at hand
  std::vector<std::vector<Part>> parts_;                  // by node
  std::vector<std::map<const LineSum*, double>> growth_;  // by node, of leaks
};

std::optional<std::uint64_t> if_looked(std::uint64_t bytes, bool looked) {
  return looked ? std::optional(bytes) : std::nullopt;
}

HeldRank held_rank(const shard::ShardData& data, const shard::MemoryRank& row) {
  const shard::Rank& of = data.ranks[row.rank];
  HeldRank rank;
  rank.rank = of.rank;
  rank.node = of.node;
  rank.peak_bytes = row.peak_bytes;
  rank.live_end_bytes = row.live_end_bytes;
  if (row.peak_bytes != 0)
    rank.peak_at_s =
        static_cast<double>(of.start_utc_ns - data.run.start_utc_ns) / 1e9 + to_seconds(row.peak_ns);
  rank.untracked_bytes = row.untracked_bytes;
  rank.static_bytes = row.static_bytes;
  const bool looked = row.max_anon_bytes != 0;
  rank.max_anon_bytes = if_looked(row.max_anon_bytes, looked);
  rank.live_at_max_anon_bytes = if_looked(row.live_at_max_anon_bytes, looked);
  rank.mean_anon_bytes = if_looked(row.mean_anon_bytes, looked);
  rank.mean_live_bytes = if_looked(row.mean_live_bytes, looked);
  const bool added_up = row.pss_bytes != 0;
  rank.pss_bytes = if_looked(row.pss_bytes, added_up);
  rank.private_dirty_bytes = if_looked(row.private_dirty_bytes, added_up);
  rank.huge_bytes = if_looked(row.huge_bytes, added_up);
  rank.swap_bytes = if_looked(row.swap_bytes, added_up);
  const bool knows_nodes = row.near_bytes + row.far_bytes != 0;
  rank.near_bytes = if_looked(row.near_bytes, knows_nodes);
  rank.far_bytes = if_looked(row.far_bytes, knows_nodes);
  return rank;
}

}  // namespace

LeakJudgement judge_leak(const Ages& live_by_age, std::uint64_t interval_bytes) {
  LeakJudgement judgement;
  std::uint64_t later = 0;  // without the first eighth, in which programs load what they work on
  for (std::size_t i = 1; i < live_by_age.size(); ++i) later += live_by_age[i];
  for (std::size_t i = live_by_age.size() / 2; i < live_by_age.size(); ++i)
    judgement.late_bytes += live_by_age[i];
  if (later < std::max(kLeastLeak, kLeastSamples * interval_bytes)) return judgement;
  const std::uint64_t mean = later / (live_by_age.size() - 1);
  const auto left = static_cast<std::size_t>(
      std::count_if(live_by_age.begin() + 1, live_by_age.end(),
                    [&](std::uint64_t bytes) { return bytes >= mean / kPartOfMean; }));
  judgement.is_leak = left >= kAgesOfLeak;
  if (!judgement.is_leak) return judgement;
  const double samples =
      static_cast<double>(later) / static_cast<double>(std::max<std::uint64_t>(interval_bytes, 1));
  judgement.confidence =
      static_cast<double>(left) / static_cast<double>(live_by_age.size() - 1) * (1 - 1 / std::sqrt(samples));
  return judgement;
}

void find_held_memory(const shard::ShardData& data, const CallPaths& paths,
                      const std::vector<std::uint32_t>& ascending, Analysis& analysis) {
  if (data.memory_ranks.empty()) return;
  HeldMemory& memory = analysis.memory.emplace();
  std::vector<const shard::MemoryRank*> of_rank(data.ranks.size(), nullptr);
  for (const shard::MemoryRank& row : data.memory_ranks)
    if (row.rank < of_rank.size()) of_rank[row.rank] = &row;
  const ByRank by = by_rank(data.memory_sites, data.ranks.size());
  MemoryByLine lines(data, paths);
  for (const std::uint32_t rank : ascending) {
    if (of_rank[rank] == nullptr || data.ranks[rank].node >= data.nodes.size()) continue;
    memory.interval_bytes = std::max(memory.interval_bytes, of_rank[rank]->interval_bytes);
    memory.ranks.push_back(held_rank(data, *of_rank[rank]));
    lines.add_rank(rank, std::span(by.order).subspan(by.starts[rank], by.starts[rank + 1] - by.starts[rank]),
                   of_rank[rank]->interval_bytes);
  }
  lines.finish(memory);
  find_memory_tree(data.memory_sites, paths, memory);
}

}  // namespace clusterprof::report
