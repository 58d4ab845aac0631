// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/analysis/hang.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {

// The member "failure" of a deadlock.
void write_deadlock(JsonWriter& out, const Hang& hang);
// The member "waiting": who waits for whom.
void write_waiting(JsonWriter& out, const std::vector<HangWait>& waiting);

}  // namespace clusterprof::report
