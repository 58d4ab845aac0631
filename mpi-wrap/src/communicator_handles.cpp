// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/communicator_handles.hpp"

#include <string.h>

#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/handle_map.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::uint32_t kHandles = 65536;
constexpr std::uint32_t kPerPages = 128;  // memory is taken for this many communicators at once

HandleMap<Communicator, kHandles> objects;
SpinLock lock;
Communicator* free_communicators;

void drop_reference_locked(Communicator* communicator) noexcept {
  if (communicator == nullptr || --communicator->references != 0) return;
  retire_entry(*communicator);
  communicator->sequences.clear();
  communicator->peers.clear();
  communicator->out_neighbours.clear();
  communicator->in_neighbours.clear();
  memcpy(static_cast<void*>(communicator), &free_communicators, sizeof(free_communicators));
  free_communicators = communicator;
}

// The last look-up, used while only one thread at a time calls MPI. Each call looks up twice, and most look
// up the same communicator.
struct CachedLookup {
  HandleKey key;  // 0: nothing
  Communicator* communicator;
};
CachedLookup last_lookup;

}  // namespace

Communicator* allocate_communicator() noexcept {
  const LockIf held(lock, state.shared);
  if (free_communicators == nullptr) {
    auto* fresh = static_cast<Communicator*>(allocate_pages(kPerPages * sizeof(Communicator)));
    if (fresh == nullptr) return nullptr;
    for (std::uint32_t i = 0; i < kPerPages; ++i) {
      // The list runs through the first word.
      memcpy(static_cast<void*>(&fresh[i]), &free_communicators, sizeof(free_communicators));
      free_communicators = &fresh[i];
    }
  }
  Communicator* taken = free_communicators;
  memcpy(&free_communicators, static_cast<const void*>(taken), sizeof(free_communicators));
  memset(static_cast<void*>(taken), 0, sizeof(*taken));
  return taken;
}

Communicator* communicator_of(HandleKey key) noexcept {
  if (state.shared) return objects.find(key);
  if (key != last_lookup.key || key == 0) last_lookup = {key, objects.find(key)};
  return last_lookup.communicator;
}

void bind(HandleKey key, Communicator* communicator) noexcept {
  if (communicator == nullptr) return;
  const LockIf held(lock, state.shared);
  ++communicator->references;
  bool full = false;
  last_lookup = {};
  Communicator* old = objects.insert(key, communicator, full);
  drop_reference_locked(full ? communicator : old);
}

void release(HandleKey key) noexcept {
  const LockIf held(lock, state.shared);
  last_lookup = {};
  drop_reference_locked(objects.erase(key));
}

void release(HandleKey key, const Communicator* communicator) noexcept {
  const LockIf held(lock, state.shared);
  last_lookup = {};
  if (objects.find(key) == communicator) drop_reference_locked(objects.erase(key));
}

// They are not given back: a call that began before may return any time later, and still has their addresses.
void forget_communicators() noexcept {
  const LockIf held(lock, state.shared);
  last_lookup = {};
  objects.clear([](Communicator* communicator) {
    communicator->family = 0;  // its entry goes with all entries
    const LockIf sequences(communicator->sequences_lock, state.shared);
    communicator->sequences.clear();
  });
}

Communicator* hold_communicator(HandleKey key) noexcept {
  const LockIf held(lock, state.shared);
  Communicator* const communicator = objects.find(key);
  if (communicator != nullptr) ++communicator->references;
  return communicator;
}

void add_reference(Communicator* communicator) noexcept {
  const LockIf held(lock, state.shared);
  ++communicator->references;
}

void drop_reference(Communicator* communicator) noexcept {
  const LockIf held(lock, state.shared);
  drop_reference_locked(communicator);
}

}  // namespace clusterprof::mpi_wrap
