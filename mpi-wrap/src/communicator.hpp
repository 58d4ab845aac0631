// SPDX-License-Identifier: BSD-3-Clause
// What is known of a communicator, and the numbers of its operations. Events name an operation by
// communicator, peer, tag and number, so the aggregator can match the two sides of a message.
//
// communicator_registry.hpp creates communicators, communicator_handles.hpp finds and frees them,
// communicator_entries.hpp tells the collector about them.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/rank_map.hpp"
#include "mpi-wrap/src/sequences.hpp"
#include "mpi-wrap/src/spin_lock.hpp"

namespace clusterprof::mpi_wrap {

struct Communicator {
  std::uint64_t identity;
  std::uint32_t index;             // in the segment's table, wire::kNoPath when it is full
  std::uint32_t references;        // handles that mean it, requests that have events
  std::uint32_t children;          // communicators made from it by calls collective over it
  std::uint32_t claimed_receives;  // numbered ones that calls wait for (requests.hpp)
  std::int32_t rank, size;         // in the local group
  std::int32_t lowest;             // lowest world rank among the members and the peers
  bool inter;
  // The processes that messages go to: the members, or the remote group of an intercommunicator.
  RankMap peers;
  // Neighbours in a topology, as world ranks (kUnknownRank: none). They are looked up when first needed.
  std::atomic<bool> neighbours_known;
  RankMap out_neighbours, in_neighbours;
  // Communicators of one family may use one entry in the segment's table one after the other. 0: the entry
  // is not reused.
  std::uint64_t family;
  // Numbers of events.
  std::uint32_t collectives;    // collective calls so far
  std::uint32_t late_receives;  // pending receives that get their number when they complete
  // A pending receive of any message was freed, so the numbers of later receives are not known.
  bool receives_lost;
  // Nor are the numbers of receives that were posted before it.
  bool receives_given_up;
  SequenceTable sequences;
  SpinLock sequences_lock;  // for the four above
};

// Address of the next number of a message. The caller holds sequences_lock. Null if the number is no longer
// known, or if there is no memory for it (this is counted).
std::uint32_t* find_next_number(Communicator& communicator, std::int32_t peer, std::int32_t tag,
                                Direction direction) noexcept;

// Returns / takes the next number of a message. `peer` is a world rank. False if there is none.
bool peek_number(Communicator& communicator, std::int32_t peer, std::int32_t tag, Direction direction,
                 std::uint32_t& number) noexcept;
bool take_number(Communicator& communicator, std::int32_t peer, std::int32_t tag, Direction direction,
                 std::uint32_t& number) noexcept;

inline std::uint32_t take_collective_number(Communicator& communicator, bool shared) noexcept {
  return shared ? __atomic_fetch_add(&communicator.collectives, 1, __ATOMIC_RELAXED)
                : communicator.collectives++;
}

// The number that the next collective call will take.
inline std::uint32_t next_collective_number(const Communicator& communicator, bool shared) noexcept {
  return shared ? __atomic_load_n(&communicator.collectives, __ATOMIC_RELAXED) : communicator.collectives;
}

}  // namespace clusterprof::mpi_wrap
