// SPDX-License-Identifier: BSD-3-Clause
// How near the job is to its memory limit (control groups, versions 1 and 2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

struct MemoryUse {
  std::uint64_t used_bytes = 0, limit_bytes = 0;
  [[nodiscard]] double share() const {
    return limit_bytes == 0 ? 0 : static_cast<double>(used_bytes) / static_cast<double>(limit_bytes);
  }
};

// Memory of this process that it does not share with others.
[[nodiscard]] std::uint64_t own_memory_bytes();

class MemoryLimit {
 public:
  // membership: /proc/self/cgroup. root: where the control groups are mounted.
  // machine: /proc/vmstat.
  explicit MemoryLimit(const std::string& membership, const std::filesystem::path& root = "/sys/fs/cgroup",
                       std::filesystem::path machine = "/proc/vmstat");

  // Of the group that is nearest to its limit. What the kernel can drop at once does not count as used:
  // files, also those in use, that are written and not locked in memory. nullopt: there is no limit.
  [[nodiscard]] std::optional<MemoryUse> look() const;

  // What can be taken before the kernel kills a process: of the group with the least. Files do not count as
  // used, also those that the kernel has to write first. nullopt: there is no limit.
  [[nodiscard]] std::optional<std::uint64_t> left_bytes() const;

  // At least the share() that look() would find, and much cheaper: what could be dropped counts as used. To
  // tell that, the kernel adds up counters of all processors, and page faults of the job wait.
  [[nodiscard]] double most_used_share() const;

  // More about the group that was nearest to its limit at a look. limit_bytes 0: none has a limit.
  [[nodiscard]] const shard::GroupMemory& follow();

  // Processes that the kernel has killed since this was made because memory was short: of the control groups
  // that tell, else of the machine.
  [[nodiscard]] std::uint64_t kills() const;

 private:
  struct Group {
    std::filesystem::path directory;
    const char* limit;
    const char* used;
    bool is_v2;
  };
  struct Nearest {
    const Group* group = nullptr;  // null: no group has a limit
    MemoryUse use;
    std::uint64_t counted_bytes = 0;  // with what could be dropped
    std::uint64_t file_bytes = 0;     // of these
    std::string parts;                // memory.stat
  };
  [[nodiscard]] static std::optional<Nearest> read(const Group& group);
  [[nodiscard]] Nearest nearest() const;
  [[nodiscard]] std::uint64_t all_kills() const;

  std::vector<Group> groups_;                       // those with a limit
  std::vector<std::filesystem::path> kill_counts_;  // files with a line "oom_kill NUMBER"
  std::filesystem::path machine_;
  std::uint64_t kills_before_ = 0;
  shard::GroupMemory followed_;
  std::uint64_t fullest_bytes_ = 0;  // at a look
};

}  // namespace clusterprof::collector
