// SPDX-License-Identifier: BSD-3-Clause
// Makes the data of a page from a profile and its analysis.
#pragma once

#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/rank_rows.hpp"
#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// Reads the profile's rows once, one rank at a time. Memory: the head, PageData and the call paths, but not
// the rows. `analysis` must be of the same profile and have the timeline's ranks. The result is the same to
// the last bit whatever the order of ranks.
Result<PageData> make_page_data(profile::ProfileReader& profile, const Analysis& analysis,
                                const PageOptions& options);
// The same for rows from another source, which it reads twice.
PageData make_page_data(const shard::ShardData& head, const shard::RowSource& rows, const Analysis& analysis,
                        const PageOptions& options);

}  // namespace clusterprof::report
