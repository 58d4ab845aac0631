// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/off_cpu.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "report/analysis/tables.hpp"

namespace clusterprof::report {

using shard::Category;
using shard::kNone;

OffCpuTime::OffCpuTime(const shard::ShardData& head, const CallPaths& paths, const LocationNumbers& places)
    : paths_(paths), places_(places), cpu_clock_(head.run.clock == "cpu"), wait_of_(paths.size()) {
  constexpr std::uint32_t kKinds = kOffCpuKinds;
  std::vector<std::uint32_t> known(places.size() * kKinds, kNone);
  for (std::uint32_t path = 0; path < paths.size(); ++path) {
    const OffCpu kind = off_cpu_of(paths, path);
    std::uint32_t& wait = known[places.of(path) * kKinds + static_cast<std::uint32_t>(kind)];
    if (wait == kNone) {
      wait = static_cast<std::uint32_t>(waits_.size());
      waits_.emplace_back(places.of(path), kind);
    }
    wait_of_[path] = wait;
  }
  rank_totals_.resize(waits_.size());
}

void OffCpuTime::add(const RankInput& rank) {
  if (cpu_clock_ || !rank.sampled) return;
  for (const shard::Value& value : rank.values) {
    const bool is_blocked = value.category == Category::kIdle || value.category == Category::kIo;
    if (!is_blocked || value.wall_ns <= value.cpu_ns) continue;
    const std::uint32_t wait = wait_of_[value.path];
    RankTotals& here = rank_totals_[wait];
    if (here.main_ns + here.helper_ns == 0) touched_.push_back(wait);
    (value.main_thread ? here.main_ns : here.helper_ns) += value.wall_ns - value.cpu_ns;
  }
  for (const std::uint32_t wait : touched_) {
    RankTotals& here = rank_totals_[wait];
    const std::uint64_t time_ns = here.main_ns + here.helper_ns;
    sums_.resize(waits_.size());
    if (time_ns > 0) unite(sums_[wait], Sum{time_ns, here.main_ns, to_seconds(time_ns), rank.position});
    here = {};
  }
  touched_.clear();
}

OffCpuTime::CalledTime OffCpuTime::called_time(const PathTime& time) const {
  CalledTime called(waits_.size());
  for (std::uint32_t path = 1; path < paths_.size(); ++path)
    for (const Category category : {Category::kIdle, Category::kIo}) {
      const std::uint32_t cell = time.cell(path, category);
      const std::uint64_t ns = time.main_ns(cell) + time.helper_ns(cell);
      if (ns == 0) continue;
      const std::uint32_t library = paths_.called(path);
      called[wait_of_[path]][library == 0 ? std::string() : paths_.library_name(library)] += ns;
    }
  return called;
}

void OffCpuTime::finish(const PathTime& time, const RankOrder& ranks, Analysis& analysis) const {
  if (cpu_clock_ || analysis.run.samples == 0) return;
  // Paths that end at one line are one row.
  using Key = std::tuple<OffCpu, std::string_view, std::uint32_t, std::string_view>;
  struct Row {
    shard::FrameKind frame_kind = shard::FrameKind::kNative;
    Sum sum;
    std::map<std::string, std::uint64_t> called;
  };
  const CalledTime called = called_time(time);
  std::map<Key, Row> rows;
  for (std::size_t wait = 0; wait < sums_.size(); ++wait) {
    const Sum& sum = sums_[wait];
    if (sum.position == kNoPosition) continue;
    const auto& [place, kind] = waits_[wait];
    const shard::Frame* const frame = paths_.frame(places_.path(place));
    const Key key = frame == nullptr
                        ? Key{kind, {}, 0, {}}
                        : Key{kind, paths_.text(frame->file), frame->line, paths_.text(frame->name)};
    const auto [row, is_new] = rows.try_emplace(key);
    if (is_new && frame != nullptr) row->second.frame_kind = frame->kind;
    unite(row->second.sum, sum);
    for (const auto& [name, ns] : called[wait]) row->second.called[name] += ns;
  }
  auto& result = analysis.off_cpu.emplace();
  for (const auto& [key, from] : rows) {
    OffCpuRow& row = result.emplace_back();
    std::tie(row.kind, row.file, row.line, row.function) = key;
    row.frame_kind = from.frame_kind;
    row.called = most_of(from.called);
    row.time_s = to_seconds(from.sum.time_ns);
    row.main_thread_s = to_seconds(from.sum.main_thread_ns);
    row.max_rank = ranks.number(from.sum.position);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const OffCpuRow& x, const OffCpuRow& y) { return x.time_s > y.time_s; });
}

}  // namespace clusterprof::report
