// SPDX-License-Identifier: BSD-3-Clause
// Reads the text of the program's hot source files from this machine's disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// Returns the files in which most time was spent, by Analysis::lines. `source_of_row`: for each row of
// Analysis::lines that the page's report has, its file or kNone.
//
// Only a file whose name looks like source code is read; if it is a link, so must the name of its target.
// Profiles may come from others, and pages are passed on: a file must not get into a page just because a
// profile names it. The file must be a regular file of at most 2 MB that has not changed since the run began.
// Never waits for a pipe or device; never writes.
std::vector<PageSourceFile> read_sources(const Analysis& analysis, const PageOptions& options,
                                         std::vector<std::uint32_t>& source_of_row);

// Reads one file: its text, or the reason why there is none.
PageSourceFile read_source(const std::string& file, std::int64_t run_start_utc_ns, std::size_t most_bytes);

}  // namespace clusterprof::report
