// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

// Why the run, rank or region is said to be bound by that: "4.20 s of its 10.0 s: sleep 4.10 s, ..."
std::string evidence(const Bottleneck& bottleneck, const Analysis& analysis, const format::ShortPaths& names);

}  // namespace clusterprof::report::words
