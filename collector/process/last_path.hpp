// SPDX-License-Identifier: BSD-3-Clause
// Where the main thread of a process was last, for ranks that failed or were lost. Paths are nodes of the
// RawStore; times are of the monotonic clock. Only the thread that polls the process may call this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "collector/mpi/mpi_amounts.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class LastPath {
 public:
  // A sample of the main thread: its frame words (wire::SampleRecord) and the path that they stand for.
  void note(std::span<const std::uint64_t> words, std::uint32_t path, std::uint64_t time_ns);

  // The last path: the call in `calls_under_way` that began after the last sample, or that sample. For a
  // Python process that ended by itself: what the program did last, not what the interpreter did after it.
  [[nodiscard]] std::optional<std::uint32_t> find(const std::vector<RawCallUnderWay>& calls_under_way,
                                                  bool ended_by_itself, const StackResolver& stacks) const;

 private:
  struct Seen {
    std::uint32_t path = 0;
    std::uint64_t time_ns = 0;
  };
  std::optional<Seen> last_;
  // The last sample below each outermost Python frame, by its code: what runs when the interpreter ends is
  // below no module.
  std::unordered_map<std::uint64_t, Seen> last_below_;
};

}  // namespace clusterprof::collector
