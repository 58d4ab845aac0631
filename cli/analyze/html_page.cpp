// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/html_page.hpp"

#include <system_error>
#include <utility>

#include "report/html/render_html.hpp"
#include "report/page/page_data.hpp"

namespace clusterprof::cli {
namespace {

// Measured: 20 ms per MB of the profile, which are its rows.
constexpr std::uintmax_t kQuickBytes = 16'000'000;

}  // namespace

Result<std::string> html_page(profile::ProfileReader& profile, report::Analysis analysis, bool source) {
  report::PageOptions options;
  options.source = source;
  const Result<report::PageData> page = report::make_page_data(profile, analysis, options);
  if (!page) return page.error();
  return report::render_html(std::move(analysis), page.value(), options);
}

bool is_quickly_made(const std::filesystem::path& profile) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(profile, error);
  return !error && bytes <= kQuickBytes;
}

}  // namespace clusterprof::cli
