// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// Joins notes that differ only in their node or rank, because most problems of one node or rank are problems
// of many.
std::vector<NoteRecord> united_notes(std::vector<shard::Note> notes);

}  // namespace clusterprof::report
