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

// The content of a file in /proc or /sys, at most 1 MiB of it.
[[nodiscard]] std::optional<std::string> read_text(const std::string& path);

// CLOCK_MONOTONIC and CLOCK_REALTIME.
[[nodiscard]] Instant instant_now();

// A pidfd for the process at the other end of a Unix socket (`pid` is 0 if it is in another PID namespace),
// or for `pid`. Invalid if the process is gone, or if the kernel has no pidfds (before Linux 5.3; for other
// PID namespaces before 6.5).
[[nodiscard]] UniqueFd open_peer_process(int socket, pid_t pid);
[[nodiscard]] UniqueFd open_process(pid_t pid);

// Whether a received descriptor is a pidfd (from Linux 5.4 on).
[[nodiscard]] bool is_process(int fd);

// A number that no other process has had since the machine was started. No value before Linux 6.9.
[[nodiscard]] std::optional<std::uint64_t> process_number(int pidfd);

// Whether the other end of a connection has been closed, with nothing left to be read.
[[nodiscard]] bool is_closed(int socket);

// True when the process behind the descriptor has ended.
[[nodiscard]] bool process_ended(int pidfd);

// The wait status of a process that has ended, as the kernel keeps it behind the pidfd from Linux 6.15 on,
// once the parent has waited for the process.
[[nodiscard]] std::optional<int> kept_wait_status(int pidfd);

// The same, or from /proc while it is a zombie.
[[nodiscard]] std::optional<int> exit_wait_status(int pidfd, pid_t pid);

// When the process with this pid started, in ticks of the kernel's clock: tells it from another one that gets
// its pid later. 0: not known.
[[nodiscard]] std::uint64_t process_start_ticks(pid_t pid);

// Whether the process that had this pid and started then has ended, for kernels without pidfds: the pid may
// be another one's, or nobody may have waited for the process yet. start_ticks: as above.
[[nodiscard]] bool has_ended(pid_t pid, std::uint64_t start_ticks);

// Where the kernel has put the arguments of the program that the process executes. It says so without waiting
// for anything. 0: not known, as of a process with privileges, or while it begins a program.
[[nodiscard]] std::uint64_t initial_stack(pid_t pid);

// Reads /proc. For a zombie, only times and faults are known. No value: the process is gone.
[[nodiscard]] std::optional<SystemUsage> read_usage(pid_t pid);

}  // namespace clusterprof::collector
