// SPDX-License-Identifier: BSD-3-Clause
// Findings by part of what they say.
#pragma once

#include <string>
#include <string_view>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::testing {

inline const Finding* find_finding(const Analysis& a, std::string_view part) {
  for (const Finding& finding : a.findings)
    if (finding.text.find(part) != std::string::npos) return &finding;
  return nullptr;
}

}  // namespace clusterprof::report::testing
