// SPDX-License-Identifier: BSD-3-Clause
// What is known of communicators: their entry in the segment, the world ranks of their peers, their topology,
// and an identity that is equal on all members although no message is sent.
//
// Identity: 1 and 2 are MPI_COMM_WORLD and MPI_COMM_SELF. The identity of a spawned world's MPI_COMM_WORLD,
// and of the intercommunicator to the processes that spawned it, is derived from the run's rank of the
// world's first process. A communicator made by a call that is collective over a parent is identified by
// (identity of the parent, number of communicators made from the parent before, lowest world rank among
// members and peers). One made by a call of its members alone (MPI_Comm_create_group, MPI_Intercomm_create,
// ...) is identified by (hash of the member groups, number of communicators made from these groups before).
// One whose creation was not seen, for example since a callback made it, is identified in the same way,
// counted among those not seen.
//
// The segment's table is bounded, but a program may make any number of communicators. The first ones have an
// entry each. After that, a communicator takes over the entry of a freed one that was made in the same way
// from the same parent with the same size, as happens in loops. When the table is full, all further ones
// share its last entry. Events always name the communicator itself.
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
  std::uint32_t index;       // in the segment's table, wire::kNoPath when it is full
  std::uint32_t references;  // handles that mean it, requests that have events
  std::uint32_t children;    // communicators made from it by calls collective over it
  std::int32_t rank, size;   // in the local group
  std::int32_t lowest;       // world rank among the members and those talked to
  bool inter;
  RankMap peers;  // those talked to: the remote group of an intercommunicator
  // Neighbours in a topology, as world ranks (kUnknownRank: none). They are looked up when first needed.
  std::atomic<bool> neighbours_known;
  RankMap out_neighbours, in_neighbours;
  std::uint64_t family;  // which others may use its entry in the segment's table after it; 0: none
  // Numbers of events.
  std::uint32_t collectives;    // collective calls so far
  std::uint32_t late_receives;  // pending receives that get their number when they complete
  bool receives_lost;           // one of any message was let go: what the others get is not known any more
  bool receives_given_up;       // nor whether those posted before still have the right number
  SequenceTable sequences;
  SpinLock sequences_lock;  // for the four above
};

enum class Derivation { kDup, kChild, kGroup, kInter };

// Registers MPI_COMM_WORLD and MPI_COMM_SELF. After MPI_Init; false when a look-up failed.
bool start_communicators() noexcept;

// The same when there is a group of all processes but no MPI_COMM_WORLD (sessions). Takes the group.
bool start_without_world(MPI_Group group) noexcept;

// Frees the library's objects that are still held here, before MPI_Finalize.
void end_communicators() noexcept;

// The communicator of any object made from one (itself, a window, a file, a message). Null if unknown.
Communicator* communicator_of(HandleKey key) noexcept;

// The same, with a reference. For a call that frees the object: another thread may get the same handle before
// the call has returned. The caller gives the reference back with drop_reference.
Communicator* hold_communicator(HandleKey key) noexcept;

// Inspects a communicator that is not known yet. Null if that fails or MPI is not running.
Communicator* discover_communicator(MPI_Comm communicator) noexcept;
Communicator* discover_window(MPI_Win window) noexcept;

// A call made `made` from `parent`, which may be null. For MPI_COMM_NULL, only the parent's count of derived
// communicators grows.
void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made) noexcept;

// A call on `parent` spawned a world whose rank 0 is rank `first` of the run. `made` is the intercommunicator
// to it.
void register_spawned_world(Communicator* parent, MPI_Comm made, std::int32_t first) noexcept;

// From now on the object means this communicator / no communicator.
void bind(HandleKey key, Communicator* communicator) noexcept;
void release(HandleKey key) noexcept;

// The same, but does nothing if the handle means another communicator by now.
void release(HandleKey key, const Communicator* communicator) noexcept;

// Adds / drops a reference (dropping null does nothing).
void add_reference(Communicator* communicator) noexcept;
void drop_reference(Communicator* communicator) noexcept;

// For a call that is not measured and frees what the handle means. Makes the call and returns its result.
template <typename Call>
int pass_on_free(HandleKey key, Call&& call) {
  Communicator* const freed = hold_communicator(key);
  const int returned = call();
  if (returned == MPI_SUCCESS) release(key, freed);
  drop_reference(freed);
  return returned;
}

// Address of the next number of a message. Call with the lock of the sequences held. Null if the number is no
// longer known, or if there is no memory for it (this is counted).
std::uint32_t* find_next_number(Communicator& communicator, std::int32_t peer, std::int32_t tag,
                                Direction direction) noexcept;

// Returns / takes the next number of a message. peer: world rank. False if there is none.
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

// MPI_COMM_WORLD; null before MPI_Init.
Communicator* world_communicator() noexcept;

// World ranks of a group. False when anything failed.
bool read_group(MPI_Group group, RankMap& map) noexcept;

// MPI_Comm_set_name was called.
void rename_communicator(const Communicator& communicator, const char* name) noexcept;

void find_neighbours(Communicator& communicator, MPI_Comm handle) noexcept;

}  // namespace clusterprof::mpi_wrap
