// SPDX-License-Identifier: BSD-3-Clause
// Registers communicators when they are made or first seen, and gives each an identity that is equal on all
// members although no message is sent.
//
// Identity: 1 and 2 are MPI_COMM_WORLD and MPI_COMM_SELF. The identity of a spawned world's MPI_COMM_WORLD,
// and of the intercommunicator to the processes that spawned it, is derived from the run's rank of the
// world's first process. The others are hashes. A communicator is identified
// - by the parent's identity, the number of communicators made from the parent before, and the lowest world
//   rank among members and peers, if it was made by a call that is collective over the parent;
// - by the member groups and the number of communicators made from these groups before, if it was made by a
//   call of its members alone (MPI_Comm_create_group, MPI_Intercomm_create, ...); of those that have a string
//   tag (MPI_Comm_create_from_group) only the ones with the same tag count, since threads may make others at
//   the same time, in any order;
// - in the same way, counted among those not seen, if its creation was not seen, for example since a callback
//   made it.
#pragma once

#include "mpi-wrap/src/communicator.hpp"

namespace clusterprof::mpi_wrap {

enum class Derivation { kDup, kChild, kGroup, kInter };

// Registers MPI_COMM_WORLD and MPI_COMM_SELF. After MPI_Init; false when a look-up failed.
bool start_communicators() noexcept;

// The same when there is a group of all processes but no MPI_COMM_WORLD (sessions). Takes the group. May be
// called again with a group of the same processes.
bool start_without_world(MPI_Group group) noexcept;

// Frees the library's objects that are still held here, before MPI_Finalize.
void end_communicators() noexcept;

// MPI_COMM_WORLD; null before MPI_Init.
Communicator* world_communicator() noexcept;

// Registers an object that is not known yet. Null if that fails or MPI is not running.
Communicator* discover_communicator(MPI_Comm communicator) noexcept;
Communicator* discover_window(MPI_Win window) noexcept;

// A call made `made` from `parent`, which may be null. For MPI_COMM_NULL, only the parent's count of derived
// communicators grows. name: a hash of what tells communicators of the same groups apart (the string tag of
// MPI_Comm_create_from_group), 0: nothing does.
void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made,
                         std::uint64_t name = 0) noexcept;

// A call on `parent` spawned a world whose rank 0 is rank `first` of the run. `made` is the intercommunicator
// to it.
void register_spawned_world(Communicator* parent, MPI_Comm made, std::int32_t first) noexcept;

}  // namespace clusterprof::mpi_wrap
