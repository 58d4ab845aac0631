// SPDX-License-Identifier: BSD-3-Clause
// Findings by part of what they say.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/words/bottlenecks.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {

inline std::string text_of(const Analysis& a, const Finding& finding) {
  return words::sentences(finding, format::ShortPaths(a));
}

inline std::string text_of(const Analysis& a, const Bottleneck& bottleneck) {
  return words::evidence(bottleneck, a, format::ShortPaths(a));
}

namespace testing {

inline const Finding* find_kind(const Analysis& a, FindingKind kind) {
  const auto found = std::find_if(a.findings.begin(), a.findings.end(),
                                  [&](const Finding& finding) { return finding.kind == kind; });
  return found == a.findings.end() ? nullptr : &*found;
}

inline const Finding* find_finding(const Analysis& a, std::string_view part) {
  for (const Finding& finding : a.findings)
    if (text_of(a, finding).find(part) != std::string::npos) return &finding;
  return nullptr;
}

}  // namespace testing

}  // namespace clusterprof::report
