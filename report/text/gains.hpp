// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

#include "report/analysis/gains.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

// "from 9 complete stretches, 800 ms of 12.1 s: ...": of a run whose events are a sample.
std::string stretches_told(std::size_t count, double time_s, double elapsed_s);

// The first `rows` of the ranking. What gains less than its error is dim.
void print_ranking(Page& page, const profile::Gains& gains, std::size_t rows);

}  // namespace clusterprof::report::text
