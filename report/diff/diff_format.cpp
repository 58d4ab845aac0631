// SPDX-License-Identifier: BSD-3-Clause
#include "report/diff/diff_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/base_name.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::report {
namespace {

using namespace format;

RunInfo size_of(const RunFacts& run) {
  RunInfo info;
  info.ranks = run.ranks, info.nodes = run.nodes;
  return info;
}

std::string ranks_text(const RunFacts& run) { return ranks_and_nodes(size_of(run)); }

std::string undecided_text(const Judgement& judgement, Undecided reason) {
  switch (reason) {
    case Undecided::kNoiseUnknown:
      return "not decided: how much runs vary is not known, repeat them";
    case Undecided::kOnlySampling:
      return "not decided: how much runs vary is not known, only the error of counting samples; repeat them";
    case Undecided::kRunsDisagree:
      break;
  }
  return fmt::format("not decided: {} of {} runs fulfil it, and the limit is in the interval of their mean",
                     judgement.b_runs_alike, judgement.b_runs);
}

}  // namespace

std::string amount_text(Unit unit, double value) {
  switch (unit) {
    case Unit::kSeconds:
      return seconds(value);
    case Unit::kShare:
      return percent(value);
    case Unit::kCount:
      return count(std::round(value));
    case Unit::kBytes:
      return bytes(value);
    case Unit::kPlain:
      break;
  }
  return fmt::format("{:.3g}", value);
}

std::string change_text(Unit unit, double difference) {
  const char* const sign = difference < 0 ? "-" : "+";
  if (unit == Unit::kShare) return fmt::format("{}{:.1f} pp", sign, 100 * std::abs(difference));
  return sign + amount_text(unit, std::abs(difference));
}

std::string relative_text(double relative) {
  const double percent = 100 * relative;
  if (std::abs(percent) >= 1000) return fmt::format("{:+.0f} %", percent);
  return fmt::format("{:+.1f} %", percent);
}

std::string change_cell(Unit unit, const Comparison& c) {
  if (!c.difference) return "-";
  if (unit == Unit::kShare) return change_text(unit, *c.difference);
  if (c.a->mean == 0) return c.b->mean == 0 ? "-" : "new";
  if (c.b->mean == 0) return "gone";
  return relative_text(*c.relative);
}

std::string width_cell(Unit unit, const Comparison& c) {
  if (!c.half_width || c.by_sampling) return "";
  if (unit == Unit::kShare) return fmt::format("{:.1f} pp", 100 * *c.half_width);
  if (!c.relative) return amount_text(unit, *c.half_width);
  return fmt::format("{:.1f} %", 100 * *c.half_width / std::abs(c.a->mean));
}

const char* verdict_text(const ComparedValue& value) {
  switch (verdict_of(value)) {
    case Verdict::kNoise:
      return "~";
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kDifferent:
      return "differs";
    case Verdict::kUnknown:
    case Verdict::kUndecided:
      break;
  }
  return "";
}

const char* title_of(DiffTable table) {
  static constexpr std::array<const char*, kDiffTables> kTitles = {"Run",
                                                                   "Efficiency",
                                                                   "Main threads by category",
                                                                   "Bound by",
                                                                   "Functions",
                                                                   "Lines",
                                                                   "MPI by call site",
                                                                   "Waiting by kind",
                                                                   "Counters",
                                                                   "Derived metrics",
                                                                   "Memory held at the peaks of ranks",
                                                                   "Memory spaces, largest peak of a rank",
                                                                   "Memory by label, largest peak of a rank"};
  return kTitles[static_cast<std::size_t>(table)];
}

std::string subject_text(DiffTable table, const ComparedRow& row, std::size_t width) {
  const Subject& s = row.subject;
  const auto place = [](std::string_view file, std::uint32_t line) {
    const std::string base = printable(base_name(file));
    return base.empty() || line == 0 ? base : fmt::format("{}:{}", base, line);
  };
  switch (table) {
    case DiffTable::kFunctions: {
      const std::string label = function_label(s.name, s.kind);
      if (s.kind == shard::FrameKind::kMpi) return shorten_middle(label, width);
      if (s.kind == shard::FrameKind::kKernel) return name_and_place(label, "[kernel]", width);
      if (!s.file.empty()) return name_and_place(label, place(s.file, s.line), width);
      const std::string full = name_and_module(label, s.module);
      return columns(full) <= width ? full : shorten_middle(label, width);
    }
    case DiffTable::kLines: {
      const bool moved = row.line_in_a != 0 && row.line_in_a != s.line;
      const std::string was = moved ? fmt::format(" (A: {})", row.line_in_a) : "";
      return shorten(fmt::format("{}{} {}", place(s.file, s.line), was,
                                 function_label(s.function, shard::FrameKind::kNative)),
                     width);
    }
    case DiffTable::kMemory: {
      if (s.function.empty()) return shorten_middle(printable(s.name) + ", not known where", width);
      return name_and_place(function_label(s.function, s.kind),
                            fmt::format("{} ({})", place(s.file, s.line), printable(s.name)), width);
    }
    case DiffTable::kMemoryLabels: {
      const std::string label = s.name.empty() ? "(no label)" : printable(s.name);
      const std::string space = fmt::format(" ({})", printable(s.space));
      if (columns(space) > width / 2) return shorten_middle(label + space, width);
      return shorten_middle(label, width - columns(space)) + space;
    }
    case DiffTable::kMpiCalls: {
      if (s.function.empty()) return shorten_middle(printable(s.name), width);
      const std::string arrow = printable(s.name) + " <- ";
      return arrow + name_and_place(function_label(s.function, shard::FrameKind::kNative),
                                    place(s.file, s.line),
                                    width > columns(arrow) ? width - columns(arrow) : 0);
    }
    default:
      return shorten_middle(printable(s.name), width);
  }
}

std::string judgement_text(const Judgement& judgement) {
  const Comparison& c = judgement.comparison;
  const std::string condition = printable(judgement.condition.text);
  if (!judgement.holds) return fmt::format("{}: not known, the runs do not have it", condition);
  std::string of = c.a ? amount_text(judgement.unit, c.a->mean) : "-";
  if (c.b) of += fmt::format(" -> {}", amount_text(judgement.unit, c.b->mean));
  if (c.difference) of += fmt::format(", {}", change_cell(judgement.unit, c));
  if (const std::string width = width_cell(judgement.unit, c); !width.empty())
    of += fmt::format(" +/- {}", width);
  if (judgement.per_rank) of += ", per rank";
  std::string verdict = judgement.undecided      ? undecided_text(judgement, *judgement.undecided)
                        : *judgement.holds       ? "true"
                        : judgement.within_noise ? "not beyond the noise"
                                                 : "false";
  if (judgement.undecided != Undecided::kRunsDisagree && judgement.b_runs_alike != 0 &&
      judgement.b_runs_alike != judgement.b_runs)
    verdict += fmt::format(", {} of {} runs", judgement.b_runs_alike, judgement.b_runs);
  return fmt::format("{}: {} ({}{}{})", condition, verdict, printable(judgement.subject),
                     judgement.subject.empty() ? "" : " ", of);
}

std::string side_text(const std::vector<RunFacts>& runs) {
  std::set<std::string> sizes;
  for (const RunFacts& run : runs) sizes.insert(ranks_text(run));
  return fmt::format("{}, {}", plural(runs.size(), "run"),
                     sizes.size() == 1 ? *sizes.begin() : std::string("of different sizes"));
}

std::string run_text(const RunFacts& run) {
  std::string text = fmt::format("{}  {}", printable(run.name), ranks_text(run));
  if (run.start_utc_ns != 0) text += fmt::format(", {}", utc(run.start_utc_ns));
  if (!run.complete) text += ", " + words::state(run.state, run.complete, run.as_of_s);
  return text;
}

std::vector<std::string> remarks_of(const Diff& diff) {
  std::vector<std::string> remarks;
  const auto any = [&](const auto& is) {
    return std::any_of(diff.a.begin(), diff.a.end(), is) || std::any_of(diff.b.begin(), diff.b.end(), is);
  };
  if (diff.ranks_differ)
    remarks.emplace_back(
        "The runs differ in their number of ranks: what is summed over ranks is shown per rank.");
  if (diff.commands_differ) remarks.emplace_back("The runs' commands differ.");
  if (any([](const RunFacts& run) { return !run.complete; }))
    remarks.emplace_back("A run is incomplete: ranks or their last samples are missing.");
  if (diff.by_history)
    remarks.emplace_back(
        "One run on each side: +/- is how much earlier runs of the command have varied (95 %). ~: no more "
        "than noise.");
  else if (diff.a.size() == 1 && diff.b.size() == 1)
    remarks.emplace_back(
        "One run on each side: how much runs vary is unknown. ~: no more than the error of counting "
        "samples.");
  else
    remarks.emplace_back(
        "+/-: 95 % confidence interval (Student's t; of the change, Welch's). ~: no more than noise.");
  return remarks;
}

}  // namespace clusterprof::report
