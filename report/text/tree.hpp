// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct TreeOptions {
  std::size_t rows = 15;  // where not full
  bool full = true;       // false: only the largest rows
};

// Prints a call tree, callers above what they call. Nodes with less than 1 % of `whole_s` are summed up.
// There are rows.
void print_tree(Page& page, const std::vector<CallTreeRow>& rows, double whole_s,
                const format::ShortPaths& paths, const TreeOptions& options);

}  // namespace clusterprof::report::text
