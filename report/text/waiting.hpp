// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/format.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

struct WaitsOptions {
  std::size_t rows = 15;
  bool full = true;      // false: kinds, the first root causes and the quality alone
  bool unicode = false;  // block characters
};

// The section on waiting of an analysis that has one.
void print_waits(Page& page, const Analysis& analysis, const ShortPaths& paths, const WaitsOptions& options);

// A share (0..1) for each column, as characters of eight heights between two bars; `?` for one not known.
std::string sparkline(const std::vector<std::optional<double>>& shares, bool unicode);

}  // namespace clusterprof::report::text
