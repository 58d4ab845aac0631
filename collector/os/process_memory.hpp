// SPDX-License-Identifier: BSD-3-Clause
// What the kernel says about the memory of single processes, with --memory. To tell, it goes through all of a
// process's pages, and holds the lock of its mappings meanwhile: the process cannot map or unmap memory then.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "collector/os/os_facts.hpp"

namespace clusterprof::collector {

// numa_nodes: of the processors of the process, "0-1"; empty: not known, or the machine has only one memory
// node. root: "", or where another machine's /proc is. No value: it is gone, or may not be looked at.
[[nodiscard]] std::optional<ProcessMemory> read_process_memory(pid_t pid, const std::string& numa_nodes,
                                                               const std::string& root = {});

// Whether the kernel of that release (uname) lets a process go on that waits for the lock: since Linux 5.10.
// In numa_maps it does not.
[[nodiscard]] bool lock_is_given_up(std::string_view release);

// When to look at which process: soon after its start, and then so that looking takes at most 0.1 % of its
// time, and 1 % of the collector's for all of them. Those that wait longest come first.
class MemoryLookTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirst{1}, kApart{10};
  static constexpr int kShare = 1000, kShareOfAll = 100;
  // What would take longer, as far as it can be told, is left out, where the process may have to wait for it:
  // on all nodes there are many, each of which can hold up the others.
  static constexpr std::chrono::milliseconds kLongest{100}, kLongestWithNodes{50};
  // Unless a look at the process has shown more: of pages of 4 KiB, on a slow machine.
  static constexpr double kBytesPerNs = 50;

  explicit MemoryLookTimes(bool lock_is_given_up) : lock_is_given_up_(lock_is_given_up) {}

  // The process runs, and has that much memory.
  void see(std::uint64_t process, Clock::time_point now, std::uint64_t rss_bytes);
  struct Due {
    std::uint64_t process;
    bool with_nodes;  // also at where its memory is
  };
  [[nodiscard]] std::optional<Due> due(Clock::time_point now) const;
  void looked(std::uint64_t process, Clock::time_point now, Clock::duration took);
  void forget(std::uint64_t process) { processes_.erase(process); }

 private:
  struct Process {
    Clock::time_point due;
    std::uint64_t rss_bytes = 0;
    double bytes_per_ns = kBytesPerNs;

    [[nodiscard]] Clock::duration expected() const;
  };

  const bool lock_is_given_up_;
  std::map<std::uint64_t, Process> processes_;
  Clock::time_point any_due_{};
};

}  // namespace clusterprof::collector
