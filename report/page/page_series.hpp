// SPDX-License-Identifier: BSD-3-Clause
// The time series of a page.
#pragma once

#include <cstddef>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// The time bins of ShardData::path_series.
struct PathBins {
  double bin_s = 0, begin_s = 0;  // since the run's start
  std::size_t count = 0;          // 0: there are none
};
PathBins path_bins(const shard::ShardData& head);

// Fills in PageData::series, node_series and their bins. The page must have its rows.
void add_page_series(const shard::ShardData& head, const Analysis& analysis, const PageOptions& options,
                     PageData& page);

}  // namespace clusterprof::report
