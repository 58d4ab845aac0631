// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/recording_windows.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>

namespace clusterprof::report {

std::vector<RecordingWindow> united_windows(const shard::ShardData& data) {
  std::int64_t first_utc_ns = shard::kLatest_utc_ns;
  for (const shard::Rank& rank : data.ranks) first_utc_ns = std::min(first_utc_ns, rank.start_utc_ns);
  struct Own {
    std::uint64_t begin_ns, end_ns;
    std::uint32_t rank;
  };
  std::vector<Own> all;
  for (const shard::RecordingWindow& window : data.recording_windows) {
    if (window.rank >= data.ranks.size() || window.begin_ns >= window.end_ns) continue;
    const auto start_ns = static_cast<std::uint64_t>(data.ranks[window.rank].start_utc_ns - first_utc_ns);
    all.push_back({start_ns + window.begin_ns, start_ns + window.end_ns, window.rank});
  }
  std::sort(all.begin(), all.end(), [](const Own& a, const Own& b) {
    return std::tie(a.begin_ns, a.end_ns, a.rank) < std::tie(b.begin_ns, b.end_ns, b.rank);
  });
  std::vector<RecordingWindow> united;
  for (std::size_t i = 0; i < all.size();) {
    const std::uint64_t begin_ns = all[i].begin_ns;
    std::uint64_t end_ns = begin_ns;
    std::set<std::uint32_t> ranks;
    for (; i < all.size() && (ranks.empty() || all[i].begin_ns < end_ns); ++i) {
      end_ns = std::max(end_ns, all[i].end_ns);
      ranks.insert(all[i].rank);
    }
    united.push_back({static_cast<double>(begin_ns) / 1e9, static_cast<double>(end_ns) / 1e9, ranks.size()});
  }
  return united;
}

}  // namespace clusterprof::report
