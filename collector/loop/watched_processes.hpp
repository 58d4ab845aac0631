// SPDX-License-Identifier: BSD-3-Clause
// The processes whose end the collector waits for: ranks, and their helpers that have an agent.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>

#include "base/unique_fd.hpp"
#include "collector/node/node_state.hpp"

namespace clusterprof::collector {

// What a process in another PID namespace calls itself. Such a process has no pid here.
struct ProcessAlias {
  pid_t pid = 0;
  std::int32_t rank = -1;
  friend bool operator==(const ProcessAlias&, const ProcessAlias&) = default;
};

struct WatchedProcess {
  explicit WatchedProcess(boost::asio::io_context& io) : ended(io) {}

  // A pidfd, which becomes readable when the process ends. Not open if the kernel has no pidfds: then the pid
  // tells, or, without a pid, the end of its agent's connection.
  boost::asio::posix::stream_descriptor ended;
  NodeState::ProcessId id = 0;  // 0: NodeState does not know it yet
  pid_t pid = 0;                // 0: in another PID namespace
  ProcessAlias alias;
  bool announced = false;
  bool waited_for = false;
  std::uint64_t start_ticks = 0;  // as process_start_ticks(); where there is no pidfd

  [[nodiscard]] int pidfd() const;  // -1: none
  [[nodiscard]] bool has_ended() const;
  // Sends a signal to this process, and to no other one that has its pid meanwhile.
  void send(int signal) const;
  // The pid was given to a new process, which `pidfd` stands for, after this one had ended.
  [[nodiscard]] bool is_reused(const UniqueFd& pidfd) const;
  [[nodiscard]] std::optional<NodeState::ProcessId> known_id() const;
  [[nodiscard]] pid_t shown_pid() const { return pid != 0 ? pid : alias.pid; }
};

class WatchedProcesses {
 public:
  using List = std::list<WatchedProcess>;

  explicit WatchedProcesses(boost::asio::io_context& io) : io_(io) {}

  [[nodiscard]] WatchedProcess* find(NodeState::ProcessId id);
  [[nodiscard]] WatchedProcess* find_pid(pid_t pid);
  // The process behind a new connection, which is known by `pid`, or by `alias` if pid is 0. Null if it is
  // not watched yet. `pidfd`: of that process, may be invalid. `is_connected`: whether a process's agent
  // still has a connection. With a pid, the result may be a process whose pid has been reused.
  [[nodiscard]] WatchedProcess* find_peer(pid_t pid, const ProcessAlias& alias, const UniqueFd& pidfd,
                                          const std::function<bool(NodeState::ProcessId)>& is_connected);

  WatchedProcess& add(pid_t pid, const ProcessAlias& alias, UniqueFd pidfd);
  void remove(NodeState::ProcessId id);

  [[nodiscard]] List::const_iterator begin() const { return processes_.begin(); }
  [[nodiscard]] List::const_iterator end() const { return processes_.end(); }

 private:
  boost::asio::io_context& io_;
  List processes_;
  std::map<pid_t, List::iterator> by_pid_;
};

}  // namespace clusterprof::collector
