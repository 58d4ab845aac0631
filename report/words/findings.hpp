// SPDX-License-Identifier: BSD-3-Clause
// Makes sentences of findings. Only renderers include this; code that computes or compares uses the data.
#pragma once

#include <string>
#include <string_view>

#include "report/analysis/analysis.hpp"
#include "report/format/names.hpp"

namespace clusterprof::report::words {

// A sentence, or a few, with what to try: "Load imbalance costs 29.2 % of the run: ... Give the ranks equal
// work."
std::string sentences(const Finding& finding, const format::ShortPaths& names);
// The first of them, which says what it is about, without its full stop.
std::string headline(const Finding& finding, const format::ShortPaths& names);
// "To gain: at most 2.92 s (estimated from sums).", "To gain: 2.80 s +/- 0.10 s (predicted by replay: rank 1
// = mean)."; empty: it is not known, or the finding is about no loss.
std::string gain(const Finding& finding);
// What to try, as a sentence; empty: nothing.
std::string_view advice(FindingAction action);

}  // namespace clusterprof::report::words
