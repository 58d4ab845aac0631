// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/html_page.hpp"

#include <system_error>
#include <utility>

#include "report/html/render_html.hpp"
#include "report/page/page_builder.hpp"

namespace clusterprof::cli {
namespace {

// Measured: 20 ms per MB of the profile, which are its rows.
constexpr std::uintmax_t kQuickBytes = 16'000'000;

}  // namespace

Result<HtmlPage> html_page(profile::ProfileReader& profile, report::Analysis analysis, bool source) {
  report::PageOptions options;
  options.source = source;
  const Result<report::PageData> page = report::make_page_data(profile, analysis, options);
  if (!page) return page.error();
  Result<std::string> text = report::render_html(std::move(analysis), page.value(), options);
  if (!text) return text.error();
  HtmlPage made{std::move(text).value(), {}};
  for (const report::PageSourceFile& source_file : page.value().sources)
    if (source_file.text) made.sources.push_back(source_file.file);
  return made;
}

bool is_quickly_made(const std::filesystem::path& profile) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(profile, error);
  return !error && bytes <= kQuickBytes;
}

}  // namespace clusterprof::cli
