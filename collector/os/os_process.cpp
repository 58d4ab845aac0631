// SPDX-License-Identifier: BSD-3-Clause
#include "collector/os/os_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/leading_number.hpp"
#include "base/stat_fields.hpp"

namespace clusterprof::collector {
namespace {

// <linux/pidfd.h> of Linux 6.13 and 6.15, which Debian 12 does not have.
struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup_id;
  std::uint32_t pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid;
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t kPidfdInfoExit = 1u << 3;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xff, 11, PidfdInfo);
constexpr int kSoPeerPidfd = 77;  // Linux 6.5

constexpr std::size_t kFirstField = 3;  // of those below, as proc(5) counts them
constexpr std::size_t kStartTime = 22 - kFirstField;

std::vector<std::string> stat_fields(pid_t pid) {
  return clusterprof::stat_fields(read_text(fmt::format("/proc/{}/stat", pid)).value_or(std::string()));
}

std::uint64_t number_after(const std::string& text, std::string_view label) {
  const std::size_t at = text.find(label);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + label.size(), nullptr, 10);
}

std::uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  constexpr std::size_t kMaxBytes = 1u << 20, kFirstBytes = 4096;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text(kFirstBytes, '\0');
  std::size_t used = 0;
  while (used < kMaxBytes) {
    if (used == text.size()) text.resize(2 * used);
    const ssize_t bytes = read(file.get(), text.data() + used, text.size() - used);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return std::nullopt;
    if (bytes == 0) break;
    used += static_cast<std::size_t>(bytes);
  }
  text.resize(used);
  return text;
}

Instant instant_now() {
  return {clock_ns(CLOCK_MONOTONIC), static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME))};
}

UniqueFd open_process(pid_t pid) {
  if (pid <= 0) return {};
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return {};
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

UniqueFd open_peer_process(int socket, pid_t pid) {
  // The descriptor refers to the process that connected. Its pid might belong to another process by now.
  int fd = -1;
  socklen_t bytes = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &bytes) == 0) {
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    return UniqueFd(fd);
  }
  return errno == ENOPROTOOPT ? open_process(pid) : UniqueFd();
}

bool is_process(int fd) {
  constexpr auto kProcessDescriptor = static_cast<idtype_t>(3);  // P_PIDFD
  siginfo_t none{};
  return fd >= 0 &&
         waitid(kProcessDescriptor, static_cast<id_t>(fd), &none, WEXITED | WNOHANG | WNOWAIT) < 0 &&
         errno == ECHILD;
}

std::optional<std::uint64_t> process_number(int pidfd) {
  constexpr decltype(statfs::f_type) kPidFileSystem = 0x50494446;
  struct statfs system {};
  struct stat file {};
  if (fstatfs(pidfd, &system) != 0 || system.f_type != kPidFileSystem || fstat(pidfd, &file) != 0)
    return std::nullopt;
  return file.st_ino;
}

bool is_closed(int socket) {
  char byte = 0;
  return recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool process_ended(int pidfd) {
  pollfd look{pidfd, POLLIN, 0};
  return poll(&look, 1, 0) == 1;
}

std::optional<int> kept_wait_status(int pidfd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

std::optional<int> exit_wait_status(int pidfd, pid_t pid) {
  // Between the parent's wait and the moment at which the kernel keeps the status the process is in state X:
  // it is neither a zombie nor gone. That takes microseconds, so the bound is only there against an endless
  // loop.
  constexpr int kMaxLooks = 100;
  for (int look = 0; look < kMaxLooks; ++look) {
    if (const auto status = kept_wait_status(pidfd)) return status;
    const auto fields = stat_fields(pid);
    // The pid must still be that of the same process: a zombie that no process has waited for since we
    // looked.
    if (fields.size() >= 50 && fields[0] == "Z") return leading_number(fields[49]);
    if (fields.empty()) break;
    usleep(100);
  }
  return kept_wait_status(pidfd);  // its parent waited for it in between
}

std::uint64_t process_start_ticks(pid_t pid) {
  const auto fields = stat_fields(pid);
  return fields.size() > kStartTime ? std::strtoull(fields[kStartTime].c_str(), nullptr, 10) : 0;
}

bool has_ended(pid_t pid, std::uint64_t start_ticks) {
  constexpr std::size_t kState = 0, kThreads = 20 - kFirstField;
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  const auto fields = stat_fields(pid);
  if (fields.size() <= kStartTime) return false;  // it ends just now, or we may open no more files
  if (start_ticks != 0 && std::strtoull(fields[kStartTime].c_str(), nullptr, 10) != start_ticks) return true;
  // The main thread may end before others do.
  const bool is_zombie = fields[kState] == "Z" || fields[kState] == "X";
  return is_zombie && std::strtoull(fields[kThreads].c_str(), nullptr, 10) <= 1;
}

std::uint64_t initial_stack(pid_t pid) {
  constexpr std::size_t kStartStack = 28 - kFirstField;
  const auto fields = stat_fields(pid);
  return fields.size() > kStartStack ? std::strtoull(fields[kStartStack].c_str(), nullptr, 10) : 0;
}

std::optional<SystemUsage> read_usage(pid_t pid) {
  const auto fields = stat_fields(pid);
  if (fields.size() < 13) return std::nullopt;
  static const std::uint64_t tick_ns = 1'000'000'000 / static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  SystemUsage usage;
  usage.minor_faults = std::strtoull(fields[7].c_str(), nullptr, 10);
  usage.major_faults = std::strtoull(fields[9].c_str(), nullptr, 10);
  usage.user_ns = std::strtoull(fields[11].c_str(), nullptr, 10) * tick_ns;
  usage.system_ns = std::strtoull(fields[12].c_str(), nullptr, 10) * tick_ns;
  if (const auto status = read_text(fmt::format("/proc/{}/status", pid));
      status && status->find("VmHWM:") != std::string::npos) {
    usage.has_rss = true;
    usage.max_rss_bytes = number_after(*status, "VmHWM:") * 1024;
    usage.voluntary_switches = number_after(*status, "\nvoluntary_ctxt_switches:");
    usage.involuntary_switches = number_after(*status, "\nnonvoluntary_ctxt_switches:");
  }
  if (const auto io = read_text(fmt::format("/proc/{}/io", pid)); io && !io->empty()) {
    usage.has_io = true;
    usage.read_bytes = number_after(*io, "rchar:");
    usage.write_bytes = number_after(*io, "wchar:");
  }
  return usage;
}

}  // namespace clusterprof::collector
