// SPDX-License-Identifier: BSD-3-Clause
// What processes used of the machine, put together from what their agents and the kernel tell. No state: any
// thread may call this.
#pragma once

#include <optional>

#include "collector/os/os_facts.hpp"
#include "collector/process/process_report.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// Of each quantity the larger of the two: both grow, and one of them may be older.
[[nodiscard]] SystemUsage larger_usage(const wire::ProcessUsage& agent,
                                       const std::optional<SystemUsage>& system);

// Of a process with that report. If the agent did not see its end, the kernel's figures may be a second old;
// its samples are not. They do not tell user time from system time.
[[nodiscard]] SystemUsage usage_of(const ProcessReport& report, const std::optional<SystemUsage>& system);

// Of several processes; of memory, the largest.
void add_usage(SystemUsage& sum, const SystemUsage& usage);

}  // namespace clusterprof::collector
