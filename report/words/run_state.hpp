// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report::words {

// "complete", "INCOMPLETE", "INCOMPLETE (lost)", or "running, as of 3 s ago"; of a snapshot
// "snapshot while running, as of 2026-11-28 10:00:03 UTC".
std::string state(RunState state, bool complete, std::optional<double> as_of_s);
std::string state(const RunInfo& run);

// How much of a run on standby, or of a light one, was recorded because somebody asked for it. Empty: it had
// no windows of recording.
std::string windows(const RunInfo& run);

}  // namespace clusterprof::report::words
