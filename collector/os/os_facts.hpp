// SPDX-License-Identifier: BSD-3-Clause
// What the operating system tells about processes and the machine: plain data, read by os_process.hpp and
// os_node.hpp. 0 or empty: not known.
#pragma once

#include <cstdint>
#include <string>

namespace clusterprof::collector {

// The same instant on both clocks, as nearly as they can be read.
struct Instant {
  std::uint64_t mono_ns = 0;
  std::int64_t utc_ns = 0;
};

// What the operating system says about a process; see read_usage() in os_process.hpp.
struct SystemUsage {
  std::uint64_t user_ns = 0, system_ns = 0, max_rss_bytes = 0;
  std::uint64_t minor_faults = 0, major_faults = 0, voluntary_switches = 0, involuntary_switches = 0;
  std::uint64_t read_bytes = 0, write_bytes = 0;
  bool has_io = false;
  bool has_rss = false;  // and switches
};

// What can be learned about a living process at little cost. 0 or empty: not known.
struct ProcessLook {
  std::uint64_t rss_bytes = 0;
  std::string affinity;          // of its main thread, "0-3,8"
  std::string numa_nodes;        // of these processors
  std::uint64_t anon_bytes = 0;  // of rss_bytes: neither of files nor shared
};

// What the kernel says about the memory of a process, or of several together.
struct ProcessMemory {
  std::uint64_t pss_bytes = 0;  // pages that n processes have count for 1/n
  std::uint64_t private_dirty_bytes = 0, huge_bytes = 0, swap_bytes = 0;
  std::uint64_t near_bytes = 0, far_bytes = 0;  // on the memory nodes of its processors, and on others
};

// shard::Node
struct NodeFacts {
  std::uint32_t cpus = 0, numa_nodes = 0;
  std::uint64_t memory_bytes = 0, cache_bytes = 0;
  std::string cpu_model;
};

// What the machine has done since it was started, and how much memory is in use.
struct NodeUsage {
  std::uint64_t cpu_busy_ns = 0, memory_used_bytes = 0;
  std::uint64_t network_received_bytes = 0, network_sent_bytes = 0;
  std::uint64_t disk_read_bytes = 0, disk_written_bytes = 0;
};

}  // namespace clusterprof::collector
