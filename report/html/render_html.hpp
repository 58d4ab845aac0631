// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "base/result.hpp"
#include "report/analysis/analysis.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::report {

// The report as one HTML file that needs nothing else: no network, no other file. FORMAT.md describes the
// data in it. `page` must be made from this analysis with these options. The same arguments give the same
// bytes. Names in the profile are data to the page, never markup.
Result<std::string> render_html(Analysis analysis, const PageData& page, const PageOptions& options);

}  // namespace clusterprof::report
