// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/history_format.hpp"

#include <fmt/format.h>

#include "report/diff/diff_format.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report {

using namespace format;

namespace {

constexpr std::size_t kDigits = 10;  // of a commit
constexpr std::size_t kMostSettings = 4;
constexpr std::size_t kValueColumns = 24;

std::string value_or_none(const std::string& value) {
  return value.empty() ? "none" : shorten(printable(value), kValueColumns);
}

std::string setting_text(const SettingChange& change) {
  switch (change.kind) {
    case shard::SettingKind::kCommit:
      break;
    case shard::SettingKind::kModule:
      return fmt::format("module {} {} -> {}", printable(change.name), value_or_none(change.before),
                         value_or_none(change.after));
    case shard::SettingKind::kCompiler:
      return fmt::format("compiler {} -> {}", value_or_none(change.before), value_or_none(change.after));
    case shard::SettingKind::kVariable:
      return fmt::format("{} {} -> {}", printable(change.name), value_or_none(change.before),
                         value_or_none(change.after));
  }
  return "";
}

}  // namespace

std::string date_text(const HistoryRun& run) {
  // "2026-11-21 13:45:02 UTC"
  return run.start_utc_ns == 0 ? "-" : utc(run.start_utc_ns).substr(0, 16);
}

std::string commit_text(const std::string& hash) {
  return hash.empty() ? "-" : printable(hash.substr(0, kDigits));
}

std::string metric_text(const FollowedMetric& metric) {
  const std::string name_and_file = metric.name + (metric.file.empty() ? "" : " " + metric.file);
  switch (metric.kind) {
    case FollowedKind::kRun:
    case FollowedKind::kEfficiency:
      break;
    case FollowedKind::kSelf:
      return printable(name_and_file);
    case FollowedKind::kTotal:
      return printable(name_and_file + " with what it calls");
    case FollowedKind::kFinding:
      return printable("finding " + name_and_file);
  }
  return printable(metric.name);
}

std::string change_text(const HistorySeries& series, const HistoryChange& change) {
  const double before = change.point.before, after = change.point.after;
  const std::string by = change.unit == Unit::kShare || before == 0
                             ? change_text(change.unit, after - before)
                             : relative_text((after - before) / before);
  std::string text = fmt::format("{}: {} -> {} ({})", metric_text(change.metric),
                                 amount_text(change.unit, before), amount_text(change.unit, after), by);
  for (std::size_t f = 0; f < change.functions.size(); ++f) {
    const FunctionChange& function = change.functions[f];
    // Not "of that": one may call the other, and threads run at the same time.
    text += fmt::format("{}{} {}", f == 0 ? ", along with " : " and ", metric_text(function.metric),
                        change_text(Unit::kSeconds, function.after - function.before));
  }
  const std::string was = series.runs[change.run_before].commit();
  if (!change.commit.empty())
    text +=
        fmt::format(", commit {}{}", commit_text(change.commit), change.commit == was ? " as before" : "");
  std::size_t named = 0;
  for (const SettingChange& setting : change.settings)
    if (setting.kind != shard::SettingKind::kCommit && ++named <= kMostSettings)
      text += ", " + setting_text(setting);
  if (named > kMostSettings) text += fmt::format(", {} more settings", named - kMostSettings);
  return text;
}

std::string left_out_text(const HistorySeries& series) {
  if (series.left_out == 0) return "";
  return fmt::format(
      "Of functions only the {} largest self times and the {} largest total times are followed; {} {} not.",
      kMostFollowed, kMostFollowed, series.left_out, series.left_out == 1 ? "is" : "are");
}

bool is_worse(const HistoryChange& change) {
  return (change.point.after > change.point.before) == (change.better == Better::kLower);
}

}  // namespace clusterprof::report
