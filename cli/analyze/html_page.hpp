// SPDX-License-Identifier: BSD-3-Clause
// The report as an HTML page.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "formats/profile/profile_reader.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {

inline constexpr const char* kPageName = "report.html";  // in the run directory

struct HtmlPage {
  std::string text;
  std::vector<std::string> sources;  // files whose text is in it
};

// `analysis`: of this profile, with the timelines of its ranks. source: with the text of source files.
Result<HtmlPage> html_page(profile::ProfileReader& profile, report::Analysis analysis, bool source);

// Whether the page of this profile is made within a moment: at the end of a job nobody asked for it.
bool is_quickly_made(const std::filesystem::path& profile);

}  // namespace clusterprof::cli
