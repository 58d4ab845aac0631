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

#include "collector/os/os_facts.hpp"

namespace clusterprof::collector {

// numa_nodes: of the processors of the process, "0-1"; empty: not known, or the machine has only one memory
// node. root: "", or where another machine's /proc is. No value: it is gone, or may not be looked at.
[[nodiscard]] std::optional<ProcessMemory> read_process_memory(pid_t pid, const std::string& numa_nodes,
                                                               const std::string& root = {});

// When to look at which process: soon after its start, and then so that looking takes at most 0.1 % of its
// time, and 1 % of the collector's for all of them.
class MemoryLookTimes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kFirst{1}, kApart{10};
  static constexpr int kShare = 1000, kShareOfAll = 100;

  // The first question about a process is when it is seen first.
  [[nodiscard]] bool is_due(std::uint64_t process, Clock::time_point now) {
    const auto [due, added] = due_.try_emplace(process, now + kFirst);
    return now >= due->second && now >= any_due_;
  }
  void looked(std::uint64_t process, Clock::time_point now, Clock::duration took) {
    due_[process] = now + std::max<Clock::duration>(kApart, took * kShare);
    any_due_ = now + took * kShareOfAll;
  }
  void forget(std::uint64_t process) { due_.erase(process); }

 private:
  std::map<std::uint64_t, Clock::time_point> due_;
  Clock::time_point any_due_{};
};

}  // namespace clusterprof::collector
