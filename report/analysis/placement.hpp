// SPDX-License-Identifier: BSD-3-Clause
// What the nodes' processors and memory did to the ranks: docs/metrics.md, "Findings".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// "0-3,8": numbers in ascending order; empty where the text is no such list, or one beyond 65535.
std::optional<std::vector<std::uint32_t>> parse_list(std::string_view text);

// Findings on shared and busy processors, on ranks bound across memory nodes, on full memory and on pages
// that came from disk.
std::vector<Finding> placement_findings(const Analysis& analysis);

}  // namespace clusterprof::report
