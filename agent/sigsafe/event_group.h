// SPDX-License-Identifier: BSD-3-Clause
// Reading hardware events that are counted without PAPI.
#pragma once

#include <sys/syscall.h>

#include <cstdint>

#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// Reads the values of a group of perf events, in the order in which they were opened, through the descriptor
// of the first one. That one was opened with PERF_FORMAT_GROUP and both times. If the events had a counter
// for only a part of the time, the values are estimates for the whole time. Returns 0, or -1 if they could
// not be read. Async-signal-safe; preserves errno.
inline int read_event_group(int descriptor, long long* values) noexcept {
  struct {
    std::uint64_t count, enabled_ns, running_ns, values[wire::kMaxCounters];
  } group;
  constexpr long kHead = sizeof group - sizeof group.values;
  const long bytes = raw_syscall(SYS_read, descriptor, &group, sizeof group);
  if (bytes < kHead || group.count > wire::kMaxCounters ||
      bytes != kHead + static_cast<long>(group.count * sizeof *group.values))
    return -1;
  for (std::uint64_t i = 0; i < group.count; ++i) {
    std::uint64_t value = group.values[i];
    if (group.running_ns < group.enabled_ns && group.running_ns != 0)
      value = static_cast<std::uint64_t>(static_cast<double>(value) * static_cast<double>(group.enabled_ns) /
                                         static_cast<double>(group.running_ns));
    values[i] = static_cast<long long>(value);
  }
  return 0;
}

}  // namespace clusterprof::agent
