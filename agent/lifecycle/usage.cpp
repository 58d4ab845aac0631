// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/usage.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <cstring>

#include "agent/lifecycle/proc_files.h"
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

void read_usage(wire::ProcessUsage& usage) noexcept {
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
  char text[512];
  if (read_small_file("/proc/self/io", text, sizeof text) != 0) {
    usage.usage_has_io =
        field(text, "rchar: ", usage.read_bytes) && field(text, "wchar: ", usage.write_bytes);
  }
}

}  // namespace

void count_usage_from_now() noexcept {
  g_before = {};
  read_usage(g_before);
}

void refresh_usage(wire::SegmentHeader* segment) noexcept {
  wire::ProcessUsage now = {};
  read_usage(now);
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
  if (now.usage_has_io == 0) return;
  count(&wire::ProcessUsage::read_bytes);
  count(&wire::ProcessUsage::write_bytes);
  segment->usage.usage_has_io = 1;
}

}  // namespace clusterprof::agent
