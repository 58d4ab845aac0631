// SPDX-License-Identifier: BSD-3-Clause
// Combines what agents and the kernel tell about the resources that processes used. No state: any thread may
// call this.
#pragma once

#include <optional>

#include "collector/os/os_facts.hpp"
#include "collector/process/process_report.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// The larger value of each quantity: all of them grow, so the larger one is newer.
[[nodiscard]] SystemUsage larger_usage(const wire::ProcessUsage& agent,
                                       const std::optional<SystemUsage>& system);

// What a process used. If the agent did not see its end, the kernel's figures may be a second old; then
// samples, which do not separate user and system time, tell the CPU time.
[[nodiscard]] SystemUsage usage_of(const ProcessReport& report, const std::optional<SystemUsage>& system);

// Sums for several processes; for memory, the largest value.
void add_usage(SystemUsage& sum, const SystemUsage& usage);

}  // namespace clusterprof::collector
