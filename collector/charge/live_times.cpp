// SPDX-License-Identifier: BSD-3-Clause
#include "collector/charge/live_times.hpp"

namespace clusterprof::collector {

void LiveTimes::begin_look() {
  ++look_;
  for (auto& [key, sum] : sums_) sum.open_ns = 0;
  std::erase_if(sums_, [&](const auto& row) { return row.second.look + kLooksWithoutTime < look_; });
}

LiveTimes::Sum& LiveTimes::sum_of(std::uint32_t path, shard::Category category) {
  RawValueKey key{path, category, true};
  if (sums_.size() >= kMaxRows && !sums_.contains(key)) key.path = store_.shorten(path);
  Sum& sum = sums_[key];
  sum.look = look_;
  return sum;
}

void LiveTimes::add(std::uint32_t path, shard::Category category, std::uint64_t ns) {
  if (ns != 0) sum_of(path, category).charged_ns += ns;
}

void LiveTimes::add_open(std::uint32_t path, shard::Category category, std::uint64_t ns) {
  if (ns != 0) sum_of(path, category).open_ns += ns;
}

std::vector<LiveTimes::Row> LiveTimes::rows() const {
  std::vector<Row> rows;
  rows.reserve(sums_.size());
  for (const auto& [key, sum] : sums_) rows.push_back({key.path, key.category, sum.charged_ns + sum.open_ns});
  return rows;
}

}  // namespace clusterprof::collector
