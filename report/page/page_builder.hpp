// SPDX-License-Identifier: BSD-3-Clause
// Makes the data of a page from a profile and its analysis.
#pragma once

#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/rank_rows.hpp"
#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// Reads the profile's rows once, a rank at a time. Memory: that of the head, of PageData and of the call
// paths, not of the rows. `analysis`: of the same profile, with its timeline's ranks. The same to the last
// bit whatever the order of ranks.
Result<PageData> make_page_data(profile::ProfileReader& profile, const Analysis& analysis,
                                const PageOptions& options);
// Of rows that are elsewhere; goes through them twice.
PageData make_page_data(const shard::ShardData& head, const shard::RowSource& rows, const Analysis& analysis,
                        const PageOptions& options);

}  // namespace clusterprof::report
