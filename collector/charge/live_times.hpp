// SPDX-License-Identifier: BSD-3-Clause
// Time of the node's call paths while somebody watches the run, all processes together: the rows of
// shard::LiveTime, for paths that are still raw. Only the thread that polls the processes may call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collector/charge/amounts.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class LiveTimes {
 public:
  // If there are more, paths are charged without their callers.
  static constexpr std::size_t kMaxRows = 1u << 13;
  // Looks after which a row without new time ends. Whoever compares two states of the node must not compare
  // states that are further apart.
  static constexpr std::uint64_t kLooksWithoutTime = 16;

  explicit LiveTimes(RawStore& store) : store_(store) {}

  // Begins a look: what was open at the one before is so no more.
  void begin_look();
  // Time that was charged since the last look.
  void add(std::uint32_t path, shard::Category category, std::uint64_t ns);
  // Time since the thread's last sample, which may yet be charged to another path.
  void add_open(std::uint32_t path, shard::Category category, std::uint64_t ns);

  struct Row {
    std::uint32_t path = 0;
    shard::Category category = shard::Category::kNative;
    std::uint64_t wall_ns = 0;
  };
  [[nodiscard]] std::vector<Row> rows() const;

 private:
  struct Sum {
    std::uint64_t charged_ns = 0, open_ns = 0;
    std::uint64_t look = 0;  // at which it had new time
  };
  Sum& sum_of(std::uint32_t path, shard::Category category);

  RawStore& store_;
  std::uint64_t look_ = 0;
  std::unordered_map<RawValueKey, Sum, RawKeyHash> sums_;
};

}  // namespace clusterprof::collector
