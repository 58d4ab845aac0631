// SPDX-License-Identifier: BSD-3-Clause
// The sections of the text report that need no options of their own. Each prints itself on the report's page,
// or nothing where there is nothing to show and it was not asked for.
#pragma once

namespace clusterprof::report::text {

struct Report;  // report/text/section.hpp

void print_summary(Report& report);
void print_gains(Report& report);
void print_efficiency(Report& report);
void print_ranks(Report& report);
void print_hotspots(Report& report);
void print_lines(Report& report);
void print_call_tree(Report& report);
void print_mpi(Report& report);
void print_matrix(Report& report);
void print_counters(Report& report);
void print_quality(Report& report);

}  // namespace clusterprof::report::text
