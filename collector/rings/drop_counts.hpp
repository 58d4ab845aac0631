// SPDX-License-Identifier: BSD-3-Clause
// Counts by reason what a process wrote and the collector did not use: it was damaged, or there was no room
// for it. All stages that read a process's shared memory use the same object. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace clusterprof::collector {

class DropCounts {
 public:
  // `reason`: one that report/words/drops.cpp explains.
  void add(const char* reason, std::uint64_t count = 1) { counts_[reason] += count; }
  [[nodiscard]] const std::map<std::string, std::uint64_t>& counts() const noexcept { return counts_; }

 private:
  std::map<std::string, std::uint64_t> counts_;
};

}  // namespace clusterprof::collector
