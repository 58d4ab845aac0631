// SPDX-License-Identifier: BSD-3-Clause
// Which findings a run would have shown: one that another run does not show may not have been looked for.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

using FindingKinds = std::bitset<kFindingKinds>;  // by FindingKind

// Kinds of which the run has no more findings than it shows. It recorded what they come from, and none was
// left out for worse ones. Only kinds whose findings have shares.
FindingKinds seen_findings(const Analysis& analysis);

// Of a version of clusterprof, to be compared: "0.10.2" is {0, 10, 2}. What is no number ends it.
std::vector<std::uint64_t> version_numbers(std::string_view version);

}  // namespace clusterprof::report
