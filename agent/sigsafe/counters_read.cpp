// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/counters_read.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

ThreadUse ask_kernel() noexcept {
  ThreadUse use = {};
  timespec time;
  if (raw_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &time) == 0) use.cpu_ns = as_ns(time);
  rusage usage;
  if (raw_syscall(SYS_getrusage, RUSAGE_THREAD, &usage) == 0) {
    use.minor_faults = static_cast<std::uint64_t>(usage.ru_minflt);
    use.major_faults = static_cast<std::uint64_t>(usage.ru_majflt);
    use.switches = static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw);
  }
  return use;
}

// Values of multiplexed events are estimates and may decrease.
std::uint64_t less(std::uint64_t value, std::uint64_t part) noexcept {
  return value > part ? value - part : 0;
}

// A thread changes its processor in a context switch only. So the event is read only if there were any, which
// saves two system calls for most samples. 0: the kernel was not asked, or did not answer.
bool read_migrations(CounterState& counters, std::uint64_t switches, std::uint64_t& value) noexcept {
  if (counters.migrations_known && switches != 0 && counters.migrations_switches == switches) {
    value = counters.migrations;
    return true;
  }
  counters.migrations_known =
      counters.migrations_descriptor >= 0 &&
      perf_event_id(counters.migrations_descriptor) == counters.migrations_id &&
      raw_syscall(SYS_read, counters.migrations_descriptor, &value, sizeof value) == sizeof value;
  counters.migrations = value;
  counters.migrations_switches = switches;
  return counters.migrations_known;
}

bool read_event_set(CounterState& counters, long long* values) noexcept {
  constexpr int kPapiOk = 0;
  if (counters.running.load(std::memory_order_relaxed) == 0) return false;
  if ((counters.first_id == 0 || perf_event_id(counters.descriptors[0]) == counters.first_id) &&
      g_process.read_event_set(counters.event_set, values) == kPapiOk)
    return true;
  counters.running.store(0, std::memory_order_relaxed);
  count_drop(g_process.segment.load(std::memory_order_relaxed), wire::DropReason::kCounterFailed);
  return false;
}

}  // namespace

std::uint64_t perf_event_id(int descriptor) noexcept {
  std::uint64_t id = 0;
  return raw_syscall(SYS_ioctl, descriptor, PERF_EVENT_IOC_ID, &id) == 0 ? id : 0;
}

std::uint32_t read_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept {
  if (g_process.counter_count == 0 || counters.counts.load(std::memory_order_acquire) == 0) return 0;
  const CounterKind* const kinds =
      counters.equivalents ? g_process.equivalent_kinds : g_process.counter_kinds;
  ThreadUse asked;
  const auto kernels = [&]() noexcept -> const ThreadUse& {
    if (use == nullptr) {
      asked = ask_kernel();
      use = &asked;
    }
    return *use;
  };
  long long of_set[wire::kMaxCounters];
  std::uint32_t set_values = 0;
  for (std::uint32_t i = 0; i < g_process.counter_count; ++i) {
    std::uint64_t value = 0;
    switch (kinds[i]) {
      case CounterKind::kTaskClock:
        value = kernels().cpu_ns;
        break;
      case CounterKind::kPageFaults:
        value = kernels().minor_faults + kernels().major_faults;
        break;
      case CounterKind::kMinorFaults:
        value = kernels().minor_faults;
        break;
      case CounterKind::kMajorFaults:
        value = kernels().major_faults;
        break;
      case CounterKind::kContextSwitches:
        value = kernels().switches;
        break;
      case CounterKind::kPapi:
        if (set_values == 0 && !read_event_set(counters, of_set)) return i;
        value = static_cast<std::uint64_t>(of_set[set_values++]);
        break;
      case CounterKind::kMigrations:
        if (!read_migrations(counters, kernels().switches, value)) return i;
        break;
    }
    values[i] = less(value, counters.base[i]);
  }
  return g_process.counter_count;
}

std::uint32_t sample_counters(CounterState& counters, const ThreadUse* use, std::uint64_t* values) noexcept {
  if (!g_process.counts_mpi) return read_counters(counters, use, values);
  // What was counted before the call belongs to where the thread was then: it is left to the next sample
  // there.
  if (counters.in_mpi != 0) return 0;
  // Those of the caller may be older than what was read around the last call.
  const std::uint32_t count = read_counters(counters, nullptr, values);
  for (std::uint32_t i = 0; i < count; ++i) values[i] = less(values[i], counters.inside[i]);
  return count;
}

void enter_mpi_counters(CounterState& counters) noexcept {
  counters.in_mpi = 1;  // first: a sample that comes now is the call's
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::uint64_t now[wire::kMaxCounters];
  counters.entered = read_counters(counters, nullptr, now);
  for (std::uint32_t i = 0; i < counters.entered; ++i) counters.outside[i] = less(now[i], counters.inside[i]);
}

std::uint32_t leave_mpi_counters(CounterState& counters) noexcept {
  if (counters.in_mpi == 0) return 0;
  std::uint64_t now[wire::kMaxCounters];
  const std::uint32_t read = read_counters(counters, nullptr, now);
  const std::uint32_t count = read < counters.entered ? read : counters.entered;
  for (std::uint32_t i = 0; i < count; ++i) {
    counters.call[i] = less(now[i], counters.outside[i] + counters.inside[i]);
    counters.inside[i] += counters.call[i];
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  counters.in_mpi = 0;
  return count;
}

}  // namespace clusterprof::agent
