// SPDX-License-Identifier: BSD-3-Clause
// The section on torch.distributed: time by operation and line of the user's, from calls or from samples.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/cells.hpp"
#include "report/text/resources.hpp"
#include "report/text/section.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report::text {

using namespace format;

namespace {

using Align = Table::Align;

// "all_reduce <- step() train.py:88"
std::string call_cell(const TorchRow& row, const ShortPaths& paths, std::size_t room) {
  if (room == 0) return "";
  SourceLocation place;
  place.op = row.op;
  place.function = row.function, place.file = row.file, place.line = row.line;
  return describe(place, paths, room);
}

// "1", "3 +4"
std::string late_cell(const TorchRow& row) {
  if (row.late_ranks.empty()) return "-";
  if (row.late_ranks.size() == 1) return std::to_string(row.latest_rank);
  return fmt::format("{} +{}", row.latest_rank, row.late_ranks.size() - 1);
}

}  // namespace

void print_torch(Page& page, const Analysis& a, const ShortPaths& paths, const ResourceOptions& options) {
  const std::vector<TorchRow>& rows = a.torch.rows;
  const bool sampled = is_sampled(a.torch.source);
  const double time_s = a.torch.sum_s(false), rendezvous_s = a.torch.sum_s(true);
  const TimeScale scale(rows.front().time_s);
  page.section("torch.distributed",
               fmt::format("from {}; in {}; {}, {} of rank time", sampled ? "samples" : "calls", scale.unit(),
                           seconds(time_s), percent(share_of(time_s, a.rank_seconds))));
  page.paragraph({"  "}, std::string(words::how_torch_is_known(a.torch.source)));
  const std::size_t shown = rows_shown(rows.size(), options);
  const auto columns = sampled ? std::vector<Table::Column>{{"time"},
                                                            {"blocked"},
                                                            {"running"},
                                                            {"min", Align::kRight, true},
                                                            {"mean", Align::kRight, true},
                                                            {"max"},
                                                            {"@rank"},
                                                            {"late"},
                                                            {"call", Align::kLeft}}
                               : std::vector<Table::Column>{{"time"},
                                                            {"wait"},
                                                            {"calls"},
                                                            {"min", Align::kRight, true},
                                                            {"mean", Align::kRight, true},
                                                            {"max"},
                                                            {"@rank"},
                                                            {"call", Align::kLeft}};
  print_table(page, columns, [&](Table& table, std::size_t room) {
    for (std::size_t i = 0; i < shown; ++i) {
      const TorchRow& row = rows[i];
      const std::string rank = std::to_string(row.spread.max_rank);
      const std::string min = scale(row.spread.min_s), mean = scale(row.spread.mean_s);
      const std::string max = scale(row.spread.max_s), call = call_cell(row, paths, room);
      if (sampled)
        table.row({scale(row.time_s), seconds_cell(row.blocked_s, scale), seconds_cell(row.running_s, scale),
                   min, mean, max, rank, late_cell(row), call});
      else
        table.row({scale(row.time_s), seconds_cell(row.wait_s, scale), count_cell(row.count.value_or(0)), min,
                   mean, max, rank, call});
    }
  });
  note_the_rest(page, shown, rows.size());
  if (rendezvous_s > 0)
    page.line(fmt::format("  not in the sum: {} of starting up, in which ranks wait for each other",
                          seconds(rendezvous_s)),
              Style::kDim);
  page.line(fmt::format("  {}min, mean, max, @rank: of time, per rank",
                        sampled ? "late: ranks that the others wait for; " : ""),
            Style::kDim);
}

}  // namespace clusterprof::report::text
