// SPDX-License-Identifier: BSD-3-Clause
// In this order: what the library says about a communicator; spawned worlds; MPI_COMM_WORLD and
// MPI_COMM_SELF; objects whose creation was not seen; communicators that a wrapped call has made.
#include "mpi-wrap/src/communicator_registry.hpp"

#include <stdio.h>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/communicator_entries.hpp"
#include "mpi-wrap/src/communicator_handles.hpp"
#include "mpi-wrap/src/group_ranks.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::uint64_t kWorldIdentity = 1, kSelfIdentity = 2;
// Starting points of identities that are not derived from a parent.
constexpr std::uint64_t kGroupSeed = 0x67726f7570ull, kInterSeed = 0x696e746572ull,
                        kDiscoveredSeed = 0x6d6574ull, kSpawnSeed = 0x737061776eull;

// Two threads discover one object once. Taken before the locks of occurrences, handles and entries.
SpinLock discovery_lock;
Communicator* world;

// Number of communicators that were made by their members alone, by hash of the groups.
struct Occurrence {
  std::uint64_t key, count;
};
constexpr std::uint32_t kOccurrences = 4096;
Occurrence occurrences[kOccurrences];
std::uint32_t used_occurrences;
SpinLock occurrences_lock;

// named: programs may give each communicator a string tag of its own. These do not take the room of others;
// each new tag that finds none is taken to be used once.
std::uint64_t next_occurrence(std::uint64_t key, bool named = false) noexcept {
  if (key == 0) key = 1;
  const LockIf held(occurrences_lock, state.shared);
  for (std::uint32_t i = slot_of(mix(key), kOccurrences), n = 0; n < kOccurrences; ++n) {
    if (occurrences[i].key == 0) {
      if (named && used_occurrences >= kOccurrences / 2) return 0;
      occurrences[i].key = key;
      ++used_occurrences;
    }
    if (occurrences[i].key == key) return occurrences[i].count++;
    i = (i + 1) % kOccurrences;
  }
  return 0;
}

std::int32_t lower_known(std::int32_t a, std::int32_t b) noexcept {
  if (a < 0) return b;
  return b < 0 || a < b ? a : b;
}

std::uint64_t origin_of(const Communicator* parent, Derivation derivation) noexcept {
  const std::uint32_t index = parent == nullptr ? wire::kNoPath : parent->index;
  return combine(combine(kDiscoveredSeed, index), static_cast<std::uint64_t>(derivation)) | 1;
}

// What the library says about a communicator: everything except identity and index.
struct Inspected {
  Communicator* communicator = nullptr;
  // Hash of the groups. It is the same on both sides of an intercommunicator.
  std::uint64_t groups = 0;
};

Inspected inspect(MPI_Comm handle) noexcept {
  const auto test_inter = CLUSTERPROF_LIBRARY(MPI_Comm_test_inter);
  const auto comm_rank = CLUSTERPROF_LIBRARY(MPI_Comm_rank);
  const auto comm_group = CLUSTERPROF_LIBRARY(MPI_Comm_group);
  const auto remote_group = CLUSTERPROF_LIBRARY(MPI_Comm_remote_group);
  if (test_inter == nullptr || comm_rank == nullptr || comm_group == nullptr || remote_group == nullptr)
    return {};
  int inter = 0, rank = 0;
  MPI_Group group;
  GroupRanks members, remote;
  if (test_inter(handle, &inter) != MPI_SUCCESS || comm_rank(handle, &rank) != MPI_SUCCESS ||
      comm_group(handle, &group) != MPI_SUCCESS || !members.read_and_free(group)) {
    return {};
  }
  if (inter != 0 && (remote_group(handle, &group) != MPI_SUCCESS || !remote.read_and_free(group))) return {};
  Inspected inspected;
  inspected.communicator = allocate_communicator();
  if (inspected.communicator == nullptr) return {};
  inspected.communicator->rank = rank;
  inspected.communicator->size = members.size();
  inspected.communicator->inter = inter != 0;
  const GroupRanks& peers = inter != 0 ? remote : members;
  peers.assign_to(inspected.communicator->peers);
  inspected.communicator->lowest = lower_known(members.lowest(), remote.lowest());
  inspected.groups = inter != 0 ? members.hash() + remote.hash() : members.hash();
  return inspected;
}

// A duplicate has its parent's groups. The library must not be asked about a communicator from MPI_Comm_idup
// before its request completes.
Inspected duplicate_of(const Communicator& parent) noexcept {
  Communicator* communicator = allocate_communicator();
  if (communicator == nullptr) return {};
  communicator->rank = parent.rank;
  communicator->size = parent.size;
  communicator->lowest = parent.lowest;
  communicator->inter = parent.inter;
  communicator->peers.copy(parent.peers);
  return {communicator, 0};
}

// Identities 0 to 15 are not given to derived communicators.
std::uint64_t avoid_reserved(std::uint64_t identity) noexcept {
  return identity < 16 ? identity + 16 : identity;
}

}  // namespace

Communicator* world_communicator() noexcept { return world; }

bool start_without_world(MPI_Group group) noexcept {
  const auto group_rank = CLUSTERPROF_LIBRARY(MPI_Group_rank);
  const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
  int rank = 0, size = 0;
  if (group_rank == nullptr || group_size == nullptr || group_rank(group, &rank) != MPI_SUCCESS ||
      group_size(group, &size) != MPI_SUCCESS) {
    return false;
  }
  start_worlds(group, size);
  state.world_rank = first_rank() + rank;
  return true;
}

namespace {

// The intercommunicator between a spawned world and its parents. Both sides know it by the run's rank of the
// world's first process.
void register_intercommunicator(MPI_Comm handle, std::int32_t first, std::uint64_t origin) noexcept {
  Communicator* const communicator = inspect(handle).communicator;
  if (communicator == nullptr) return;
  communicator->identity = avoid_reserved(combine(kSpawnSeed + 1, static_cast<std::uint64_t>(first)));
  give_entry(*communicator, "intercommunicator of MPI_Comm_spawn", origin);
  bind(key_of(handle), communicator);
}

void register_parent_world() noexcept {
  const auto get_parent = CLUSTERPROF_LIBRARY(MPI_Comm_get_parent);
  const auto remote_group = CLUSTERPROF_LIBRARY(MPI_Comm_remote_group);
  MPI_Comm parent = handles.comm_null;
  MPI_Group group;
  RankMap callers{};
  if (get_parent == nullptr || remote_group == nullptr || get_parent(&parent) != MPI_SUCCESS ||
      parent == handles.comm_null || remote_group(parent, &group) != MPI_SUCCESS) {
    return;
  }
  // Where it is not known who they are, they have no ranks.
  (void)read_own_callers(callers);
  add_world(group, callers);
  register_intercommunicator(parent, first_rank(), 0);
}

}  // namespace

void register_spawned_world(Communicator* parent, MPI_Comm made, std::int32_t first) noexcept {
  if (!state.running) return;
  if (parent != nullptr) ++parent->children;
  const auto remote_group = CLUSTERPROF_LIBRARY(MPI_Comm_remote_group);
  const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
  MPI_Group group;
  int size = 0;
  if (made == handles.comm_null || remote_group == nullptr || group_size == nullptr ||
      remote_group(made, &group) != MPI_SUCCESS) {
    return;
  }
  RankMap children{};
  if (group_size(group, &size) == MPI_SUCCESS) children.assign_regular(first, 1, size);
  add_world(group, children);
  register_intercommunicator(made, first, origin_of(parent, Derivation::kChild));
}

bool start_communicators() noexcept {
  const auto comm_group = CLUSTERPROF_LIBRARY(MPI_Comm_group);
  const auto comm_size = CLUSTERPROF_LIBRARY(MPI_Comm_size);
  MPI_Group group;
  int size = 0;
  if (comm_group == nullptr || comm_size == nullptr || comm_size(handles.comm_world, &size) != MPI_SUCCESS ||
      comm_group(handles.comm_world, &group) != MPI_SUCCESS) {
    return false;
  }
  start_worlds(group, size);
  const std::int32_t first = first_rank();
  const std::uint64_t world_identity =
      first == 0 ? kWorldIdentity : avoid_reserved(combine(kSpawnSeed, static_cast<std::uint64_t>(first)));
  char world_name[48] = "MPI_COMM_WORLD";
  if (first != 0)
    snprintf(world_name, sizeof(world_name), "MPI_COMM_WORLD of ranks %d-%d", first, first + size - 1);
  const struct {
    MPI_Comm handle;
    std::uint64_t identity;
    const char* name;
  } predefined[] = {{handles.comm_world, world_identity, world_name},
                    {handles.comm_self, kSelfIdentity, "MPI_COMM_SELF"}};
  for (const auto& one : predefined) {
    Communicator* communicator = inspect(one.handle).communicator;
    if (communicator == nullptr) return false;
    communicator->identity = one.identity;
    give_entry(*communicator, one.name, 0);
    bind(key_of(one.handle), communicator);
    if (one.identity == world_identity) world = communicator;
  }
  state.world_rank = first + world->rank;
  if (first != 0) register_parent_world();
  return true;
}

void end_communicators() noexcept { end_worlds(); }

Communicator* discover_communicator(MPI_Comm handle) noexcept {
  if (!state.running || handle == handles.comm_null) return nullptr;
  const LockIf held(discovery_lock, state.shared);
  Communicator* const known = state.shared ? communicator_of(key_of(handle)) : nullptr;
  if (known != nullptr) return known;
  const Inspected inspected = inspect(handle);
  if (inspected.communicator == nullptr) return nullptr;
  const std::uint64_t groups = combine(kDiscoveredSeed, inspected.groups);
  inspected.communicator->identity = avoid_reserved(combine(groups, next_occurrence(groups)));
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  const auto get_name = CLUSTERPROF_LIBRARY(MPI_Comm_get_name);
  if (get_name != nullptr && get_name(handle, name, &length) != MPI_SUCCESS) name[0] = '\0';
  give_entry(*inspected.communicator, name, origin_of(nullptr, Derivation::kGroup));
  bind(key_of(handle), inspected.communicator);
  return communicator_of(key_of(handle));  // null, and freed, when there was no room for the handle
}

Communicator* discover_window(MPI_Win window) noexcept {
  if (!state.running) return nullptr;
  const LockIf held(discovery_lock, state.shared);
  Communicator* const known = state.shared ? communicator_of(key_of(window)) : nullptr;
  if (known != nullptr) return known;
  const auto get_group = CLUSTERPROF_LIBRARY(MPI_Win_get_group);
  MPI_Group group;
  GroupRanks members;
  if (get_group == nullptr || get_group(window, &group) != MPI_SUCCESS || !members.read_and_free(group))
    return nullptr;
  Communicator* communicator = allocate_communicator();
  if (communicator == nullptr) return nullptr;
  communicator->size = members.size();
  communicator->index = wire::kNoPath;  // which communicator made it is not known
  members.assign_to(communicator->peers);
  bind(key_of(window), communicator);
  return communicator_of(key_of(window));
}

void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made,
                         std::uint64_t name) noexcept {
  if (!state.running) return;
  const bool of_parent = derivation == Derivation::kDup || derivation == Derivation::kChild;
  const std::uint64_t position = of_parent && parent != nullptr ? parent->children++ : 0;
  if (made == handles.comm_null) return;
  if (of_parent && parent == nullptr) {
    discover_communicator(made);
    return;
  }
  const Inspected inspected = derivation == Derivation::kDup ? duplicate_of(*parent) : inspect(made);
  Communicator* communicator = inspected.communicator;
  if (communicator == nullptr) return;
  if (of_parent) {
    const auto lowest = static_cast<std::uint64_t>(communicator->lowest);
    communicator->identity = avoid_reserved(combine(combine(parent->identity, position), lowest));
  } else {
    std::uint64_t groups =
        combine(derivation == Derivation::kGroup ? kGroupSeed : kInterSeed, inspected.groups);
    if (name != 0) groups = combine(groups, name);
    communicator->identity = avoid_reserved(combine(groups, next_occurrence(groups, name != 0)));
  }
  give_entry(*communicator, "", origin_of(parent, derivation));
  bind(key_of(made), communicator);
}

}  // namespace clusterprof::mpi_wrap
