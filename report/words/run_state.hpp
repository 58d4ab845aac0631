// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::words {

// "complete", "INCOMPLETE", "INCOMPLETE (lost)", or "running, as of 3 s ago".
std::string state(RunState state, bool complete, std::optional<double> as_of_s);
inline std::string state(const RunInfo& run) { return state(run.state, run.complete, run.as_of_s); }

// How much of a run on standby, or of a light one, was recorded because somebody asked for it. Empty: it had
// no windows of recording.
std::string windows(const RunInfo& run);

}  // namespace clusterprof::report::words
