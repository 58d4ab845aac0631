// SPDX-License-Identifier: BSD-3-Clause
// Has the kernel add up what single processes have in memory (os/process_memory.hpp). For a large process
// that may take seconds, so a thread of its own waits for it, and the rings are read meanwhile. One process
// at a time.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "collector/os/os_facts.hpp"

namespace clusterprof::collector {

class PageWatch {
 public:
  using Clock = std::chrono::steady_clock;
  // On the thread. numa_nodes: as for read_process_memory.
  using Read = std::function<std::optional<ProcessMemory>(pid_t pid, const std::string& numa_nodes)>;
  // In the event loop. No memory: it could not be read.
  using Done = std::function<void(std::uint64_t process, const std::optional<ProcessMemory>& memory,
                                  Clock::duration took)>;

  PageWatch(boost::asio::io_context& io, Read read, Done done);
  // Does not wait for a look that is under way; nothing is told of it.
  ~PageWatch();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;

  [[nodiscard]] bool is_busy() const { return is_busy_; }
  // False if there is no thread to be had. Not while it is busy.
  bool look(std::uint64_t process, pid_t pid, std::string numa_nodes);

 private:
  struct Shared;  // with the thread

  boost::asio::io_context& io_;
  const Done done_;
  std::shared_ptr<Shared> shared_;
  bool is_busy_ = false, has_thread_ = false;
};

}  // namespace clusterprof::collector
