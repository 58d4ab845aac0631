// SPDX-License-Identifier: BSD-3-Clause
// What the nodes' processors and memory did to the ranks: docs/metrics.md, "Findings".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

// Main threads' time without a processor that may have cost something, outside MPI and in it; 0 where it is
// not known. A rank that has to wait for others loses nothing by waiting without a processor: in MPI, no more
// counts than it was there without waiting. Where waiting is not known, that is the time that a perfect
// balance of useful time would leave. MPI_Init and MPI_Finalize count for nothing.
struct LackedTime {
  double runnable_s = 0, mpi_runnable_s = 0;
  [[nodiscard]] double all_s() const { return runnable_s + mpi_runnable_s; }
};
LackedTime lacked_time(const Analysis& analysis, const RankInfo& rank);
// As a share of all rank time.
double lacked_share(const Analysis& analysis);

// "0-3,8": numbers in ascending order; empty where the text is no such list, or one beyond 65535.
std::optional<std::vector<std::uint32_t>> parse_list(std::string_view text);

// Findings on shared and busy processors, on ranks bound across memory nodes, on full memory and on pages
// that came from disk.
std::vector<Finding> placement_findings(const Analysis& analysis);

}  // namespace clusterprof::report
