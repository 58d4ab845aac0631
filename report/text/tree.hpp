// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "report/analysis/analysis.hpp"
#include "report/format/format.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct TreeOptions {
  std::size_t rows = 15;  // where not full
  bool full = true;       // false: the largest rows alone
};

// The call tree of an analysis that has one: callers above what they call, indented; what took less than a
// hundredth is summed up.
void print_tree(Page& page, const Analysis& analysis, const ShortPaths& paths, const TreeOptions& options);

}  // namespace clusterprof::report::text
