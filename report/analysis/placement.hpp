// SPDX-License-Identifier: BSD-3-Clause
// Time that ranks lost because of the processors and the memory of their nodes: docs/metrics.md, "Findings".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/number_list.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// The time that main threads waited for a processor and that may have delayed the run, outside MPI and in
// MPI; 0 where it is not known. A rank that waits for other ranks anyway loses nothing by lacking a
// processor, so in MPI at most the time counts in which it did not wait for them. Where that is not known, it
// is the time that a perfect balance of useful time would leave. MPI_Init and MPI_Finalize do not count.
struct LackedTime {
  double runnable_s = 0, mpi_runnable_s = 0;
  [[nodiscard]] double all_s() const { return runnable_s + mpi_runnable_s; }
};
LackedTime lacked_time(const Analysis& analysis, const RankInfo& rank);
// As a share of all rank time.
double lacked_share(const Analysis& analysis);
// As a share of the time of the run outside MPI's start and end: of the rank with most of it, as others may
// have waited for that one. What is lost to communication is at most what remains.
double lost_to_processors(const Analysis& analysis);

// Those that the rank may run on; where that is not known, all of its node. Empty: neither is known.
std::vector<std::uint32_t> processors_of(const Analysis& analysis, const RankInfo& rank);

// What there is too much of where ranks run more than they have processors. kUnknown: they have other
// processes, and it is not known how many of these run at a time, or what part of the CPU time is theirs.
enum class Crowd : std::uint8_t { kThreads = 0, kProcesses, kUnknown };
Crowd crowd_of(const Analysis& analysis, const std::vector<const RankInfo*>& ranks, std::size_t processors);
// Corrects the advice to start fewer threads, which is the right one for a pool that is too large.
void advise_fewer_processes(Analysis& analysis);

// Findings on shared and busy processors, on ranks bound across memory nodes, on full memory and on pages
// that came from disk.
std::vector<Finding> placement_findings(const Analysis& analysis);

}  // namespace clusterprof::report
