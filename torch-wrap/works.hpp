// SPDX-License-Identifier: BSD-3-Clause
// What is known of operations that were started, by the address of their c10d::Work: from the call that
// returns it until its destructor; those of a c10d::Reducer until it has waited for them. Any thread.
#pragma once

#include <cstdint>

#include "formats/wire/mpi_event.h"
#include "torch-wrap/groups.hpp"
#include "torch-wrap/layout.hpp"

namespace clusterprof::torch_wrap {

struct Operation {
  Address work;     // 0: none
  Address reducer;  // the c10d::Reducer that started it, or 0
  Group* group;
  std::uint64_t start_ns, bytes;
  std::uint32_t sequence, site;
  std::int32_t peer, tag;
  std::uint16_t op;
  wire::MpiEventKind kind;  // of the event when it completes
  std::uint8_t flags;
  bool any_source;     // a receive whose sender is known when it completes
  bool numbered_late;  // a receive that gets its number then
  bool paused;
};

void keep_operation(const Operation& operation) noexcept;
// No value (work 0) if nothing is known of it.
Operation look_up_operation(Address work) noexcept;
Operation take_operation(Address work) noexcept;
// The Work is about to end. What a reducer has started is kept for it: the reducer waits for a future that
// outlives the Work. Returns what is not kept.
Operation end_work(Address work) noexcept;
// Takes up to `most` of those that this reducer has started. Returns how many.
std::uint32_t take_operations_of(Address reducer, Operation* taken, std::uint32_t most) noexcept;

// In the child of a fork: they are the parent's.
void forget_operations() noexcept;

}  // namespace clusterprof::torch_wrap
