// SPDX-License-Identifier: BSD-3-Clause
// The section on imports of Python packages.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

constexpr std::size_t kPackageColumns = 24;

}  // namespace

void print_imports(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  double longest = 0;
  for (const ImportRow& row : a.imports) longest = std::max(longest, row.time_s);
  const TimeScale scale(longest);
  page.section("Imports", fmt::format("in {}; main threads {}, {} of rank time", scale.unit(),
                                      seconds(a.import_sum.main_thread_s),
                                      percent(share_of(a.import_sum.main_thread_s, a.rank_seconds))));
  const std::size_t shown = rows_shown(a.imports.size(), options);
  print_table(
      page,
      {{"total"},
       {"self"},
       {"mean", Align::kRight, true},
       {"max", Align::kRight, true},
       {"@rank", Align::kRight, true},
       {"ranks", Align::kRight, true},
       {"package", Align::kLeft},
       {"imported in", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const ImportRow& row = a.imports[i];
          const std::string package = row.package.empty() ? "[not known]" : printable(row.package);
          std::string place = "-";
          if (!row.file.empty() && room != 0)
            place = place_of(row.function, shard::FrameKind::kPython, row.file, row.line, paths, room);
          table.row({scale(row.time_s), scale(row.self_s), scale(row.spread.mean_s), scale(row.spread.max_s),
                     std::to_string(row.spread.max_rank), std::to_string(row.ranks),
                     shorten_middle(package, kPackageColumns), room == 0 ? "" : place});
        }
      });
  note_the_rest(page, shown, a.imports.size());
  page.line("  first what the program's own lines import, then what that imports", Style::kDim);
  page.line("  self: the package's own modules; total: with what they import; all threads", Style::kDim);
  page.line("  mean, max: of total, per rank", Style::kDim);
}

}  // namespace clusterprof::report::text
