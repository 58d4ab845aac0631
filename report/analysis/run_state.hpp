// SPDX-License-Identifier: BSD-3-Clause
// Whether a run is still running, has ended, or was lost. This depends on when it is asked, unlike all else
// in an analysis, which may have been made a while ago.
#pragma once

#include <chrono>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// kMayRun: a node whose collector has not written its last shard is running, unless the collector has ended
// (which can be told on the same machine only) or its data are much older than they should be. kEnded: it is
// known that the job has ended, so such a node is lost.
enum class Job : std::uint8_t { kMayRun, kEnded };

// Whether a collector has ended whose last shard is not in the analysis. It may have written that after its
// shard was read: read it again before find_run_state().
[[nodiscard]] bool has_collector_that_ended(const Analysis& analysis);

// A snapshot of a run that was running stays one: the run is "running", whatever has become of it.
//
// Sets state and as_of_s of the run and its nodes. The run is lost if one of its nodes is, and else running
// if one of them is. Ranks that still ran are not lost on a node that is running, and no finding says so. Of
// a run that is running no note says that a shard is incomplete; and in the first seconds, in which nodes
// write for the first time, no ranks are missing.
void find_run_state(Analysis& analysis, Job job = Job::kMayRun,
                    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace clusterprof::report
