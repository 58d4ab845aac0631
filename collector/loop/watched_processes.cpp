// SPDX-License-Identifier: BSD-3-Clause
#include "collector/loop/watched_processes.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "collector/os/os_process.hpp"

namespace clusterprof::collector {
namespace {

// Whether `process`, which goes by the same alias as the process of a new connection, is that process.
bool is_same(const WatchedProcess& process, const UniqueFd& pidfd,
             const std::function<bool(NodeState::ProcessId)>& is_connected) {
  if (process.pidfd() >= 0 && pidfd) {
    if (const auto number = process_number(process.pidfd())) return number == process_number(pidfd.get());
  }
  // Two PID namespaces within a rank may use the same pid. A process that execs closes its connection before
  // the new program opens another.
  return !is_connected(process.id);
}

}  // namespace

int WatchedProcess::pidfd() const {
  // native_handle() is not const, but changes nothing.
  return ended.is_open() ? const_cast<boost::asio::posix::stream_descriptor&>(ended).native_handle() : -1;
}

bool WatchedProcess::has_ended() const {
  if (const int fd = pidfd(); fd >= 0) return process_ended(fd);
  return pid != 0 && collector::has_ended(pid, start_ticks);
}

void WatchedProcess::send(int signal) const {
  if (const int fd = pidfd(); fd >= 0) {
    (void)syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
  } else if (pid != 0 && start_ticks != 0 && process_start_ticks(pid) == start_ticks) {
    (void)kill(pid, signal);
  }
}

bool WatchedProcess::is_reused(const UniqueFd& pidfd) const {
  return has_ended() && pidfd && !process_ended(pidfd.get());
}

std::optional<NodeState::ProcessId> WatchedProcess::known_id() const {
  return id != 0 ? std::optional(id) : std::nullopt;
}

WatchedProcess* WatchedProcesses::find(NodeState::ProcessId id) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const WatchedProcess& process) { return process.id == id; });
  return found != processes_.end() ? &*found : nullptr;
}

WatchedProcess* WatchedProcesses::find_pid(pid_t pid) {
  const auto found = by_pid_.find(pid);
  return found != by_pid_.end() ? &*found->second : nullptr;
}

WatchedProcess* WatchedProcesses::find_peer(pid_t pid, const ProcessAlias& alias, const UniqueFd& pidfd,
                                            const std::function<bool(NodeState::ProcessId)>& is_connected) {
  if (pid != 0) return find_pid(pid);
  for (WatchedProcess& process : processes_)
    if (process.pid == 0 && process.alias == alias && !process.is_reused(pidfd) &&
        is_same(process, pidfd, is_connected))
      return &process;
  return nullptr;
}

WatchedProcess& WatchedProcesses::add(pid_t pid, const ProcessAlias& alias, UniqueFd pidfd) {
  const auto added = processes_.emplace(processes_.end(), io_);
  added->pid = pid;
  added->alias = alias;
  if (pid != 0) by_pid_[pid] = added;
  if (pidfd)
    added->ended.assign(pidfd.release());
  else if (pid != 0)
    added->start_ticks = process_start_ticks(pid);
  return *added;
}

void WatchedProcesses::remove(NodeState::ProcessId id) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const WatchedProcess& process) { return process.id == id; });
  if (found == processes_.end()) return;
  if (const auto known = by_pid_.find(found->pid); known != by_pid_.end() && known->second == found)
    by_pid_.erase(known);
  processes_.erase(found);
}

}  // namespace clusterprof::collector
