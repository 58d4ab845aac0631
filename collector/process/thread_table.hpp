// SPDX-License-Identifier: BSD-3-Clause
// The threads of a process, or of a rank: a row for each of the first ones, and then one for those that are
// alike, so that any number of threads takes bounded memory. Paths are nodes of the RawStore.
#pragma once

#include <cstddef>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::collector {

class ThreadTable {
 public:
  ThreadTable() = default;
  // `most`: rows of their own.
  explicit ThreadTable(std::size_t most) : most_(most) {}

  void add(shard::Thread row);
  void add(const ThreadTable& other);
  // The main threads of one process are one: it has executed several programs.
  void join_main_threads();

  // By start, then tid.
  [[nodiscard]] std::vector<shard::Thread> rows() const;
  // The same with fewer rows of their own: those of the threads that started first.
  [[nodiscard]] std::vector<shard::Thread> rows(std::size_t most) const;

 private:
  static void join(shard::Thread& into, const shard::Thread& row);

  std::size_t most_ = shard::kMaxThreadRows;
  std::vector<shard::Thread> single_, alike_;
};

}  // namespace clusterprof::collector
