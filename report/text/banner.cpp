// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>

#include "base/split.hpp"
#include "report/analysis/drops.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"
#include "report/text/table.hpp"
#include "report/words/findings.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using namespace text;

constexpr std::size_t kTopFunctions = 5, kCallSites = 3, kFindingLines = 6, kCommandLines = 4, kCommands = 4;

constexpr std::size_t kLinesOfFirst = 4, kLinesOfOthers = 2;

std::string category_shares(const Analysis& a) {
  std::string out;
  for (std::size_t c = 0; c < shard::kCategories; ++c) {
    if (!a.category_s[c] || a.rank_seconds <= 0) continue;
    const double share = *a.category_s[c] / a.rank_seconds;
    if (share == 0) continue;
    const std::string shown = share < 0.01 ? std::string("<1 %") : fmt::format("{:.0f} %", 100 * share);
    out += fmt::format("{}{} {}", out.empty() ? "" : "  ", shard::kCategoryNames[c], shown);
  }
  return out.empty() ? "not measured" : out;
}

std::string lost_and_dropped(const Analysis& a) {
  std::string out;
  const auto also = [&out](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  std::vector<std::int32_t> lost;
  for (const RankInfo& rank : a.ranks)
    if (rank.lost) lost.push_back(rank.rank);
  if (!a.run.missing_ranks.empty()) also("missing ranks " + missing_ranks(a.run, 3));
  if (!lost.empty()) also("lost ranks " + rank_list(lost, 3));
  for (const auto& [reason, number] : a.run.dropped)
    if (reason != kThrottled && drop_matters(reason, number, a.run.samples))
      also(fmt::format("{} x {}", count(static_cast<double>(number)), printable(reason)));
  return out;
}

// In their order, each on as few lines as the others leave it; what does not fit is cut, and the rest
// counted.
void findings(Page& page, const Analysis& a, const ShortPaths& paths, std::size_t lines) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < a.findings.size(); ++i) {
    const Finding& finding = a.findings[i];
    const std::size_t left = lines - shown.size();
    // A line is kept for those that follow.
    const std::size_t most = left - (i + 1 < a.findings.size() ? 1 : 0);
    if (most == 0) {
      const std::size_t more = a.findings.size() - i;
      shown.push_back(fmt::format("  {:<11} {} more finding{}", "", more, more == 1 ? "" : "s"));
      break;
    }
    Page whole(page.width(), false);
    const std::string gain = words::gain(finding);
    whole.paragraph({fmt::format("  {:<11} ", name_of(finding.severity))},
                    words::sentences(finding, paths) + (gain.empty() ? "" : " " + gain));
    std::vector<std::string> own = split(whole.take(), '\n');
    // The first one may take what there is; the others say what they are about.
    const std::size_t room = std::min(most, i == 0 ? kLinesOfFirst : kLinesOfOthers);
    if (own.size() > room) {
      Page brief(page.width(), false);
      brief.paragraph({fmt::format("  {:<11} ", name_of(finding.severity))},
                      words::headline(finding, paths) + "." + (gain.empty() ? "" : " " + gain));
      own = split(brief.take(), '\n');
    }
    if (own.size() > room) {
      Page briefest(page.width(), false);
      briefest.paragraph({fmt::format("  {:<11} ", name_of(finding.severity))},
                         words::headline(finding, paths) + ".");
      own = split(briefest.take(), '\n');
    }
    if (own.size() > room) {
      own.resize(room);
      own.back() = fmt::format("{} ..", prefix(own.back(), page.width() - 3));
    }
    shown.insert(shown.end(), own.begin(), own.end());
  }
  for (const std::string& line : shown) page.line(line);
}

// A command that can be copied whatever its length: a shell joins lines at backslashes.
void show_command(Page& page, const std::string& command) {
  std::string_view rest = command;
  if (columns(rest) + 2 <= page.width()) {
    page.line(fmt::format("  {}", rest));
    return;
  }
  for (std::size_t line = 0; line + 1 < kCommandLines && columns(rest) > page.width(); ++line) {
    const std::string_view piece = prefix(rest, page.width() - 1);
    page.line(fmt::format("{}\\", piece));
    rest.remove_prefix(piece.size());
  }
  page.line(rest);
}

}  // namespace

std::string render_banner(const Analysis& a, std::string_view run_dir, int width, std::string_view html) {
  Page page(static_cast<std::size_t>(std::clamp(width, 40, 80)), false);
  const std::size_t room = page.width();
  const ShortPaths paths(a);
  const auto fact = [&](std::string_view name, std::string_view value) {
    page.line(fmt::format("  {:<11} {}", name, value));
  };

  page.line(fmt::format("clusterprof: {}, {}{}", ranks_and_nodes(a.run), seconds(a.run.elapsed_s),
                        a.run.complete ? "" : ", " + words::state(a.run)));
  const std::vector<std::string> commands = command_lines(a.run, kCommands);
  for (const std::string& line : commands) fact(&line == &commands.front() ? "command" : "", line);
  if (const std::string windows = words::windows(a.run); !windows.empty()) fact("windows", windows);
  if (!a.run.was_never_recorded()) page.paragraph({fmt::format("  {:<11} ", "time")}, category_shares(a));
  if (a.efficiency.parallel)
    fact("efficiency",
         fmt::format("parallel {} = load balance {} x communication {}", percent(*a.efficiency.parallel),
                     percent(*a.efficiency.load_balance), percent(*a.efficiency.communication)));

  findings(page, a, paths, html.empty() ? kFindingLines : kFindingLines - 1);

  std::vector<const FunctionRow*> functions;
  for (const FunctionRow& row : a.functions)
    if (row.active_self_s > 0) functions.push_back(&row);
  std::stable_sort(functions.begin(), functions.end(), [](const FunctionRow* x, const FunctionRow* y) {
    return x->active_self_s > y->active_self_s;
  });
  functions.resize(std::min(functions.size(), kTopFunctions));
  const double active_s = a.sampled_s - a.helper_idle_s;
  if (!functions.empty()) page.line("  top functions (self, all ranks)");
  for (const FunctionRow* row : functions)
    page.line(fmt::format("  {:>9} {:>7}  {}", seconds(row->active_self_s),
                          percent(row->active_self_s / active_s), describe(*row, paths, room - 21)));

  if (!a.mpi_calls.empty()) page.line("  top MPI call sites (time, calls, all ranks)");
  for (std::size_t i = 0; i < std::min(a.mpi_calls.size(), kCallSites); ++i) {
    const MpiCallRow& row = a.mpi_calls[i];
    page.line(fmt::format("  {:>9} {:>7}  {}", seconds(row.time_s), count(static_cast<double>(row.count)),
                          describe(row, paths, room - 21)));
  }
  if (const std::string lost = lost_and_dropped(a); !lost.empty()) fact("not counted", lost);
  if (const std::string shown = printable(html); !shown.empty())
    fact("page", columns(shown) + 14 <= room ? shown : std::string("report.html in the run's directory"));
  show_command(page, fmt::format("clusterprof report {}", shell_word(run_dir)));
  return page.take();
}

}  // namespace clusterprof::report
