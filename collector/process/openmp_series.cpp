// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/openmp_series.hpp"

#include <algorithm>

namespace clusterprof::collector {

void OpenMpSeries::look(TimeGrid& grid, const shard::OmpSums& sums, std::uint64_t under_way_since_ns,
                        std::uint64_t start_ns, std::uint64_t now_ns) {
  looked_ns_ = now_ns;
  const std::uint64_t from_ns = std::max(until_ns_, start_ns);
  const std::uint64_t to_ns =
      under_way_since_ns != 0 ? std::clamp(under_way_since_ns, from_ns, std::max(from_ns, now_ns)) : now_ns;
  if (to_ns <= from_ns) {  // in the same region as before: what has ended inside is added with it
    if (under_way_since_ns != 0) in_region_ns_ = now_ns;
    return;
  }
  // The region that was seen under way took all of the time until then, whatever came after it.
  const std::uint64_t full_ns = in_region_ns_ > from_ns ? std::min(in_region_ns_, to_ns) - from_ns : 0;
  const std::uint64_t region_ns = sums.region_ns - std::min(sums.region_ns, known_.region_ns);
  const double first_share =
      region_ns == 0 ? 0 : static_cast<double>(std::min(full_ns, region_ns)) / static_cast<double>(region_ns);
  for (std::uint32_t column = 0; column < kOpenMpColumns; ++column) {
    const auto field = shard::kOmpSeries[column].second;
    std::uint64_t& known = known_.*field;
    if (sums.*field <= known) continue;
    const std::uint64_t amount = sums.*field - known;
    const std::uint64_t first =
        std::min(amount, static_cast<std::uint64_t>(static_cast<double>(amount) * first_share));
    block_.spread(grid, column, from_ns, from_ns + full_ns, first);
    block_.spread(grid, column, from_ns + full_ns, to_ns, amount - first);
    known = sums.*field;
  }
  until_ns_ = to_ns;
  in_region_ns_ = under_way_since_ns != 0 ? now_ns : 0;
}

}  // namespace clusterprof::collector
