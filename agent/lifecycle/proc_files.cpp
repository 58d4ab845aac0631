// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/proc_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <cstring>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {

std::uint32_t read_small_file(const char* path, char* buffer, std::uint32_t capacity) noexcept {
  buffer[0] = 0;
  const long descriptor = raw_syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (descriptor < 0) return 0;
  std::uint32_t used = 0;
  while (used + 1 < capacity) {
    const long bytes = raw_syscall(SYS_read, descriptor, buffer + used, capacity - 1 - used);
    if (bytes <= 0) break;
    used += static_cast<std::uint32_t>(bytes);
  }
  raw_syscall(SYS_close, descriptor);
  buffer[used] = 0;
  return used;
}

bool parse_schedule(const char* schedstat, Schedule& schedule) noexcept {
  // Time on a processor, time in wait of one, and how often it got one: never 0 where that is counted.
  char* end = nullptr;
  strtoull(schedstat, &end, 10);
  const std::uint64_t waited_ns = strtoull(end, &end, 10);
  const std::uint64_t runs = strtoull(end, nullptr, 10);
  if (runs == 0) return false;
  schedule = {waited_ns, runs};
  return true;
}

void task_file(std::int32_t tid, const char* name, char (&path)[64]) noexcept {
  constexpr char kTasks[] = "/proc/self/task/";
  memcpy(path, kTasks, sizeof kTasks);
  char* to = path + sizeof kTasks - 1;
  char digits[12];
  std::uint32_t count = 0;
  for (auto rest = static_cast<std::uint32_t>(tid); rest != 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count != 0) *to++ = digits[--count];
  memcpy(to, name, strnlen(name, 16) + 1);
}

void descriptor_file(std::int32_t tid, std::uint32_t descriptor, char (&path)[64]) noexcept {
  char name[16] = "/fd/", digits[12];
  std::uint32_t length = 4, count = 0;
  do digits[count++] = static_cast<char>('0' + descriptor % 10);
  while ((descriptor /= 10) != 0);
  while (count != 0) name[length++] = digits[--count];
  task_file(tid, name, path);
}

bool is_stream(const struct stat& file) noexcept {
  if (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode)) return true;
  constexpr unsigned kTerminal = 4, kOtherTerminal = 5, kPseudoFirst = 136, kPseudoLast = 143;
  if (!S_ISCHR(file.st_mode)) return false;
  const unsigned device = major(file.st_rdev);
  return device == kTerminal || device == kOtherTerminal || (device >= kPseudoFirst && device <= kPseudoLast);
}

}  // namespace clusterprof::agent
