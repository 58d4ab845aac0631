// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "report/analysis/gains.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

// The first `rows` of the ranking. What gains less than its error is dim.
void print_ranking(Page& page, const profile::Gains& gains, std::size_t rows);

}  // namespace clusterprof::report::text
