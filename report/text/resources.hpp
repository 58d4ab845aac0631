// SPDX-License-Identifier: BSD-3-Clause
// The sections on files, blocked time, regions, time and nodes.
#pragma once

#include <cstddef>

#include "report/analysis/analysis.hpp"
#include "report/format/format.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct ResourceOptions {
  std::size_t rows = 15;
  bool full = true;      // false: the first few rows of the one table that says most
  bool unicode = false;  // block characters
};

// Each of an analysis that has it.
void print_io(Page& page, const Analysis& analysis, const ShortPaths& paths, const ResourceOptions& options);
void print_off_cpu(Page& page, const Analysis& analysis, const ShortPaths& paths,
                   const ResourceOptions& options);
void print_regions(Page& page, const Analysis& analysis, const ResourceOptions& options);
void print_timeline(Page& page, const Analysis& analysis, const ResourceOptions& options);
void print_nodes(Page& page, const Analysis& analysis, const ResourceOptions& options);

// "IPC  1.57  PAPI_TOT_INS / PAPI_TOT_CYC": a line each.
void print_derived(Page& page, const std::vector<Derived>& derived);

}  // namespace clusterprof::report::text
