// SPDX-License-Identifier: BSD-3-Clause
// Writes runs and changes of a history for text and HTML. All results are printable UTF-8.
#pragma once

#include <string>

#include "report/history/history.hpp"

namespace clusterprof::report {

std::string date_text(const HistoryRun& run);      // "2026-03-14 13:45"
std::string commit_text(const std::string& hash);  // its first digits; "-"
std::string metric_text(const FollowedMetric& metric);
// "elapsed: 9.90 s -> 11.0 s (+11.1 %), along with step train.py +1.10 s, commit 0123456789, OMP_NUM_THREADS
// 4 -> 2"
std::string change_text(const HistorySeries& series, const HistoryChange& change);
bool is_worse(const HistoryChange& change);
std::string left_out_text(const HistorySeries& series);  // empty: all functions are followed

}  // namespace clusterprof::report
