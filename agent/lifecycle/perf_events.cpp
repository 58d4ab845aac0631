// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/perf_events.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <atomic>

#include "agent/lifecycle/proc_files.h"
#include "agent/lifecycle/text.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

// A high number makes the kernel's table of descriptors equally large, and every fork copies that table. So
// they begin at kFirstNumber, or in the last quarter where that is lower. Our events get one part in
// kEventPart of the descriptors that the program may have.
constexpr std::uint32_t kMaxDescriptors = 4096, kEventPart = 8, kFirstNumber = 768;
static_assert(kMaxHighEvents == kMaxDescriptors / kEventPart);
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<std::uint32_t> g_events_open = 0;
constinit std::atomic<bool> g_events_forbidden = false;

std::uint32_t descriptor_limit() noexcept {
  rlimit limits;
  if (getrlimit(RLIMIT_NOFILE, &limits) != 0) return 0;
  return static_cast<std::uint32_t>(limits.rlim_cur < kMaxDescriptors ? limits.rlim_cur : kMaxDescriptors);
}

}  // namespace

int open_high_event(perf_event_attr& event, std::int32_t tid, int group) noexcept {
  if (are_high_events_forbidden()) return -EPERM;
  const std::uint32_t limit = descriptor_limit();
  if (g_events_open.load(std::memory_order_relaxed) >= limit / kEventPart) return -EMFILE;
  const long low = raw_syscall(SYS_perf_event_open, &event, tid, -1, group, PERF_FLAG_FD_CLOEXEC);
  if (low < 0) return static_cast<int>(low);
  const std::uint32_t last_quarter = limit - limit / 4;
  const long high =
      raw_syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, last_quarter < kFirstNumber ? last_quarter : kFirstNumber);
  raw_syscall(SYS_close, low);
  if (high >= 0) g_events_open.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(high);
}

void forbid_high_events() noexcept { g_events_forbidden.store(true, std::memory_order_release); }

bool are_high_events_forbidden() noexcept { return g_events_forbidden.load(std::memory_order_acquire); }

void close_high_event(int descriptor) noexcept {
  if (descriptor >= 0) raw_syscall(SYS_close, descriptor);
  g_events_open.fetch_sub(1, std::memory_order_relaxed);
}

void forget_high_event() noexcept { g_events_open.fetch_sub(1, std::memory_order_relaxed); }

void forget_all_high_events() noexcept { g_events_open.store(0, std::memory_order_relaxed); }

void describe_event_error(int error, char (&reason)[wire::kCounterNameBytes]) noexcept {
  if (error == ENOSYS) return copy_text(reason, "no performance events in this kernel");
  if (error == EMFILE || error == ENFILE) return copy_text(reason, "too few file descriptors (ulimit -n)");
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP || error == ENXIO)
    return copy_text(reason, "no hardware counters on this machine");
  if (error != EACCES && error != EPERM)
    return copy_text(reason, "the kernel refuses it as it was asked for");
  char level[16];
  copy_text(reason, "not permitted");
  if (read_small_file("/proc/sys/kernel/perf_event_paranoid", level, sizeof level) == 0) return;
  level[strcspn(level, "\n")] = 0;
  append_text(reason, " (perf_event_paranoid=");
  append_text(reason, level);
  append_text(reason, ")");
}

}  // namespace clusterprof::agent
