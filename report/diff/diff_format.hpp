// SPDX-License-Identifier: BSD-3-Clause
// Writes the numbers of a comparison for text and HTML.
#pragma once

#include <string>

#include "report/diff/diff.hpp"

namespace clusterprof::report {

std::string amount_text(Unit unit, double value);       // "1.23 s", "45.2 %"
std::string change_text(Unit unit, double difference);  // "+1.23 s", "-3.1 pp"
std::string relative_text(double relative);             // "+4.2 %"
// The relative change; of shares the difference; "new", "gone" where there was, is, nothing.
std::string change_cell(Unit unit, const Comparison& comparison);
// Half the width of its confidence interval, in the same terms; empty where it is not known.
std::string width_cell(Unit unit, const Comparison& comparison);
const char* verdict_text(const ComparedValue& value);  // "better", "noise"; empty: it cannot be said

const char* title_of(DiffTable table);
// What a row is about: "step() train.py:88". `width`: columns.
std::string subject_text(DiffTable table, const ComparedRow& row, std::size_t width);
// "elapsed +7.3 % (12.3 s -> 13.2 s): elapsed>+5% holds"
std::string judgement_text(const Judgement& judgement);
// "3 runs, 4 ranks on 2 nodes"
std::string side_text(const std::vector<RunFacts>& runs);
std::string run_text(const RunFacts& run);  // "runs/a  4 ranks on 2 nodes, 2026-11-21 13:45:02 UTC"
std::vector<std::string> remarks_of(const Diff& diff);  // what to keep in mind, a sentence each

}  // namespace clusterprof::report
