// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/communicator.hpp"

#include "formats/wire/segment.h"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {

std::uint32_t* find_next_number(Communicator& communicator, std::int32_t peer, std::int32_t tag,
                                Direction direction) noexcept {
  if (communicator.receives_lost && direction == Direction::kReceived && tag >= 0) return nullptr;
  std::uint32_t* const next = communicator.sequences.next(peer, tag, direction);
  if (next == nullptr) agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kMpiEventRingFull));
  return next != nullptr && *next != SequenceTable::kLost ? next : nullptr;
}

bool peek_number(Communicator& communicator, std::int32_t peer, std::int32_t tag, Direction direction,
                 std::uint32_t& number) noexcept {
  const LockIf held(communicator.sequences_lock, state.shared);
  const std::uint32_t* const next = find_next_number(communicator, peer, tag, direction);
  if (next != nullptr) number = *next;
  return next != nullptr;
}

bool take_number(Communicator& communicator, std::int32_t peer, std::int32_t tag, Direction direction,
                 std::uint32_t& number) noexcept {
  const LockIf held(communicator.sequences_lock, state.shared);
  std::uint32_t* const next = find_next_number(communicator, peer, tag, direction);
  if (next != nullptr) number = (*next)++;
  return next != nullptr;
}

}  // namespace clusterprof::mpi_wrap
