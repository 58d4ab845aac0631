// SPDX-License-Identifier: BSD-3-Clause
// Source locations, evidence and severities as findings and bottlenecks both state them.
#pragma once

#include <array>
#include <cstdint>

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {

// The source location of the innermost frame of `path`, which must have one.
SourceLocation place_of(const CallPaths& paths, std::uint32_t path);
// Adds what idle threads waited for, by OffCpu: kSleep and the keys after it, each where its time is not 0.
void add_idle_kinds(const std::array<double, kOffCpuKinds>& idle_s, Evidence& evidence);
// Adds kCalls, kCall and, where the file is known, kPath.
void add_io_evidence(const Analysis& analysis, const IoCallRow& row, std::uint64_t count, Evidence& evidence);
// Adds what hardware counters measured of memory; without counters the estimated working set.
void add_memory_evidence(const MemoryRow& row, Evidence& evidence);

// The severity of a problem that takes this share of the time of all ranks.
Severity severity_of(double share);

}  // namespace clusterprof::report
