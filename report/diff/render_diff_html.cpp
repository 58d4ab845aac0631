// SPDX-License-Identifier: BSD-3-Clause
// The result of a comparison as a self-contained HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "report/diff/diff.hpp"
#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/plain_html/document.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

using namespace format;
using plain_html::escaped;

constexpr std::size_t kMaxRows = 200;
constexpr std::size_t kNameColumns = 100;  // of names and places

class DiffPage {
 public:
  explicit DiffPage(const Diff& diff)
      : d_(diff), several_(diff.a.size() > 1 || diff.b.size() > 1 || diff.by_history) {}

  std::string render(const std::vector<Judgement>& judgements) {
    out_ = plain_html::head(fmt::format("{} against {}", d_.b.front().name, d_.a.front().name));
    head();
    conditions(judgements);
    findings();
    for (std::size_t t = 0; t < kDiffTables; ++t) table(static_cast<DiffTable>(t));
    out_ += plain_html::kEnd;
    return std::move(out_);
  }

 private:
  void pair(std::string_view name, std::string_view value) {
    out_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value));
  }

  static std::string command_of(const RunFacts& run) {
    RunInfo info;
    info.command = run.command;
    info.commands = run.commands;
    return command_line(info);
  }

  void head() {
    out_ += "<h1>clusterprof diff: B against A</h1>\n<dl>\n";
    for (const RunFacts& run : d_.a) pair("A", run_text(run));
    for (const RunFacts& run : d_.b) pair("B", run_text(run));
    pair(d_.commands_differ ? "command of A" : "command", command_of(d_.a.front()));
    if (d_.commands_differ) pair("command of B", command_of(d_.b.front()));
    out_ += "</dl>\n";
    for (const std::string& remark : remarks_of(d_))
      out_ += fmt::format("<p class=\"remark\">{}</p>\n", escaped(remark));
  }

  void conditions(const std::vector<Judgement>& judgements) {
    if (judgements.empty()) return;
    out_ += "<h2>Conditions</h2>\n<ul>\n";
    for (const Judgement& judgement : judgements)
      out_ += fmt::format("<li><b class=\"{}\">{}</b><span></span><span>{}</span></li>\n",
                          judgement.holds.value_or(true) ? "worse"
                          : judgement.undecided          ? "noise"
                                                         : "better",
                          !judgement.holds      ? "unknown"
                          : *judgement.holds    ? "true"
                          : judgement.undecided ? "not decided"
                                                : "false",
                          escaped(judgement_text(judgement)));
    out_ += "</ul>\n";
  }

  void finding(const char* what, const char* style, const FindingChange& change) {
    std::string text = words::sentences(change.finding, *change.names);
    if (change.a_share && change.b_share)
      text += fmt::format(" ({} -> {})", percent(*change.a_share), percent(*change.b_share));
    if (several_)
      text +=
          fmt::format(" (A: {} of {}, B: {} of {})", change.a_runs, d_.a.size(), change.b_runs, d_.b.size());
    out_ += fmt::format("<li><b class=\"{}\">{}</b><span>{}</span><span>{}</span></li>\n", style, what,
                        name_of(change.finding.severity), escaped(text));
  }

  void findings() {
    if (d_.appeared.empty() && d_.disappeared.empty() && d_.persisting.empty()) return;
    out_ += "<h2>Findings</h2>\n<ul>\n";
    for (const FindingChange& change : d_.appeared) finding("new", "worse", change);
    for (const FindingChange& change : d_.disappeared) finding("gone", "better", change);
    for (const FindingChange& change : d_.persisting) finding("still", "noise", change);
    out_ += "</ul>\n";
  }

  static std::string title_of_value(std::string_view key) {
    if (key == "self_s") return "self";
    if (key == "total_s") return "total";
    if (key == "time_s") return "time";
    if (key == "wait_s") return "wait";
    if (key == "sent_bytes") return "sent";
    if (key == "recv_bytes") return "received";
    if (key == "rank_peak_bytes") return "at ranks' peaks";
    if (key == "node_peak_bytes") return "at nodes' peaks";
    if (key == "rank_max_bytes") return "peak of a rank";
    if (key == "node_max_bytes") return "peaks of a node";
    if (key == "peaks_bytes") return "peaks of all ranks";
    if (key == "peak_bytes") return "peak";
    if (key == "space_peak_bytes") return "at the space's peaks";
    if (key == "live_end_bytes") return "at the end";
    if (key == "alloc_bytes") return "allocated";
    return key == "value" ? "" : std::string(key);
  }

  std::string cell(const ComparedValue& value, const std::optional<Sample>& sample) const {
    if (!sample) return "-";
    std::string text = amount_text(value.unit, sample->mean);
    if (several_ && sample->half_width)
      text += fmt::format(" \u00b1 {}", amount_text(value.unit, *sample->half_width));
    return text;
  }

  static const char* class_of(const ComparedValue& value) {
    switch (verdict_of(value)) {
      case Verdict::kBetter:
        return "better";
      case Verdict::kWorse:
        return "worse";
      case Verdict::kNoise:
        return "noise";
      default:
        return "";
    }
  }

  // From the middle to the right where B has more.
  static std::string bar(double difference, double largest) {
    const double half = largest > 0 ? 50 * std::abs(difference) / largest : 0;
    return fmt::format("<td class=\"bar\"><span><i style=\"left:{:.1f}%;width:{:.1f}%\"></i></span></td>",
                       difference < 0 ? 50 - half : 50, half);
  }

  void table(DiffTable table) {
    const std::vector<ComparedRow>& rows = d_.of(table);
    if (rows.empty()) return;
    double largest = 0;
    const bool one_unit =
        table != DiffTable::kRun && table != DiffTable::kCounters && table != DiffTable::kDerived;
    for (const ComparedRow& row : rows)
      largest = std::max(largest, std::abs(row.values[0].fair().difference.value_or(0)));
    out_ += fmt::format("<h2>{}</h2>\n<div class=\"scroll\"><table>\n<thead><tr><th></th>", title_of(table));
    for (std::size_t v = 0; v < rows[0].values.size(); ++v) {
      const std::string title = title_of_value(rows[0].values[v].key);
      out_ += fmt::format("<th>{0}{1}A</th><th>{0}{1}B</th><th>change</th>", title, title.empty() ? "" : " ");
      if (several_ && v == 0) out_ += "<th>\u00b1</th>";
      if (v == 0) out_ += one_unit ? "<th></th><th></th>" : "<th></th>";
    }
    out_ += "</tr></thead>\n<tbody>\n";
    const std::size_t shown = std::min(rows.size(), kMaxRows);
    for (std::size_t i = 0; i < shown; ++i) {
      const ComparedRow& row = rows[i];
      const std::string full = subject_text(table, row, kAnyWidth);
      out_ += fmt::format("<tr class=\"{}\"><td class=\"name\" title=\"{}\">{}{}</td>",
                          class_of(row.values[0]), escaped(full), escaped(shorten_middle(full, kNameColumns)),
                          row.values[0].per_rank ? " per rank" : "");
      for (std::size_t v = 0; v < row.values.size(); ++v) {
        const ComparedValue& value = row.values[v];
        const Comparison& c = value.fair();
        out_ += fmt::format("<td>{}</td><td>{}</td><td>{}</td>", cell(value, c.a), cell(value, c.b),
                            change_cell(value.unit, c));
        if (several_ && v == 0) out_ += fmt::format("<td>{}</td>", width_cell(value.unit, c));
        if (v == 0) out_ += fmt::format("<td class=\"text\">{}</td>", verdict_text(value));
        if (v == 0 && one_unit) out_ += bar(c.difference.value_or(0), largest);
      }
      out_ += "</tr>\n";
    }
    out_ += "</tbody>\n</table></div>\n";
    if (rows.size() > shown) out_ += fmt::format("<p class=\"more\">and {} more</p>\n", rows.size() - shown);
  }

  const Diff& d_;
  bool several_;
  std::string out_;
};

}  // namespace

std::string render_diff_html(const Diff& diff, const std::vector<Judgement>& judgements) {
  return DiffPage(diff).render(judgements);
}

}  // namespace clusterprof::report
