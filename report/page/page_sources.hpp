// SPDX-License-Identifier: BSD-3-Clause
// The text of the program's hot files, as it is on this machine's disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// The files in which most time was spent, by Analysis::lines. `source_of_row`: by row of Analysis::lines of
// those that the page's report has, its file or kNone.
//
// Text is read of what looks like source code by its name and by that of what a link means (profiles may come
// from others, and pages are passed on: a file must not get into one just because a profile names it), is a
// regular file of at most 2 MB and has not been changed since the run began. Never waits for a pipe or
// device; never writes.
std::vector<PageSourceFile> read_sources(const Analysis& analysis, const PageOptions& options,
                                         std::vector<std::uint32_t>& source_of_row);

// One file: text, or why not.
PageSourceFile read_source(const std::string& file, std::int64_t run_start_utc_ns, std::size_t most_bytes);

}  // namespace clusterprof::report
