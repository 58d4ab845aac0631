// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/analysis/analysis.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {

// The member "failure": why the run failed, and for a deadlock who waits for whom.
void write_failure(JsonWriter& out, const Analysis& analysis);
// The member "verdict": what is wrong, in the words of `stacks` and `top`; null: nothing is.
void write_verdict(JsonWriter& out, const Analysis& run);
// The member "waiting": who waits for whom.
void write_waiting(JsonWriter& out, const std::vector<HangWait>& waiting);

}  // namespace clusterprof::report
