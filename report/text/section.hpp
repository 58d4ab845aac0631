// SPDX-License-Identifier: BSD-3-Clause
// What all sections of the text report share: the analysis, the page, and what was asked for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report::text {

// One text report while it is written.
struct Report {
  const Analysis& analysis;
  TextOptions options;
  format::ShortPaths paths;
  Page page;
};

// Says how many rows of a table are left out, if any.
void note_the_rest(Page& page, std::size_t shown, std::size_t all);

class Section {
 public:
  explicit Section(Report& report)
      : a_(report.analysis),
        rows_(report.options.rows),
        all_(report.options.sections.empty()),
        asked_(report.options.sections),
        paths_(report.paths),
        page_(report.page) {}

 protected:
  // Whether this section was asked for by name.
  [[nodiscard]] bool asked(std::string_view section) const;
  // Whether there is anything to show. If not, and if the section was asked for, says `otherwise` under its
  // title.
  bool worth(bool anything, std::string_view title, std::string_view otherwise);
  void note_the_rest(std::size_t shown, std::size_t all) { text::note_the_rest(page_, shown, all); }

  const Analysis& a_;
  const std::size_t rows_;  // of the long tables
  const bool all_;          // no section was asked for: all, some shortened
  const std::vector<std::string>& asked_;
  const format::ShortPaths& paths_;
  Page& page_;
};

double share_of(double part, double whole);
std::string seconds_cell(const Seconds& value, const format::TimeScale& scale);

// Whether idle helper threads have enough time to be mentioned, and the line that mentions them.
bool has_idle_helpers(const Analysis& analysis);
void note_idle_helpers(Page& page, const Analysis& analysis);

// Times of single ranks may need a smaller unit than their sums.
format::TimeScale scale_of_ranks(const format::TimeScale& of_sums, double largest_s);
// " in s" where the units differ; else empty.
std::string other_unit(const format::TimeScale& of_sums, const format::TimeScale& of_ranks);

}  // namespace clusterprof::report::text
