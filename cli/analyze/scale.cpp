// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/scale.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"
#include "report/scale/scale.hpp"

namespace clusterprof::cli {
namespace {

Result<std::vector<report::ScaledRun>> read_runs(const std::vector<std::string>& names,
                                                 const report::SizeOf& of) {
  std::vector<report::ScaledRun> runs;
  for (const std::string& name : names) {
    const Result<std::filesystem::path> directory = run_directory(name);
    if (!directory) return directory.error();
    const Result<report::Analysis> analysis = stored_analysis(directory.value(), false);
    if (!analysis) return analysis.error();
    const std::optional<double> size = report::size_of(analysis.value(), of);
    if (!size)
      return Error{name + ": its command line has no number called " + of.name, ErrorKind::kNotFound};
    if (*size < 1)
      return Error{name + ": its " + report::noun_of(of) + " are less than 1", ErrorKind::kBadArgument};
    runs.push_back(report::scaled_run(analysis.value(), name, of, *size));
  }
  return runs;
}

}  // namespace

int scale(const ScaleOptions& options) {
  const std::optional<report::SizeOf> of = report::parse_size_of(options.by);
  if (!of) return complain(kBadUsage, "scale: --by: ranks, nodes, threads or size=NAME, not " + options.by);
  if (options.runs.size() < 2)
    return complain(kBadUsage, "scale: runs of several sizes are compared (see clusterprof scale --help)");
  Result<std::vector<report::ScaledRun>> read = read_runs(options.runs, *of);
  if (!read) return complain(read.error());
  std::vector<report::ScaledRun> runs = std::move(read).value();
  const auto smaller = [](const report::ScaledRun& a, const report::ScaledRun& b) { return a.size < b.size; };
  const auto [smallest, largest] = std::minmax_element(runs.begin(), runs.end(), smaller);
  if (smallest->size == largest->size)
    return complain(kNothingFound,
                    "scale: all runs have the same number of " + report::noun_of(*of) + " (see --by)");
  for (const double at : options.at)
    if (at > report::kFarthest * largest->size)
      return complain(kBadUsage, "scale: --at: nothing is predicted for more than " +
                                     std::to_string(static_cast<int>(report::kFarthest)) +
                                     " times the largest run");
  const report::ScaleReport result = report::scale(std::move(runs), *of, options.at);

  if (!options.html.empty()) {
    const Result<void> written = write_named_file(options.html, report::render_scale_html(result));
    if (!written) return complain(written.error());
  }
  if (options.json) {
    Output output;
    report::render_scale_json(result, [&](std::string_view piece) { output(piece); });
    return output.finish();
  }
  if (!options.html.empty()) return kOk;
  report::TextOptions text;
  text.width = columns_of(STDOUT_FILENO);
  text.colour = wants_colour(STDOUT_FILENO, options.colour);
  text.rows = options.top;
  return print(report::render_scale_text(result, text));
}

}  // namespace clusterprof::cli
