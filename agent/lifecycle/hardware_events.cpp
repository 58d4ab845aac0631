// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/hardware_events.h"

#include <linux/perf_event.h>
#include <strings.h>

#include "agent/lifecycle/perf_events.h"
#include "agent/sigsafe/counters_read.h"

namespace clusterprof::agent {
namespace {

struct HardwareName {
  const char* name;
  std::uint64_t config;
};
// PAPI_L3_TCM is missing: on AMD's processors, the kernel's "cache misses" are those of the second level.
constexpr HardwareName kPresets[] = {
    {"PAPI_TOT_CYC", PERF_COUNT_HW_CPU_CYCLES},         {"PAPI_TOT_INS", PERF_COUNT_HW_INSTRUCTIONS},
    {"PAPI_BR_INS", PERF_COUNT_HW_BRANCH_INSTRUCTIONS}, {"PAPI_BR_MSP", PERF_COUNT_HW_BRANCH_MISSES},
    {"PAPI_REF_CYC", PERF_COUNT_HW_REF_CPU_CYCLES},
};
constexpr HardwareName kGeneric[] = {
    {"cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"cpu-cycles", PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_COUNT_HW_CACHE_MISSES},
    {"branches", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-instructions", PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", PERF_COUNT_HW_REF_CPU_CYCLES},
};

}  // namespace

bool find_hardware_event(const char* name, std::uint64_t& config) noexcept {
  constexpr char kPrefix[] = "perf::";
  for (const HardwareName& preset : kPresets)
    if (strcasecmp(name, preset.name) == 0) {
      config = preset.config;
      return true;
    }
  if (strncasecmp(name, kPrefix, sizeof kPrefix - 1) == 0) name += sizeof kPrefix - 1;
  for (const HardwareName& generic : kGeneric)
    if (strcasecmp(name, generic.name) == 0) {
      config = generic.config;
      return true;
    }
  return false;
}

int add_to_event_group(CounterState& counters, std::int32_t tid, std::uint64_t config,
                       bool in_kernel) noexcept {
  const bool is_first = counters.descriptor_count == 0;
  perf_event_attr event = {};
  event.type = PERF_TYPE_HARDWARE;
  event.size = sizeof event;
  event.config = config;
  event.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  event.exclude_kernel = in_kernel ? 0 : 1;
  event.exclude_hv = 1;
  const int descriptor = open_high_event(event, tid, is_first ? -1 : counters.descriptors[0]);
  if (descriptor < 0) return -descriptor;
  if (is_first) {
    counters.first_id = perf_event_id(descriptor);
    counters.event_set = descriptor;
  }
  counters.descriptors[counters.descriptor_count++] = descriptor;
  return 0;
}

bool open_event_group(CounterState& counters, std::int32_t tid, const std::uint64_t* configs,
                      std::uint32_t count, bool in_kernel) noexcept {
  counters.descriptor_count = 0;
  for (std::uint32_t i = 0; i < count; ++i)
    if (add_to_event_group(counters, tid, configs[i], in_kernel) != 0) {
      close_event_group(counters);
      return false;
    }
  return true;
}

void close_event_group(CounterState& counters) noexcept {
  for (std::uint32_t i = 0; i < counters.descriptor_count; ++i)
    close_high_event(perf_event_id(counters.descriptors[i]) != 0 ? counters.descriptors[i] : -1);
  counters.descriptor_count = 0;
}

}  // namespace clusterprof::agent
