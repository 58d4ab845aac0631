// SPDX-License-Identifier: BSD-3-Clause
// Finds what a sample's time is charged to: resolves its stack (stacks/stack_resolver.hpp), decides the
// category, and finds the row of both. Remembers the rows of whole stacks: although the leaf's exact address
// differs almost every time, hot loops have few addresses. Only the thread that polls the process may call
// this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/charge/process_charges.hpp"
#include "collector/charge/thread_account.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class StackCharges {
 public:
  // Both must outlive it.
  StackCharges(StackResolver& stacks, ProcessCharges& charges);

  // The result has a row.
  ChargeTarget target(std::span<const std::uint64_t> words, const StackContext& context, bool main_thread);

 private:
  struct Remembered {
    std::uint64_t hash = 0;  // 0: empty slot
    std::uint32_t row = 0;   // of ProcessCharges
  };
  void remember(std::uint64_t hash, std::uint32_t row);
  [[nodiscard]] Remembered& slot_of(std::uint64_t hash) noexcept {
    return remembered_[(hash >> 1) & (remembered_.size() - 1)];
  }

  StackResolver& stacks_;
  ProcessCharges& charges_;
  std::vector<Remembered> remembered_;  // the latest stack of each slot
  std::size_t replaced_ = 0;            // since it grew
};

}  // namespace clusterprof::collector
