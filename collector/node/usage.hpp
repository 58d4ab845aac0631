// SPDX-License-Identifier: BSD-3-Clause
// Combines what agents and the kernel tell about the resources that processes used. No state: any thread may
// call this.
#pragma once

#include <optional>

#include "collector/os/os_facts.hpp"
#include "collector/process/process_report.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

// A quantity that both the kernel and the agent tell.
struct UsageField {
  std::uint64_t SystemUsage::*system;
  std::uint64_t wire::ProcessUsage::*agent;
};

// Those that add up over processes.
inline constexpr UsageField kSummedUsage[] = {
    {&SystemUsage::user_ns, &wire::ProcessUsage::user_ns},
    {&SystemUsage::system_ns, &wire::ProcessUsage::system_ns},
    {&SystemUsage::minor_faults, &wire::ProcessUsage::minor_faults},
    {&SystemUsage::major_faults, &wire::ProcessUsage::major_faults},
    {&SystemUsage::voluntary_switches, &wire::ProcessUsage::voluntary_switches},
    {&SystemUsage::involuntary_switches, &wire::ProcessUsage::involuntary_switches},
    {&SystemUsage::read_bytes, &wire::ProcessUsage::read_bytes},
    {&SystemUsage::write_bytes, &wire::ProcessUsage::write_bytes},
};

// Raises each quantity of `usage` to that of `other`. All of them grow, so the larger one is newer.
void raise_usage(SystemUsage& usage, const SystemUsage& other);

// The larger value of each quantity: all of them grow, so the larger one is newer.
[[nodiscard]] SystemUsage larger_usage(const wire::ProcessUsage& agent,
                                       const std::optional<SystemUsage>& system);

// What a process used. If the agent did not see its end, the kernel's figures may be a second old; then
// samples, which do not separate user and system time, tell the CPU time.
[[nodiscard]] SystemUsage usage_of(const ProcessReport& report, const std::optional<SystemUsage>& system);

// Sums for several processes; for memory, the largest value.
void add_usage(SystemUsage& sum, const SystemUsage& usage);

}  // namespace clusterprof::collector
