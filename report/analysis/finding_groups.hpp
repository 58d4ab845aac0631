// SPDX-License-Identifier: BSD-3-Clause
// The groups of findings, in the order in which find_findings() looks for them. Each adds what it finds.
// Thresholds and formulas: docs/metrics.md, "Findings".
#pragma once

#include "report/analysis/finding_builder.hpp"

namespace clusterprof::report {

// Ranks and launchers that failed, ranks that are missing: what failed first, then what that took with it.
void find_failures(FindingBuilder& builder);
// Ranks that made others wait, and load imbalance.
void find_delays(FindingBuilder& builder);
// Ranks for which the others wait in torch.distributed, where only samples tell of its calls.
void find_late_ranks_by_samples(FindingBuilder& builder);
// What the network costs, waiting without a single cause, transfer, and files through MPI.
void find_mpi_costs(FindingBuilder& builder);
// Errors that MPI calls returned, requests that stayed open, messages that nobody received.
void find_mpi_problems(FindingBuilder& builder);
// Threads that wait for the GIL.
void find_gil_waits(FindingBuilder& builder);
// Time in the Python interpreter and in its garbage collector.
void find_python_time(FindingBuilder& builder);
// Time in imports of Python packages.
void find_imports(FindingBuilder& builder);
// Computing on data that no cache holds; page faults, and calls that map memory.
void find_memory_costs(FindingBuilder& builder);
// Who held memory when it was used up.
void find_exhausted_memory(FindingBuilder& builder);
// Ranks that hold more than others, leaks, memory that nobody uses. After find_memory_costs().
void find_memory_holders(FindingBuilder& builder);
// Main threads that wait for data which threads or processes of their own make, and which these make too
// slowly. Before the groups on waiting, which leave out what it finds.
void find_slow_input(FindingBuilder& builder);
// Calls on files, waiting for data of others, and many small reads or writes.
void find_io_costs(FindingBuilder& builder);
// Main threads that are blocked outside MPI.
void find_blocked_time(FindingBuilder& builder);
// Where most of the finding's time was spent waiting for child processes, says how many there were of those
// that took the most time, and where they spent it. `category`: what the time counts as.
void name_awaited_children(const FindingBuilder& builder, shard::Category category, Finding& finding);
// Event loops that were blocked while others waited for them.
void find_blocked_loops(FindingBuilder& builder);
// Time in system calls, but those on memory.
void find_system_calls(FindingBuilder& builder);
// Threads of OpenMP's teams that have nothing to do, or too few processors.
void find_openmp_costs(FindingBuilder& builder);
// Says of findings on too many threads which pool has most of them, and what sets its size.
void name_large_pools(FindingBuilder& builder);
// What the measurement lost, and where it is not exact.
void find_measurement_errors(FindingBuilder& builder);

}  // namespace clusterprof::report
