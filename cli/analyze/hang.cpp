// SPDX-License-Identifier: BSD-3-Clause
// docs/design/0023-hang-after.md
#include "cli/analyze/hang.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <filesystem>

#include "base/shared_directory.hpp"
#include "cli/analyze/live_shards.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "cli/analyze/write_file.hpp"
#include "formats/run/run_control.hpp"
#include "report/analysis/run_state.hpp"
#include "report/analysis/standstill.hpp"
#include "report/stacks.hpp"

namespace clusterprof::cli {

int look_for_hang(const HangVerbOptions& options) {
  constexpr std::uint64_t kSecond_ns = 1'000'000'000;
  // It holds the job's stderr open, which is not to outlive the collector.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::filesystem::path run = options.run;
  restrict_umask_like(options.run);
  if (read_control(options.run).hang) return kNothingFound;
  const Result<LiveNodes> live = look_at_live_nodes(run);
  if (!live) return kNothingFound;  // a shard that is being replaced: the next look finds it
  const Result<WrittenShards> written = have_shards_written(run, live.value().nodes);
  if (!written || !written.value().silent.empty()) return kNothingFound;
  const Result<shard::ShardData> data = read_stacks(run, options.run);
  if (!data) return kNothingFound;
  const std::uint64_t still_s =
      report::standstill_ns(data.value(), report::CallPaths(data.value()), live.value().nodes) / kSecond_ns;
  if (still_s < options.after_s) return kNothingFound;

  report::StacksReport report = report::report_stacks(data.value(), chosen_view().frames);
  report::find_run_state(report.run);
  const Result<void> kept = write_file(run / kHangName, report::render_stacks_text(report));
  if (!kept) complain(kOk, kept.error().message);
  const std::string text =
      report::render_standstill(report, static_cast<double>(still_s), options.run, options.end_ranks);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  const Result<void> told = write_hang_notice(options.run, {still_s, options.end_ranks});
  return told ? kOk : complain(told.error());
}

}  // namespace clusterprof::cli
