// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "report/analysis/gains.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {

// The ranking, as "candidates", and what was refused, as "refused_changes": the same in `clusterprof report --json` and `clusterprof whatif --json`.
void write_gains(JsonWriter& out, const profile::Gains& gains);
// What was replayed of a run whose events are a sample, as "stretches"; null: all, or nothing.
void write_stretches(JsonWriter& out, std::size_t count, double time_s);

}  // namespace clusterprof::report
