// SPDX-License-Identifier: BSD-3-Clause
// What the kernel tells about processes that are not our children.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "collector/os/os_facts.hpp"

namespace clusterprof::collector {

// A file of /proc or /sys, or the first 1 MiB of it.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

// CLOCK_MONOTONIC and CLOCK_REALTIME.
[[nodiscard]] Instant instant_now();

// A descriptor for the process at the other end of a Unix socket, whose pid is 0 when it is of another PID
// namespace, or for `pid`. Invalid when the process is gone already or the kernel has none (before Linux 5.3;
// of other PID namespaces before 6.5).
[[nodiscard]] UniqueFd open_peer_process(int socket, pid_t pid);
[[nodiscard]] UniqueFd open_process(pid_t pid);

// Whether a descriptor that was received is one of a process (Linux 5.4 on).
[[nodiscard]] bool is_process(int fd);

// What no other process has had since the machine started; none before Linux 6.9.
[[nodiscard]] std::optional<std::uint64_t> process_number(int pidfd);

// Whether the other end of a connection has been closed, with nothing left to be read.
[[nodiscard]] bool is_closed(int socket);

// True when the process behind the descriptor has ended.
[[nodiscard]] bool process_ended(int pidfd);

// How a process that ended did so, as a wait status: from the descriptor (Linux 6.15 on, when it was
// waited for), or from /proc while it is still a zombie.
[[nodiscard]] std::optional<int> exit_wait_status(int pidfd, pid_t pid);

// From /proc; works for a zombie (times and faults only). No value when the process is gone.
[[nodiscard]] std::optional<SystemUsage> read_usage(pid_t pid);

}  // namespace clusterprof::collector
