// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct TreeOptions {
  std::size_t rows = 15;  // where not full
  bool full = true;       // false: only the largest rows
};

// Prints the call tree, callers above what they call. Nodes with less than 1 % of the time are summed up.
// Needs an analysis with a call tree.
void print_tree(Page& page, const Analysis& analysis, const format::ShortPaths& paths,
                const TreeOptions& options);

}  // namespace clusterprof::report::text
