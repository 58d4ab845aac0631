// SPDX-License-Identifier: BSD-3-Clause
// Finds the communicator that a handle means. The handles of windows, files and messages mean the
// communicator that they were made from. A communicator is freed with its last reference.
#pragma once

#include "mpi-wrap/src/communicator.hpp"

namespace clusterprof::mpi_wrap {

// A communicator that is all zeros and has no references yet. Null if there is no memory.
Communicator* allocate_communicator() noexcept;

// Null if the handle is not known.
Communicator* communicator_of(HandleKey key) noexcept;

// The same, with a reference. For a call that frees the object: another thread may get the same handle before
// the call has returned. The caller gives the reference back with drop_reference.
Communicator* hold_communicator(HandleKey key) noexcept;

// From now on the handle means this communicator / no communicator. Binding to null does nothing.
void bind(HandleKey key, Communicator* communicator) noexcept;
void release(HandleKey key) noexcept;

// The same, but does nothing if the handle means another communicator by now.
void release(HandleKey key, const Communicator* communicator) noexcept;

// No handle means anything any more.
void forget_communicators() noexcept;

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

}  // namespace clusterprof::mpi_wrap
