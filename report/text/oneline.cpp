// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/report.hpp"
#include "report/words/findings.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report {
namespace {

constexpr std::size_t kMost_bytes = 255, kMaxOfCommand_bytes = 48, kMaxOfRegion_bytes = 32;
constexpr std::size_t kShortestFinding_bytes = 16;
constexpr std::size_t kBounds = 2;

// Printable ASCII: a '?' for every other character.
std::string ascii(std::string_view raw) {
  std::string out;
  for (const char c : format::printable(raw)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      out += c;
    else if ((byte & 0xc0) == 0xc0)  // the first of a character's bytes
      out += '?';
  }
  return out;
}

std::string whole_percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string incomplete(const Analysis& a) {
  if (a.run.state == RunState::kRunning) return words::state(a.run);
  const auto lost =
      a.run.missing + static_cast<std::size_t>(std::count_if(a.ranks.begin(), a.ranks.end(),
                                                             [](const RankInfo& rank) { return rank.lost; }));
  if (lost > 0) return fmt::format("incomplete: {} lost", format::plural(lost, "rank"));
  return a.run.complete ? "" : "incomplete";
}

std::string bounds(const Analysis& a) {
  std::string out;
  std::size_t left = kBounds;
  for (const Bottleneck& row : a.bottlenecks) {
    if (row.rank || !row.region.empty() || left == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "bound by " : ", ", row.kind, whole_percent(row.share));
    --left;
  }
  return out;
}

// The first sentence of what matters most.
std::string worst_finding(const Analysis& a) {
  if (a.findings.empty() || a.findings[0].severity == Severity::kInfo) return "";
  const Finding& finding = a.findings[0];
  return fmt::format("{}: {}", name_of(finding.severity),
                     ascii(words::headline(finding, format::ShortPaths(a))));
}

}  // namespace

std::string render_oneline(const Analysis& a) {
  std::string line;
  const auto also = [&line](const std::string& part) {
    if (!part.empty()) line += (line.empty() ? "" : "; ") + part;
  };
  also(format::shorten(ascii(format::command_line(a.run)), kMaxOfCommand_bytes));
  if (!a.run.region.empty())
    also("region " + format::shorten_middle(ascii(a.run.region), kMaxOfRegion_bytes));
  also(fmt::format("{}, {}", format::ranks_and_nodes(a.run), format::seconds(a.run.elapsed_s)));
  if (a.run.standby) also(words::windows(a.run));
  also(incomplete(a));
  if (a.efficiency.parallel && a.efficiency.load_balance && a.efficiency.communication)
    also(fmt::format("parallel efficiency {} = load balance {} x communication {}",
                     whole_percent(*a.efficiency.parallel), whole_percent(*a.efficiency.load_balance),
                     whole_percent(*a.efficiency.communication)));
  also(bounds(a));
  const std::size_t room = kMost_bytes - std::min(line.size() + 2, kMost_bytes);
  if (room >= kShortestFinding_bytes) also(format::shorten(worst_finding(a), room));
  return format::shorten(line, kMost_bytes) + "\n";
}

}  // namespace clusterprof::report
