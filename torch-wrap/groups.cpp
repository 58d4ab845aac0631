// SPDX-License-Identifier: BSD-3-Clause
#include "torch-wrap/groups.hpp"

#include <stdio.h>
#include <string.h>

#include <atomic>

#include "agent/c10d_start.h"
#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/tables.hpp"
#include "torch-wrap/library.hpp"

namespace clusterprof::torch_wrap {
namespace {

constexpr std::uint32_t kMaxGroups = 1024;
constexpr std::uint64_t kSeed = 0x63313064'676c6f6full;

mpi_wrap::SpinLock lock;  // for adding
std::atomic<Group*> groups;
std::atomic<std::uint32_t> group_count;
bool world_was_seen;  // under the lock

// The prefixes under which the members find each other. Up to this depth: a store may be anything.
constexpr int kMaxPrefixes = 8;

std::uint64_t hash_of(std::uint64_t hash, const char* text, std::size_t length) noexcept {
  for (std::size_t i = 0; i < length; ++i)
    hash = mpi_wrap::combine(hash, static_cast<unsigned char>(text[i]));
  return mpi_wrap::combine(hash, length);
}

// Since libtorch 2, a group has a store of its own for each kind of device.
bool is_device(const Text& prefix) noexcept {
  for (const char* const device : {"cpu/", "cuda/"})
    if (prefix.length == strlen(device) && memcmp(prefix.begin, device, prefix.length) == 0) return true;
  return false;
}

// `name` becomes the innermost prefix that is no device's: the group's name.
std::uint64_t identity_of(Address store, std::int32_t size, char (&name)[32]) noexcept {
  // An object's class is known by its table of virtual functions, which begins behind two words.
  const auto table = reinterpret_cast<Address>(library_symbol("_ZTVN4c10d11PrefixStoreE"));
  std::uint64_t hash = mpi_wrap::combine(kSeed, static_cast<std::uint64_t>(size));
  // Programs that are started one after the other name their groups alike.
  hash = mpi_wrap::combine(hash, clusterprof::agent::launch_id());
  name[0] = '\0';
  for (int i = 0; i < kMaxPrefixes && store != 0 && table != 0 && read<Address>(store) == table + 16; ++i) {
    const Text text(store + layout().prefix_of_store);
    if (name[0] == '\0' && !is_device(text))
      snprintf(name, sizeof name, "%.*s", static_cast<int>(text.length < 31 ? text.length : 31), text.begin);
    hash = hash_of(hash, text.begin, text.length);
    store = read<Address>(store + layout().inner_store());
  }
  return hash < 16 ? hash + 16 : hash;  // those of predefined communicators of MPI
}

// MPI's communicators have the first entries of the table, and share the last one when it is full.
void give_entry(wire::SegmentHeader* segment, Group& group, std::uint32_t number, const char* name) noexcept {
  group.index = wire::kNoPath;
  if (number + 2 > segment->communicators) return;
  group.index = segment->communicators - 2 - number;
  auto& entry =
      mpi_wrap::table_at<wire::MpiCommunicator>(segment, segment->communicators_offset)[group.index];
  entry.identity = group.identity;
  entry.size = static_cast<std::uint32_t>(group.size);
  entry.number = group.has_run_ranks ? 0 : group.rank + 1;
  if (group.is_world) {
    snprintf(entry.name, sizeof entry.name, "default process group");
  } else {
    snprintf(entry.name, sizeof entry.name, "process group %s", name);
  }
  entry.ready.store(1, std::memory_order_release);
}

}  // namespace

Group* find_group(Address object) noexcept {
  Group* const all = groups.load(std::memory_order_acquire);
  // The latest first: an object that has ended may have had the same address.
  for (std::uint32_t i = group_count.load(std::memory_order_acquire); i-- > 0;)
    if (__atomic_load_n(&all[i].object, __ATOMIC_RELAXED) == object) return &all[i];
  return nullptr;
}

Group* add_group(wire::SegmentHeader* segment, Address object, Address store, std::int32_t rank,
                 std::int32_t size, bool (*is_world)(std::int32_t, std::int32_t)) noexcept {
  char name[32];
  const std::uint64_t identity = identity_of(store, size, name);
  const mpi_wrap::LockIf held(lock, true);
  if (groups.load(std::memory_order_relaxed) == nullptr) {
    auto* const pages = static_cast<Group*>(mpi_wrap::allocate_pages(kMaxGroups * sizeof(Group)));
    if (pages == nullptr) return nullptr;
    groups.store(pages, std::memory_order_release);
  }
  Group* const all = groups.load(std::memory_order_relaxed);
  const std::uint32_t count = group_count.load(std::memory_order_relaxed);
  Group* known = nullptr;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (all[i].object == object) __atomic_store_n(&all[i].object, Address{0}, __ATOMIC_RELAXED);
    if (all[i].identity == identity && all[i].rank == rank) known = &all[i];
  }
  if (known != nullptr) {
    __atomic_store_n(&known->object, object, __ATOMIC_RELAXED);
    return known;
  }
  if (count == kMaxGroups) return nullptr;
  Group& group = all[count];
  group.object = object;
  group.identity = identity;
  group.rank = rank;
  group.size = size;
  group.is_world = !world_was_seen && size > 1 && is_world(rank, size);
  // A launcher below us may start its ranks again: those of restarts have further numbers in the run.
  group.has_run_ranks = group.is_world && clusterprof::agent::launch_id() == 0;
  world_was_seen = world_was_seen || group.is_world;
  give_entry(segment, group, count, name);
  group_count.store(count + 1, std::memory_order_release);
  return &group;
}

bool take_number(Group& group, std::int32_t peer, std::int32_t tag, mpi_wrap::Direction direction,
                 std::uint32_t& number) noexcept {
  const mpi_wrap::LockIf held(group.lock, true);
  std::uint32_t* const next = group.sequences.next(peer, tag, direction);
  if (next == nullptr) return false;
  number = (*next)++;
  return true;
}

void forget_groups() noexcept {
  lock.unlock();
  world_was_seen = false;
  group_count.store(0);
  groups.store(nullptr);
}

}  // namespace clusterprof::torch_wrap
