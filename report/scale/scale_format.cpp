// SPDX-License-Identifier: BSD-3-Clause
#include "report/scale/scale_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report {

using namespace format;

namespace {

constexpr double kShareOfCallers = 0.9;

}  // namespace

std::string size_text(double size) {
  constexpr double kExact = 1e6;
  if (size == std::floor(size) && size < kExact) return fmt::format("{:.0f}", size);
  return fmt::format("{:.4g}", size);
}

std::string law_text(const Law& law) {
  if (law.term == Term::kPower) return fmt::format("p^{:.3g}", law.exponent);
  return name_of(law.term);
}

std::string exponents_text(const Law& law) {
  return fmt::format("{:.2f} .. {:.2f}", law.least_exponent, law.most_exponent);
}

std::string refusal_text(Refusal refusal, const SizeOf& of) {
  switch (refusal) {
    case Refusal::kNone:
      break;
    case Refusal::kFewSizes:
      return fmt::format("Laws and predictions need runs at {} different numbers of {} at least.",
                         kLeastSizes, printable(noun_of(of)));
    case Refusal::kNotKnown:
      return fmt::format("It is known at fewer than {} sizes.", kLeastSizes);
    case Refusal::kLittleTime:
      return "It takes too little time for a law.";
  }
  return "";
}

std::string mode_text(const ScaleReport& report) {
  if (!report.mode) return "";
  const std::string how = !report.work_exponent
                              ? std::string()
                              : fmt::format(" ({} of all processors grow{} as p^{:.2f})",
                                            report.work_is_instructions ? "instructions" : "useful time",
                                            report.work_is_instructions ? "" : "s", *report.work_exponent);
  return *report.mode == ScaleMode::kStrong
             ? fmt::format("Strong scaling: the work of all together stays the same{}.", how)
             : fmt::format("Weak scaling: the work of each stays the same{}.", how);
}

std::string tenth_text(const GrowthRow& row) {
  if (!row.tenth_at) return "-";
  return (row.tenth_is_measured ? "" : "~") + size_text(*row.tenth_at);
}

std::string subject_text(DiffTable table, const GrowthRow& row, std::size_t width) {
  return subject_text(table, ComparedRow{row.subject, 0, {}}, width);
}

std::string subject_text(const LossRow& row, std::size_t width) {
  const Subject& subject = row.subject;
  if (subject.kind == shard::FrameKind::kRegion)
    return shorten_middle(fmt::format("region {}", printable(subject.name)), width);
  if (row.fold == Fold::kImport)
    return shorten_middle(fmt::format("import {}", printable(subject.name)), width);
  if (row.fold == Fold::kCalls && subject.name.find_first_of(".:") == std::string::npos)
    return shorten_middle(printable(subject.name), width);
  return subject_text(DiffTable::kFunctions, ComparedRow{subject, 0, {}}, width);
}

std::vector<std::string> remarks_of(const ScaleReport& report) {
  std::vector<std::string> remarks;
  if (const std::string mode = mode_text(report); !mode.empty()) remarks.push_back(mode);
  if (report.commands_differ) remarks.emplace_back("The runs are not of the same program.");
  if (std::any_of(report.runs.begin(), report.runs.end(),
                  [](const ScaledRun& run) { return !run.facts.complete; }))
    remarks.emplace_back("A run is incomplete: ranks or their last samples are missing.");
  const bool repeated =
      std::any_of(report.sizes.begin(), report.sizes.end(), [](const ScaleRow& row) { return row.runs > 1; });
  if (!repeated)
    remarks.emplace_back(
        "One run of each size: how much runs vary is not known, so limits are wide (clusterprof run --repeat "
        "5).");
  if (report.refused != Refusal::kNone) remarks.push_back(refusal_text(report.refused, report.of));
  return remarks;
}

bool calls_all(const GrowthRow& row) {
  return std::all_of(row.shares.begin(), row.shares.end(),
                     [](const SizedValue& share) { return share.value.value_or(0) >= kShareOfCallers; });
}

}  // namespace clusterprof::report
