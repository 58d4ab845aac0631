// SPDX-License-Identifier: BSD-3-Clause
// The summary: three sections of the text report.
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/report.hpp"
#include "report/tui/view_parts.hpp"
#include "report/tui/views.hpp"

namespace clusterprof::report::tui {

using namespace format;
using namespace text;

namespace {

class SummaryView final : public View {
 public:
  explicit SummaryView(const Run& run) : run_(run) {}

  std::string title() const override { return "Summary"; }
  void lay_out(std::size_t columns) override {
    if (columns == columns_) return;
    columns_ = columns;
    make_lines();
  }
  void refresh(std::string_view filter) override {
    filter_ = filter;
    make_lines();
  }
  std::size_t size() const override { return lines_.size(); }
  Spans heading(std::size_t) const override { return {}; }
  Spans render(std::size_t item, std::size_t columns) const override {
    return {{shorten(lines_[item], columns),
             !lines_[item].empty() && lines_[item][0] != ' ' ? Style::kTitle : Style::kPlain}};
  }

 private:
  void make_lines() {
    TextOptions options;
    options.width = static_cast<int>(columns_);
    options.sections = {"summary", "efficiency", "quality"};
    options.unicode = run_.unicode;
    const std::string text = render_text(run_.analysis, options);
    lines_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (matches(line, filter_)) lines_.push_back(std::move(line));
      at = end + 1;
    }
  }

  const Run& run_;
  std::string filter_;
  std::size_t columns_ = 80;
  std::vector<std::string> lines_;
};

}  // namespace

std::unique_ptr<View> summary_view(const Run& run) { return std::make_unique<SummaryView>(run); }

}  // namespace clusterprof::report::tui
