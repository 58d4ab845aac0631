// SPDX-License-Identifier: BSD-3-Clause
// From the stack of a sample to what its time is charged to: resolves the stack (stacks/stack_resolver.hpp),
// decides its category, and finds the row of the two. Remembers the row of whole stacks: the exact address of
// the leaf is different almost every time, but hot loops are small. The thread that polls the process calls
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

  // With a row.
  ChargeTarget target(std::span<const std::uint64_t> words, const StackContext& context, bool main_thread);

 private:
  struct Remembered {
    std::uint64_t hash = 0;  // 0: nothing
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
