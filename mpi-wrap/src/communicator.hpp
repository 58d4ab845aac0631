// SPDX-License-Identifier: BSD-3-Clause
// What is known of communicators: their entry in the segment, the world ranks of those they
// talk to, their topology, and an identity that is equal on all members without any message.
//
// Identity: 1 and 2 are MPI_COMM_WORLD and MPI_COMM_SELF. One made by a call collective over a
// parent is named by (identity of the parent, how many were made from it before, lowest world
// rank among the members and those talked to). One made by a call that only its members make
// (MPI_Comm_create_group, MPI_Intercomm_create, ...) by (hash of the member groups, how many
// were made of just these groups before). One that is met without having been seen to be made
// by the hash of its groups alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/rank_map.hpp"

namespace clusterprof::mpi_wrap {

struct Communicator {
  std::uint64_t identity;
  std::uint32_t index;       // in the segment's table, wire::kNoPath when it is full
  std::uint32_t references;  // handles that mean it
  std::uint32_t children;    // communicators made from it by calls collective over it
  std::int32_t rank, size;   // in the local group
  std::int32_t lowest;       // world rank among the members and those talked to
  bool inter;
  RankMap peers;  // those talked to: the remote group of an intercommunicator
  // Neighbours of a topology, as world ranks (kUnknownRank: none); looked up when first needed.
  std::atomic<bool> neighbours_known;
  RankMap out_neighbours, in_neighbours;
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

// Looks at a communicator that is not known yet; null when that fails or MPI is not running.
Communicator* meet_communicator(MPI_Comm communicator) noexcept;
Communicator* meet_window(MPI_Win window) noexcept;

// A call made `made` from `parent`, which may be null. Nothing happens for MPI_COMM_NULL but
// that it was one more of the parent's.
void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made) noexcept;

// The object means this communicator from now on / not any more.
void bind(HandleKey key, Communicator* communicator) noexcept;
void release(HandleKey key) noexcept;

// MPI_Comm_set_name was called.
void rename_communicator(const Communicator& communicator, const char* name) noexcept;

void find_neighbours(Communicator& communicator, MPI_Comm handle) noexcept;

}  // namespace clusterprof::mpi_wrap
