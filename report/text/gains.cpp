// SPDX-License-Identifier: BSD-3-Clause
// What changes of the program would gain: the section of the text report, and the ranking of `clusterprof
// whatif`.
#include "report/text/gains.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/base_name.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/text/section.hpp"
#include "report/text/sections.hpp"

namespace clusterprof::report::text {

namespace {

constexpr std::size_t kBriefly = 5;  // rows among all sections
constexpr std::size_t kRefused = 3;  // changes that are told with their reasons

std::string place_of(const profile::PredictedGain& row) {
  if (row.change.starts_with("line ") || row.change.starts_with("call ")) return {};
  // A change of a rank does not say what that does.
  std::string place;
  if (row.rank >= 0 && !row.function.empty())
    place = format::function_label(row.function, shard::FrameKind::kNative);
  if (!row.file.empty())
    place += fmt::format("{}{}:{}", place.empty() ? "" : " ", base_name(row.file), row.line);
  return place.empty() ? place : " (" + place + ")";
}

std::string change_of_elapsed(const profile::Gains& gains, const profile::PredictedGain& row) {
  if (gains.replayed_s <= 0) return "-";
  return fmt::format("{:+.1f} %", -100 * row.gain_s / gains.replayed_s);
}

}  // namespace

std::string stretches_told(std::size_t count, double time_s, double elapsed_s) {
  return fmt::format("from {} complete stretches, {} of {}: the MPI events of the rest are a sample", count,
                     format::seconds(time_s), format::seconds(elapsed_s));
}

void print_ranking(Page& page, const profile::Gains& gains, std::size_t rows) {
  const std::vector<profile::PredictedGain> ranking = gaining(gains);
  page.section("What it would gain", gains.from_sums ? "predicted from sums of times, +/-: 95 %"
                                                     : "predicted by replay, +/-: 95 %");
  if (gains.stretches != 0)
    page.paragraph({"  "}, stretches_told(gains.stretches, gains.stretches_s, gains.elapsed_s));
  if (ranking.empty()) page.line("  No change that was tried gains anything.");
  Table table({{"elapsed"}, {"change"}, {"+/-"}, {"change of the program", Table::Align::kLeft}});
  for (std::size_t i = 0; i < std::min(rows, ranking.size()); ++i) {
    const profile::PredictedGain& row = ranking[i];
    table.row({format::seconds(row.predicted_s), change_of_elapsed(gains, row), format::seconds(row.error_s),
               row.change + place_of(row)},
              row.gain_s > row.error_s ? Style::kPlain : Style::kDim);
  }
  if (!ranking.empty()) table.print(page);
  note_the_rest(page, std::min(rows, ranking.size()), ranking.size());
  const std::size_t refused = gains.refused_changes.size();
  if (gains.tried + refused < gains.candidates)
    page.paragraph({"  "}, fmt::format("Replayed: {} of {} changes; clusterprof whatif RUN tries all.",
                                       gains.tried, gains.candidates));
  if (refused == 0) return;
  page.paragraph({"  "}, fmt::format("Refused: {} of {} changes.", refused, gains.candidates));
  for (std::size_t i = 0; i < std::min(kRefused, refused); ++i)
    page.paragraph({"    "},
                   fmt::format("{}: {}", gains.refused_changes[i].change, gains.refused_changes[i].reason));
  note_the_rest(page, std::min(kRefused, refused), refused);
}

void print_gains(Report& report) {
  const bool all = report.options.sections.empty();
  const auto& gains = report.analysis.gains;
  if (all && (!gains || gains->candidates == 0)) return;
  if (gains && gains->refused.empty()) {
    if (all && gaining(*gains).empty()) return;
    print_ranking(report.page, *gains, all ? kBriefly : report.options.rows);
    return;
  }
  report.page.section("What it would gain");
  report.page.paragraph({"  "}, gains ? fmt::format("Not predicted: {}.", gains->refused)
                                      : "Not predicted: the run was merged without that.");
}

}  // namespace clusterprof::report::text
