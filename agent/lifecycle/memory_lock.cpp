// SPDX-License-Identifier: BSD-3-Clause
// Keeps the agent's memory from being locked when the program locks all of its memory (mlockall). The agent
// has about 290 MB of addresses, nearly all of them never used. They would count against the program's
// RLIMIT_MEMLOCK and, once locked, take up as much memory. They are left out, so that locking succeeds and
// costs the same as without the agent.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/discovery/generated_code.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/process.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

struct Range {
  std::uint64_t begin, end;
};

// Calls `use` with each range of our memory.
template <typename Use>
void for_each_own(Use use) noexcept {
  const auto give = [&](const void* memory, std::uint64_t bytes) {
    const auto begin = reinterpret_cast<std::uint64_t>(memory);
    if (memory != nullptr) use(Range{begin, begin + bytes});
  };
  const wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment != nullptr) give(segment, segment->segment_bytes);
  give(path_table_memory(), path_table_bytes());
  give(generated_code_memory(), generated_code_memory_bytes());
  give(g_process.records, sizeof(ThreadRecord) * g_process.record_count);
  // All slots: the child of a fork still has the memory of its parent's threads.
  for (std::uint32_t i = 0; g_process.records != nullptr && i < g_process.record_count; ++i)
    give(g_process.records[i].memory, g_process.records[i].memory_bytes);
}

bool parse_hex(const char*& text, std::uint64_t& value) noexcept {
  const char* const begin = text;
  value = 0;
  for (;; ++text) {
    const char digit = *text;
    if (digit >= '0' && digit <= '9') {
      value = value * 16 + static_cast<std::uint64_t>(digit - '0');
    } else if (digit >= 'a' && digit <= 'f') {
      value = value * 16 + static_cast<std::uint64_t>(digit - 'a' + 10);
    } else {
      return text != begin;
    }
  }
}

// Calls `use` with each mapping of the process, given by its line in /proc/self/maps. False if the file
// cannot be read.
template <typename Use>
bool for_each_mapping(Use use) noexcept {
  const long file = raw_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return false;
  char text[4096 + 512];
  std::size_t held = 0;
  bool good = true;
  for (;;) {
    const long got = raw_syscall(SYS_read, file, text + held, sizeof text - 1 - held);
    if (got <= 0) {
      good = got == 0;
      break;
    }
    held += static_cast<std::size_t>(got);
    std::size_t line = 0;
    while (void* const found = memchr(text + line, '\n', held - line)) {
      auto* const end = static_cast<char*>(found);
      *end = 0;
      const char* at = text + line;
      Range range;
      if (parse_hex(at, range.begin) && *at++ == '-' && parse_hex(at, range.end)) use(range, text + line);
      line = static_cast<std::size_t>(end - text) + 1;
    }
    if (line == 0 && held == sizeof text - 1) {  // a line longer than any path
      good = false;
      break;
    }
    memmove(text, text + line, held - line);
    held -= line;
  }
  raw_syscall(SYS_close, file);
  return good;
}

// Calls `use` with the parts of `whole` that are not our memory. The kernel shows adjacent mappings as one.
template <typename Use>
void for_each_part_of_program(Range whole, Use use) noexcept {
  while (whole.begin < whole.end) {
    Range next = {whole.end, whole.end};  // the first of ours that begins in it
    for_each_own([&](Range own) {
      own.end = (own.end + 4095) & ~std::uint64_t{4095};
      if (own.end > whole.begin && own.begin < next.begin) next = own;
    });
    if (next.begin > whole.begin) use(Range{whole.begin, next.begin});
    whole.begin = next.end;
  }
}

bool is_of_program(const char* line) noexcept {
  return strstr(line, "/libclusterprof_") == nullptr && strstr(line, "[vsyscall]") == nullptr;
}

std::uint64_t bytes_of_program() noexcept {
  std::uint64_t bytes = 0;
  const bool complete = for_each_mapping([&](Range mapping, const char* line) {
    if (!is_of_program(line)) return;
    for_each_part_of_program(mapping, [&](Range part) { bytes += part.end - part.begin; });
  });
  return complete ? bytes : ~std::uint64_t{0};
}

void unlock_own() noexcept {
  for_each_own([](Range own) { raw_syscall(SYS_munlock, own.begin, own.end - own.begin); });
}

// As in the kernel, what is not there or cannot be locked is skipped.
void lock_program(bool on_fault) noexcept {
  for_each_mapping([&](Range mapping, const char* line) {
    if (!is_of_program(line)) return;
    for_each_part_of_program(mapping, [&](Range part) {
      raw_syscall(SYS_mlock2, part.begin, part.end - part.begin, on_fault ? MLOCK_ONFAULT : 0);
    });
  });
}

long lock_all(int flags) noexcept {
  const bool now = (flags & MCL_CURRENT) != 0, on_fault = (flags & MCL_ONFAULT) != 0;
  if (!now) return raw_syscall(SYS_mlockall, flags);
  // At first, bring nothing into memory.
  const long result = raw_syscall(SYS_mlockall, flags | MCL_ONFAULT);
  if (result == -EINVAL && !on_fault) return raw_syscall(SYS_mlockall, flags);  // Linux before 4.4
  if (result == 0) {
    unlock_own();
    if (on_fault) return 0;
    lock_program(false);
    return (flags & MCL_FUTURE) != 0 ? raw_syscall(SYS_mlockall, MCL_FUTURE) : 0;
  }
  rlimit limit;
  if (result != -ENOMEM || raw_syscall(SYS_getrlimit, RLIMIT_MEMLOCK, &limit) != 0 ||
      bytes_of_program() > limit.rlim_cur)
    return result;
  // The program fits.
  if ((flags & MCL_FUTURE) != 0) {
    const long future = raw_syscall(SYS_mlockall, flags & ~MCL_CURRENT);
    if (future != 0) return future;
  } else if (new_memory_is_locked()) {
    raw_syscall(SYS_munlockall);
  }
  lock_program(on_fault);
  return 0;
}

}  // namespace
}  // namespace clusterprof::agent

extern "C" [[gnu::visibility("default")]] int mlockall(int flags) noexcept {
  using namespace clusterprof::agent;
  const bool ours =
      g_process.records != nullptr || g_process.segment.load(std::memory_order_acquire) != nullptr;
  const long result = ours ? lock_all(flags) : raw_syscall(SYS_mlockall, flags);
  if (result != 0) {
    errno = static_cast<int>(-result);
    return -1;
  }
  set_new_memory_locked((flags & MCL_FUTURE) != 0);
  return 0;
}
