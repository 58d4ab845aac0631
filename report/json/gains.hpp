// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "report/analysis/gains.hpp"
#include "report/json/json_writer.hpp"

namespace clusterprof::report {

// The ranking, as "candidates", and what was refused, as "refused_changes": the same in `clusterprof report --json` and `clusterprof whatif --json`.
void write_gains(JsonWriter& out, const profile::Gains& gains);

}  // namespace clusterprof::report
