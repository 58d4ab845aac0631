// SPDX-License-Identifier: BSD-3-Clause
// In this order: memory, and entries in the segment's table; what the library says about a communicator;
// handles and references; numbers of messages; predefined, discovered and derived communicators; topologies.
#include "mpi-wrap/src/communicator.hpp"

#include <stdio.h>
#include <string.h>

#include <atomic>

#include "formats/wire/segment.h"
#include "mpi-wrap/src/handle_map.hpp"
#include "mpi-wrap/src/handles.hpp"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"
#include "mpi-wrap/src/tables.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {
namespace {

constexpr std::uint32_t kHandles = 65536;
constexpr std::uint64_t kWorldIdentity = 1, kSelfIdentity = 2, kFurtherIdentity = 3;
// Starting points of identities that are not derived from a parent.
constexpr std::uint64_t kGroupSeed = 0x67726f7570ull, kInterSeed = 0x696e746572ull,
                        kDiscoveredSeed = 0x6d6574ull, kSpawnSeed = 0x737061776eull;

HandleMap<Communicator, kHandles> objects;
SpinLock lock;
SpinLock discovery_lock;  // taken before `lock`: two threads discover one object once
Communicator* world;
Communicator* free_communicators;

// Communicators come from pages of this many.
constexpr std::uint32_t kPerPages = 128;

// Number of communicators that were made by their members alone, by hash of the groups.
struct Occurrence {
  std::uint64_t key, count;
};
constexpr std::uint32_t kOccurrences = 4096;
Occurrence occurrences[kOccurrences];

std::uint64_t next_occurrence(std::uint64_t key) noexcept {
  const LockIf held(lock, state.shared);
  for (std::uint32_t i = slot_of(mix(key), kOccurrences), n = 0; n < kOccurrences; ++n) {
    if (occurrences[i].key == 0) occurrences[i].key = key;
    if (occurrences[i].key == key) return occurrences[i].count++;
    i = (i + 1) % kOccurrences;
  }
  return 0;
}

// --- entries of the segment's table ---

constexpr std::uint32_t kMaxEntries = 4096;
constexpr std::uint32_t kOwnEntries = 256;  // from there on, entries of freed communicators are used again
constexpr std::uint32_t kFamilyLists = 64;

std::uint32_t used_entries;
bool entries_are_shared;
// Entries of freed communicators, as lists by family, linked through `next` (index + 1; 0: end).
struct Retired {
  std::uint64_t family;
  std::uint32_t next;
};
Retired retired[kMaxEntries];
std::uint32_t retired_lists[kFamilyLists];

std::uint32_t& retired_list(std::uint64_t family) noexcept {
  return retired_lists[slot_of(mix(family), kFamilyLists)];
}

std::uint32_t entry_count(const wire::SegmentHeader* segment) noexcept {
  return segment->communicators < kMaxEntries ? segment->communicators : kMaxEntries;
}

void retire_entry(const Communicator& communicator) noexcept {
  if (communicator.family == 0 || communicator.index >= kMaxEntries) return;
  std::uint32_t& list = retired_list(communicator.family);
  retired[communicator.index] = {communicator.family, list};
  list = communicator.index + 1;
}

// An index, or kNoPath.
std::uint32_t take_retired(std::uint64_t family) noexcept {
  for (std::uint32_t* place = &retired_list(family); *place != 0; place = &retired[*place - 1].next) {
    const std::uint32_t index = *place - 1;
    if (retired[index].family != family) continue;
    *place = retired[index].next;
    return index;
  }
  return wire::kNoPath;
}

Communicator* allocate() noexcept {
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

// Ranks in the run of a group's members.
struct Members {
  std::int32_t* ranks = nullptr;
  std::int32_t size = 0;

  Members() = default;
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members() { free_pages(ranks, bytes()); }

  // Frees the group. False when anything failed.
  bool read(MPI_Group group) noexcept {
    const auto group_free = CLUSTERPROF_LIBRARY(MPI_Group_free);
    const bool good = group_free != nullptr && read_and_keep(group);
    if (group_free != nullptr) group_free(&group);
    return good;
  }

  bool read_and_keep(MPI_Group group) noexcept {
    const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
    bool good = group_size != nullptr && group_size(group, &size) == MPI_SUCCESS && size >= 0;
    if (good && size > 0) {
      // Behind them the ranks in the group, 0, 1, ..., and room for the search.
      ranks = static_cast<std::int32_t*>(allocate_pages(bytes()));
      good = ranks != nullptr;
      for (std::int32_t i = 0; good && i < size; ++i) ranks[size + i] = i;
      good = good &&
             find_run_ranks(group, size, ranks + size, ranks, ranks + 2 * static_cast<std::size_t>(size));
    }
    return good;
  }

  std::int32_t lowest() const noexcept {
    std::int32_t found = kUnknownRank;
    for (std::int32_t i = 0; i < size; ++i) {
      if (ranks[i] >= 0 && (found < 0 || ranks[i] < found)) found = ranks[i];
    }
    return found;
  }

  std::uint64_t hash() const noexcept {
    std::uint64_t sum = static_cast<std::uint64_t>(size);
    for (std::int32_t i = 0; i < size; ++i) sum = combine(sum, static_cast<std::uint64_t>(ranks[i]));
    return sum;
  }

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size) * 3 * sizeof(std::int32_t); }
};

std::int32_t lower_known(std::int32_t a, std::int32_t b) noexcept {
  if (a < 0) return b;
  return b < 0 || a < b ? a : b;
}

void fill_entry(wire::SegmentHeader* segment, std::uint32_t index, std::uint64_t identity, std::int32_t size,
                const char* name) noexcept {
  auto& entry = table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[index];
  entry.identity = identity;
  entry.size = static_cast<std::uint32_t>(size);
  strncpy(entry.name, name, sizeof(entry.name) - 1);
  entry.ready.store(1, std::memory_order_release);
}

// Gives the communicator an entry in the segment's table. `origin` identifies the communicators that may use
// one entry one after the other if their sizes are equal; 0: the entry is not reused.
void publish(Communicator& communicator, const char* name, std::uint64_t origin) noexcept {
  communicator.index = wire::kNoPath;
  auto* segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr || segment->communicators == 0) return;
  if (origin != 0) communicator.family = combine(origin, static_cast<std::uint64_t>(communicator.size));
  const LockIf held(lock, state.shared);
  if (used_entries >= kOwnEntries && communicator.family != 0) {
    communicator.index = take_retired(communicator.family);
    if (communicator.index != wire::kNoPath) return;
  }
  const std::uint32_t last = entry_count(segment) - 1;
  if (used_entries < last) {
    communicator.index = used_entries++;
    fill_entry(segment, communicator.index, communicator.identity, communicator.size, name);
    return;
  }
  communicator.index = last;
  communicator.family = 0;
  if (entries_are_shared) return;
  entries_are_shared = true;
  fill_entry(segment, last, kFurtherIdentity, communicator.size, "(further communicators)");
  agent->count_drop(static_cast<std::uint32_t>(wire::DropReason::kCommunicatorTableFull));
}

std::uint64_t origin_of(const Communicator* parent, Derivation derivation) noexcept {
  const std::uint32_t index = parent == nullptr ? wire::kNoPath : parent->index;
  return combine(combine(kDiscoveredSeed, index), static_cast<std::uint64_t>(derivation)) | 1;
}

// What the library says about a communicator: everything except identity and index.
struct Inspected {
  Communicator* communicator = nullptr;
  std::uint64_t groups = 0;  // hash of the groups, the same on both sides of an intercommunicator
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
  Members members, remote;
  if (test_inter(handle, &inter) != MPI_SUCCESS || comm_rank(handle, &rank) != MPI_SUCCESS ||
      comm_group(handle, &group) != MPI_SUCCESS || !members.read(group)) {
    return {};
  }
  if (inter != 0 && (remote_group(handle, &group) != MPI_SUCCESS || !remote.read(group))) return {};
  Inspected inspected;
  inspected.communicator = allocate();
  if (inspected.communicator == nullptr) return {};
  inspected.communicator->rank = rank;
  inspected.communicator->size = members.size;
  inspected.communicator->inter = inter != 0;
  const Members& talked_to = inter != 0 ? remote : members;
  inspected.communicator->peers.assign(talked_to.ranks, talked_to.size);
  inspected.communicator->lowest = lower_known(members.lowest(), remote.lowest());
  inspected.groups = inter != 0 ? members.hash() + remote.hash() : members.hash();
  return inspected;
}

// A duplicate has its parent's groups. The library must not be asked about a communicator from MPI_Comm_idup
// before its request completes.
Inspected duplicate_of(const Communicator& parent) noexcept {
  Communicator* communicator = allocate();
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

namespace {

// The last look-up, used while only one thread at a time calls MPI. Each call looks up twice, and most look
// up the same communicator.
struct CachedLookup {
  HandleKey key;  // 0: nothing
  Communicator* communicator;
};
CachedLookup last_lookup;

}  // namespace

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

Communicator* world_communicator() noexcept { return world; }

bool read_group(MPI_Group group, RankMap& map) noexcept {
  Members members;
  return members.read_and_keep(group) && map.assign(members.ranks, members.size);
}

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
  publish(*communicator, "intercommunicator of MPI_Comm_spawn", origin);
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
    publish(*communicator, one.name, 0);
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
  inspected.communicator->identity =
      avoid_reserved(combine(groups, next_occurrence(groups == 0 ? 1 : groups)));
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  const auto get_name = CLUSTERPROF_LIBRARY(MPI_Comm_get_name);
  if (get_name != nullptr && get_name(handle, name, &length) != MPI_SUCCESS) name[0] = '\0';
  publish(*inspected.communicator, name, origin_of(nullptr, Derivation::kGroup));
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
  Members members;
  if (get_group == nullptr || get_group(window, &group) != MPI_SUCCESS || !members.read(group))
    return nullptr;
  Communicator* communicator = allocate();
  if (communicator == nullptr) return nullptr;
  communicator->size = members.size;
  communicator->index = wire::kNoPath;  // which communicator made it is not known
  communicator->peers.assign(members.ranks, members.size);
  bind(key_of(window), communicator);
  return communicator_of(key_of(window));
}

void derive_communicator(Communicator* parent, Derivation derivation, MPI_Comm made) noexcept {
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
    const std::uint64_t groups =
        combine(derivation == Derivation::kGroup ? kGroupSeed : kInterSeed, inspected.groups);
    communicator->identity = avoid_reserved(combine(groups, next_occurrence(groups == 0 ? 1 : groups)));
  }
  publish(*communicator, "", origin_of(parent, derivation));
  bind(key_of(made), communicator);
}

void rename_communicator(const Communicator& communicator, const char* name) noexcept {
  auto* segment = static_cast<wire::SegmentHeader*>(agent->segment());
  if (segment == nullptr || communicator.index >= segment->communicators || name == nullptr) return;
  if (entries_are_shared && communicator.index + 1 == entry_count(segment)) return;
  auto& entry = table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[communicator.index];
  strncpy(entry.name, name, sizeof(entry.name) - 1);
}

namespace {

void ask_neighbours(Communicator& communicator, MPI_Comm handle) noexcept {
  const auto topo_test = CLUSTERPROF_LIBRARY(MPI_Topo_test);
  int topology = 0;
  if (topo_test == nullptr || topo_test(handle, &topology) != MPI_SUCCESS) return;
  int ins = 0, outs = 0, weighted = 0;
  const auto dims_of = CLUSTERPROF_LIBRARY(MPI_Cartdim_get);
  const auto graph_count = CLUSTERPROF_LIBRARY(MPI_Graph_neighbors_count);
  const auto dist_count = CLUSTERPROF_LIBRARY(MPI_Dist_graph_neighbors_count);
  if (topology == MPI_CART && dims_of != nullptr && dims_of(handle, &outs) == MPI_SUCCESS) {
    ins = outs *= 2;
  } else if (topology == MPI_GRAPH && graph_count != nullptr &&
             graph_count(handle, communicator.rank, &outs) == MPI_SUCCESS) {
    ins = outs;
  } else if (topology != MPI_DIST_GRAPH || dist_count == nullptr ||
             dist_count(handle, &ins, &outs, &weighted) != MPI_SUCCESS) {
    return;
  }
  if (outs <= 0 && ins <= 0) return;
  // out, then for a distributed graph: out weights, in, in weights.
  const std::size_t words = (static_cast<std::size_t>(outs) + static_cast<std::size_t>(ins)) * 2;
  auto* ranks = static_cast<std::int32_t*>(allocate_pages(words * sizeof(std::int32_t)));
  if (ranks == nullptr) return;
  bool good = false;
  if (topology == MPI_CART) {
    const auto shift = CLUSTERPROF_LIBRARY(MPI_Cart_shift);
    good = shift != nullptr;
    // The order of the buffers: per dimension first the lower, then the upper neighbour.
    for (int d = 0; good && d < outs / 2; ++d)
      good = shift(handle, d, 1, ranks + 2 * d, ranks + 2 * d + 1) == MPI_SUCCESS;
  } else if (topology == MPI_GRAPH) {
    const auto neighbours = CLUSTERPROF_LIBRARY(MPI_Graph_neighbors);
    good = neighbours != nullptr && neighbours(handle, communicator.rank, outs, ranks) == MPI_SUCCESS;
  } else {
    const auto neighbours = CLUSTERPROF_LIBRARY(MPI_Dist_graph_neighbors);
    good = neighbours != nullptr && neighbours(handle, ins, ranks + 2 * outs, ranks + 2 * outs + ins, outs,
                                               ranks, ranks + outs) == MPI_SUCCESS;
  }
  if (good) {
    std::int32_t* sources = topology == MPI_DIST_GRAPH ? ranks + 2 * outs : ranks;
    const int both = topology == MPI_DIST_GRAPH ? 2 * outs + ins : outs;
    for (int i = 0; i < both; ++i) ranks[i] = communicator.peers.world_rank(ranks[i]);
    communicator.out_neighbours.assign(ranks, outs);
    communicator.in_neighbours.assign(sources, ins);
  }
  free_pages(ranks, words * sizeof(std::int32_t));
}

}  // namespace

void find_neighbours(Communicator& communicator, MPI_Comm handle) noexcept {
  const LockIf held(discovery_lock, state.shared);
  if (communicator.neighbours_known.load(std::memory_order_relaxed)) return;
  ask_neighbours(communicator, handle);
  communicator.neighbours_known.store(true, std::memory_order_release);
}

}  // namespace clusterprof::mpi_wrap
