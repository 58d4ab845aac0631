// SPDX-License-Identifier: BSD-3-Clause
// What is known of communicators: their entry in the segment, the world ranks of those they
// talk to, their topology, and an identity that is equal on all members without any message.
//
// Identity: 1 and 2 are MPI_COMM_WORLD and MPI_COMM_SELF; that of a spawned world's MPI_COMM_WORLD, and of
// the intercommunicator to those who spawned it, comes of the run's rank of its first process. One made by a
// call collective over a parent is named by (identity of the parent, how many were made from it before,
// lowest world rank among the members and those talked to). One made by a call that only its members make
// (MPI_Comm_create_group, MPI_Intercomm_create, ...) by (hash of the member groups, how many
// were made of just these groups before). One that is met without having been seen to be made, as when a
// callback has made it, by the same of those that were met before.
//
// The segment's table is bounded, and a program may make communicators without end. The first
// ones have an entry each; then one takes over the entry of a freed one that was made in the same
// way from the same parent with the same size, as loops do; when the table is full all further
// ones share its last entry. Events name the communicator itself in any case.
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
  // Neighbours of a topology, as world ranks (kUnknownRank: none); looked up when first needed.
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

// Gives back what the library would miss at MPI_Finalize.
void end_communicators() noexcept;

// Any object made from a communicator: itself, a window, a file, a message. Null when unknown.
Communicator* communicator_of(HandleKey key) noexcept;

// The same, referenced: for a call that frees the object, since another thread may be given the handle before
// the call has returned. The caller gives the reference back with drop_reference.
Communicator* hold_communicator(HandleKey key) noexcept;

// Looks at a communicator that is not known yet; null when that fails or MPI is not running.
Communicator* discover_communicator(MPI_Comm communicator) noexcept;
Communicator* discover_window(MPI_Win window) noexcept;

// A call made `made` from `parent`, which may be null. Nothing happens for MPI_COMM_NULL but
// that it was one more of the parent's.
void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made) noexcept;

// A call spawned a world over `parent`, whose rank 0 is rank `first` of the run; `made` leads there.
void register_spawned_world(Communicator* parent, MPI_Comm made, std::int32_t first) noexcept;

// The object means this communicator from now on / not any more.
void bind(HandleKey key, Communicator* communicator) noexcept;
void release(HandleKey key) noexcept;

// The same, but nothing if the handle means another one by now.
void release(HandleKey key, const Communicator* communicator) noexcept;

// Somebody keeps a pointer to it / does not any more (null: nobody did).
void add_reference(Communicator* communicator) noexcept;
void drop_reference(Communicator* communicator) noexcept;

// A call that is not measured frees what the handle means: makes the call and returns what it does.
template <typename Call>
int pass_on_free(HandleKey key, Call&& call) {
  Communicator* const freed = hold_communicator(key);
  const int returned = call();
  if (returned == MPI_SUCCESS) release(key, freed);
  drop_reference(freed);
  return returned;
}

// Where the next number of a message is, with the sequences' lock held; null: it is not known any more, or
// there is no memory for it, which is counted.
std::uint32_t* find_next_number(Communicator& communicator, std::int32_t peer, std::int32_t tag,
                                Direction direction) noexcept;

// The next number of a message / takes it. peer: world rank. False when there is none.
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
