// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

Analysis::Analysis() = default;
Analysis::Analysis(const Analysis&) = default;
Analysis::Analysis(Analysis&&) noexcept = default;
Analysis& Analysis::operator=(const Analysis&) = default;
Analysis& Analysis::operator=(Analysis&&) noexcept = default;
Analysis::~Analysis() = default;

}  // namespace clusterprof::report
