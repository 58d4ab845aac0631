// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// What is wrong with one node or rank mostly is with others: notes that differ in nothing else become one.
std::vector<NoteRecord> united_notes(std::vector<shard::Note> notes);

}  // namespace clusterprof::report
