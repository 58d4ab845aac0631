// SPDX-License-Identifier: BSD-3-Clause
// The process groups of this process, and the numbers of their operations. Any thread.
#pragma once

#include <cstdint>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/sequences.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "torch-wrap/layout.hpp"

namespace clusterprof::torch_wrap {

struct Group {
  Address object;          // the ProcessGroup that it is at present
  std::uint64_t identity;  // equal on all members
  std::uint32_t index;     // in the segment's table of communicators, wire::kNoPath when that is full
  std::int32_t rank, size;
  bool is_world;                // ranks of the group are ranks of the launch
  bool has_run_ranks;           // they are ranks of the run; else its members are known by their numbers
  std::uint32_t collectives;    // so far
  std::uint32_t late_receives;  // pending ones that get their number when they complete
  mpi_wrap::SequenceTable sequences;
  mpi_wrap::SpinLock lock;  // for the two above
};

// Null if it is not known.
Group* find_group(Address object) noexcept;

// A group has been made. store: of its c10d::Store. is_world(rank, size) is asked for the first group of more
// than one rank whether its ranks are the run's. Null: there are too many groups.
Group* add_group(wire::SegmentHeader* segment, Address object, Address store, std::int32_t rank,
                 std::int32_t size, bool (*is_world)(std::int32_t, std::int32_t)) noexcept;

// Takes the next number of the messages to or from a rank of the group. False if there is no memory for it.
bool take_number(Group& group, std::int32_t peer, std::int32_t tag, mpi_wrap::Direction direction,
                 std::uint32_t& number) noexcept;

// In the child of a fork, where no other thread exists: all groups are the parent's.
void forget_groups() noexcept;

inline std::uint32_t take_collective_number(Group& group) noexcept {
  return __atomic_fetch_add(&group.collectives, 1, __ATOMIC_RELAXED);
}
inline std::uint32_t next_collective_number(const Group& group) noexcept {
  return __atomic_load_n(&group.collectives, __ATOMIC_RELAXED);
}

}  // namespace clusterprof::torch_wrap
