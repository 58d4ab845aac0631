// SPDX-License-Identifier: BSD-3-Clause
// Reads of the shards what this needs, and merges nothing else: somebody waits for the answer, and the run
// may be running.
#include "cli/analyze/stacks.hpp"

#include <filesystem>

#include "base/result.hpp"
#include "cli/analyze/live_shards.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "report/analysis/run_state.hpp"
#include "report/stacks.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

int stacks(const StacksOptions& options) {
  const Result<fs::path> directory = run_directory(options.run, Meant::kRunning);
  if (!directory) return complain(directory.error());
  report::StacksReport report;
  // A collector that has ended may have written its last shard after it was read.
  for (int tries = 0; tries < 2; ++tries) {
    const Result<shard::ShardData> data = read_stacks(directory.value(), options.run);
    if (!data) return complain(data.error());
    report = report::report_stacks(data.value(), chosen_view().frames);
    if (!report::has_collector_that_ended(report.run)) break;
  }
  report::find_run_state(report.run);
  if (report.stacks.classes.empty())
    return complain(kNothingFound, options.run + ": nothing is known of its threads");
  if (!options.json) return print(report::render_stacks_text(report));
  Output output;
  report::render_stacks_json(report, [&](std::string_view piece) { output(piece); });
  return output.finish();
}

}  // namespace clusterprof::cli
