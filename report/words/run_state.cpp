// SPDX-License-Identifier: BSD-3-Clause
#include "report/words/run_state.hpp"

#include <fmt/format.h>

#include "report/format/numbers.hpp"

namespace clusterprof::report::words {

std::string state(RunState state, bool complete, std::optional<double> as_of_s) {
  if (state == RunState::kLost) return "INCOMPLETE (lost)";
  if (state != RunState::kRunning || !as_of_s) return complete ? "complete" : "INCOMPLETE";
  const double age_s = *as_of_s;
  if (age_s < 1) return "running, as of now";
  if (age_s < 120) return fmt::format("running, as of {:.0f} s ago", age_s);
  if (age_s < 2 * 3600) return fmt::format("running, as of {:.0f} min ago", age_s / 60);
  return fmt::format("running, as of {:.0f} h ago", age_s / 3600);
}

std::string state(const RunInfo& run) {
  if (run.snapshot_utc_ns != 0)
    return fmt::format("snapshot while running, as of {}", format::utc(run.snapshot_utc_ns));
  return state(run.state, run.complete, run.as_of_s);
}

std::string windows(const RunInfo& run) {
  if (run.was_never_recorded())
    return fmt::format("nothing was recorded of {}: on standby, and never started",
                       format::seconds(run.lasted_s));
  if (run.windows.empty()) return {};
  return fmt::format("{} {} of {}, in {}", run.standby ? "recorded" : "recorded in full",
                     format::seconds(run.windows_s()), format::seconds(run.lasted_s),
                     format::plural(run.windows.size(), "window"));
}

}  // namespace clusterprof::report::words
