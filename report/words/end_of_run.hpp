// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::words {

// "the last 60.0 s, from 540 s after the start"
std::string stretch(const EndOfRun& last);
// What a report of the end of a run alone does not tell.
std::string what_is_left_out(const EndOfRun& last);

}  // namespace clusterprof::report::words
