// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/counters_read.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {

std::uint64_t perf_event_id(int descriptor) noexcept {
  std::uint64_t id = 0;
  return raw_syscall(SYS_ioctl, descriptor, PERF_EVENT_IOC_ID, &id) == 0 ? id : 0;
}

std::uint32_t read_counters(CounterState& counters, std::uint64_t* values) noexcept {
  if (counters.running.load(std::memory_order_relaxed) == 0) return 0;
  long long read[wire::kMaxCounters];
  constexpr int kPapiOk = 0;
  if ((counters.first_id != 0 && perf_event_id(counters.descriptors[0]) != counters.first_id) ||
      g_process.papi_read(counters.event_set, read) != kPapiOk) {
    counters.running.store(0, std::memory_order_relaxed);
    count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kCounterFailed);
    return 0;
  }
  for (std::uint32_t i = 0; i < g_process.counter_count; ++i) values[i] = static_cast<std::uint64_t>(read[i]);
  return g_process.counter_count;
}

}  // namespace clusterprof::agent
