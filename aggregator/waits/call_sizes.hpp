// SPDX-License-Identifier: BSD-3-Clause
// How many operations calls complete. A sample of events is one of operations: of an MPI_Waitall it may have
// the send, which waited for nothing, and not the receive, which did. Where all events are known for a while,
// they tell how many a call at each call site has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace clusterprof::aggregator::waits {

class CallSizes {
 public:
  // A call of which all events are known, or nearly all: requests that were begun before may have none.
  // rank, path: rows of the merged tables.
  void add(std::uint32_t rank, std::uint32_t path, std::uint32_t events);
  // Nine of ten calls at the call site have as many events, or more; 0: not known.
  [[nodiscard]] std::uint32_t of_most(std::uint32_t rank, std::uint32_t path) const;

 private:
  static constexpr std::size_t kMostSizes = 32;  // of one call site; calls of further sizes are left out
  struct Counted {
    std::uint32_t events = 0;
    std::uint64_t calls = 0;
  };
  static std::uint64_t key(std::uint32_t rank, std::uint32_t path) {
    return std::uint64_t{rank} << 32 | path;
  }
  std::unordered_map<std::uint64_t, std::vector<Counted>> sites_;
};

}  // namespace clusterprof::aggregator::waits
