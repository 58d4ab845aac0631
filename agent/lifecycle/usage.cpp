// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/usage.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/proc_files.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

std::uint64_t nanoseconds(const timeval& time) noexcept {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_usec) * 1000u;
}

// The number after `key` ("rchar: "). False if the key is not there.
bool field(const char* text, const char* key, std::uint64_t& value) noexcept {
  const char* found = strstr(text, key);
  if (found == nullptr) return false;
  value = 0;
  for (found += strlen(key); *found >= '0' && *found <= '9'; ++found)
    value = value * 10 + static_cast<std::uint64_t>(*found - '0');
  return true;
}

constinit wire::ProcessUsage g_before = {};  // of a process that was attached to: what does not count

// The parent ignores SIGCHLD, and does not wait for this process.
CLUSTERPROF_WRITTEN_BY_FORKS constinit bool g_parent_does_not_wait = false;

void read_usage(wire::ProcessUsage& usage, bool with_io) noexcept {
  rusage from;
  if (raw_syscall(SYS_getrusage, RUSAGE_SELF, &from) == 0) {
    usage.user_ns = nanoseconds(from.ru_utime);
    usage.system_ns = nanoseconds(from.ru_stime);
    usage.max_rss_bytes = static_cast<std::uint64_t>(from.ru_maxrss) * 1024u;
    usage.minor_faults = static_cast<std::uint64_t>(from.ru_minflt);
    usage.major_faults = static_cast<std::uint64_t>(from.ru_majflt);
    usage.voluntary_switches = static_cast<std::uint64_t>(from.ru_nvcsw);
    usage.involuntary_switches = static_cast<std::uint64_t>(from.ru_nivcsw);
  }
  if (raw_syscall(SYS_getrusage, RUSAGE_CHILDREN, &from) == 0) {
    usage.children_user_ns = nanoseconds(from.ru_utime);
    usage.children_system_ns = nanoseconds(from.ru_stime);
  }
  if (!with_io) return;
  char text[512];
  if (read_small_file("/proc/self/io", text, sizeof text) != 0) {
    if (field(text, "rchar: ", usage.read_bytes) && field(text, "wchar: ", usage.write_bytes))
      usage.usage_has_io = g_parent_does_not_wait ? wire::kIoOfItsOwn : wire::kIoTold;
  }
}

// Whether what this process has read and written will be in its parent's account: the kernel adds it when the
// parent waits for the process. Then a child of a fork that ends soon needs no file for it. One that is older
// has told what it used, so that the report shows who did it.
bool parent_gets_io(const wire::SegmentHeader& segment) noexcept {
  constexpr std::uint64_t kSoonNs = 1'000'000'000;
  return may_leave_io_to_parent(segment) && segment.usage.usage_has_io == wire::kIoNotTold &&
         monotonic_ns() - segment.start_mono_ns <= kSoonNs &&
         raw_syscall(SYS_getppid) == segment.creation.pid;
}

void write_usage(wire::SegmentHeader* segment, bool with_io) noexcept {
  wire::ProcessUsage now = {};
  read_usage(now, with_io);
  const auto count = [&](std::uint64_t wire::ProcessUsage::*field) {
    segment->usage.*field = now.*field - g_before.*field;
  };
  count(&wire::ProcessUsage::user_ns);
  count(&wire::ProcessUsage::system_ns);
  segment->usage.max_rss_bytes = now.max_rss_bytes;  // the kernel knows no other beginning
  count(&wire::ProcessUsage::minor_faults);
  count(&wire::ProcessUsage::major_faults);
  count(&wire::ProcessUsage::voluntary_switches);
  count(&wire::ProcessUsage::involuntary_switches);
  count(&wire::ProcessUsage::children_user_ns);
  count(&wire::ProcessUsage::children_system_ns);
  if (now.usage_has_io == wire::kIoNotTold) return;
  count(&wire::ProcessUsage::read_bytes);
  count(&wire::ProcessUsage::write_bytes);
  segment->usage.usage_has_io = now.usage_has_io;
}

}  // namespace

// What the parent does with the signal is inherited, until the program changes it for its own children.
void begin_usage() noexcept {
  std::uint64_t action[4] = {};  // handler and flags come first
  constexpr std::size_t kMaskBytes = 8;
  g_parent_does_not_wait = raw_syscall(SYS_rt_sigaction, SIGCHLD, nullptr, action, kMaskBytes) == 0 &&
                           (action[0] == reinterpret_cast<std::uintptr_t>(SIG_IGN) ||
                            (action[1] & static_cast<std::uint64_t>(SA_NOCLDWAIT)) != 0);
}

bool may_leave_io_to_parent(const wire::SegmentHeader& segment) noexcept {
  return segment.forked != 0 && !g_parent_does_not_wait;
}

void count_usage_from_now() noexcept {
  g_before = {};
  read_usage(g_before, true);
}

void refresh_usage(wire::SegmentHeader* segment) noexcept { write_usage(segment, true); }

void refresh_usage_at_end(wire::SegmentHeader* segment) noexcept {
  write_usage(segment, !parent_gets_io(*segment));
}

}  // namespace clusterprof::agent
