// SPDX-License-Identifier: BSD-3-Clause
// What the kernel tells about the machine: its hardware, and how it is used. Containers may hide any of it;
// what cannot be read is 0 or empty.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/os/os_facts.hpp"

namespace clusterprof::collector {

// Sorted numbers as text, "0-3,8", and back. Parsing stops at the first character that does not fit.
[[nodiscard]] std::string number_list(const std::vector<std::uint32_t>& numbers);
[[nodiscard]] std::vector<std::uint32_t> parse_number_list(std::string_view text);

// True for whole disks such as "sda" and "nvme0n1", false for partitions and for devices made of others.
[[nodiscard]] bool is_whole_disk(std::string_view name);

class Machine {
 public:
  // `root`: "", or the directory that another machine's /proc and /sys are in, without a slash at the end.
  explicit Machine(std::string root = {});

  [[nodiscard]] const NodeFacts& facts() const noexcept { return facts_; }
  // The memory nodes of these processors, "0-1".
  [[nodiscard]] std::string numa_nodes_of(const std::vector<std::uint32_t>& cpus) const;
  // Since the machine was started, or now.
  [[nodiscard]] NodeUsage usage();
  // The memory that a process takes, and where its main thread may run. Costs some microseconds.
  [[nodiscard]] ProcessLook look_at(pid_t pid) const;

 private:
  [[nodiscard]] bool is_real_interface(const std::string& name);

  std::string root_;
  NodeFacts facts_;
  std::vector<std::vector<std::uint32_t>> cpus_of_numa_node_;
  std::vector<std::uint32_t> numa_nodes_;  // their numbers, in the same order
  // Of network interfaces: those with hardware behind them, if there are any; a bond or bridge carries again
  // what these do.
  std::vector<std::pair<std::string, bool>> interfaces_;
};

}  // namespace clusterprof::collector
