// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/worlds.hpp"

#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "agent/sigsafe/spin_wait.h"
#include "formats/wire/launch_evidence.h"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/spin_lock.hpp"
#include "mpi-wrap/src/state.hpp"

namespace clusterprof::mpi_wrap {
namespace {

// --- what the launcher left in the environment ---

constexpr int kMaxWords = 64;

struct LaunchInfo {
  std::int32_t first;
  // The number of this process's world; 0: it was not spawned.
  int number;
  // Where the links of spawned worlds are, as this process names them.
  const char* worlds_directory;
  // For the processes that it spawns.
  SpawnCommand command;
  const char* options[kMaxWords];
};
LaunchInfo launch;

// A copy of a variable's value, since the program may change its environment. Null if the variable is not
// set, or is meant for another MPI job and was inherited.
char* copy_variable(const char* name) noexcept {
  const char* text = getenv(name);
  if (text == nullptr) return nullptr;
  char* rest = nullptr;
  const std::uint64_t evidence = strtoull(text, &rest, 16);
  if (*rest != ':' || evidence != wire::launch_evidence(getenv)) return nullptr;
  const std::size_t bytes = strlen(++rest) + 1;
  auto* copy = static_cast<char*>(allocate_pages(bytes));
  if (copy != nullptr) memcpy(copy, rest, bytes);
  return copy;
}

void read_own_world() noexcept {
  const char* text = copy_variable(wire::kWorldVariable);
  std::int32_t number = 0, first = 0;
  if (text == nullptr || !wire::parse_world_number(text, 1, ':', number) ||
      !wire::parse_world_number(text, 1, ':', first)) {
    return;
  }
  launch.number = number;
  launch.first = first;
  launch.worlds_directory = text;
}

void read_spawn_command() noexcept {
  char* text = copy_variable(wire::kSpawnVariable);
  if (text == nullptr) return;
  const char* words[kMaxWords + 2];
  int count = 0;
  for (char* word = text; word != nullptr;) {
    if (count == kMaxWords + 2) return;
    words[count++] = word;
    word = strchr(word, wire::kWordEnd);
    if (word != nullptr) *word++ = '\0';
  }
  if (count < 3) return;
  launch.command = {words[0], words[1], launch.options, count - 2};
  for (int i = 2; i < count; ++i) launch.options[i - 2] = words[i];
}

const LaunchInfo& launch_info() noexcept {
  static std::atomic<int> step;  // 0 not read yet, 1 being read, 2 read
  if (step.load(std::memory_order_acquire) != 2) {
    int now = 0;
    if (step.compare_exchange_strong(now, 1)) {
      read_own_world();
      read_spawn_command();
      step.store(2, std::memory_order_release);
    } else {
      agent::wait_until([] { return step.load(std::memory_order_acquire) == 2; });
    }
  }
  return launch;
}

// --- worlds ---

// After this many worlds, the ranks of later ones are unknown.
constexpr std::uint32_t kMaxWorlds = 1024;

struct World {
  MPI_Group group;
  RankMap ranks;
};
World worlds[kMaxWorlds];  // the first one is this process's own
std::atomic<std::uint32_t> world_count;
SpinLock worlds_lock;  // another thread may end the session that the first one's group is from

void end_worlds_locked() noexcept {
  const auto group_free = CLUSTERPROF_LIBRARY(MPI_Group_free);
  const std::uint32_t count = world_count.exchange(0);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (group_free != nullptr) group_free(&worlds[i].group);
    worlds[i].ranks.clear();
  }
}

}  // namespace

std::int32_t first_rank() noexcept { return launch_info().first; }

void start_worlds(MPI_Group own, std::int32_t size) noexcept {
  const LockIf held(worlds_lock, state.shared);
  if (world_count.load(std::memory_order_relaxed) != 0) end_worlds_locked();  // of an earlier recording
  worlds[0].group = own;
  worlds[0].ranks.assign_regular(first_rank(), 1, size);
  world_count.store(1, std::memory_order_release);
}

void end_worlds() noexcept {
  const LockIf held(worlds_lock, state.shared);
  end_worlds_locked();
}

bool is_own_world(MPI_Group group) noexcept {
  const auto compare = CLUSTERPROF_LIBRARY(MPI_Group_compare);
  int result = MPI_UNEQUAL;
  const LockIf held(worlds_lock, state.shared);
  return compare != nullptr && world_count.load(std::memory_order_acquire) != 0 &&
         compare(group, worlds[0].group, &result) == MPI_SUCCESS && result == MPI_IDENT;
}

void add_world(MPI_Group group, RankMap& ranks) noexcept {
  const LockIf held(worlds_lock, state.shared);
  const std::uint32_t count = world_count.load(std::memory_order_relaxed);
  if (count == 0 || count == kMaxWorlds) {
    const auto group_free = CLUSTERPROF_LIBRARY(MPI_Group_free);
    if (group_free != nullptr) group_free(&group);
    ranks.clear();
    return;
  }
  worlds[count] = {group, ranks};
  world_count.store(count + 1, std::memory_order_release);
}

bool find_run_ranks(MPI_Group group, std::int32_t count, const std::int32_t* members, std::int32_t* found,
                    std::int32_t* scratch) noexcept {
  const auto translate = CLUSTERPROF_LIBRARY(MPI_Group_translate_ranks);
  const LockIf held(worlds_lock, state.shared);
  const std::uint32_t known = world_count.load(std::memory_order_acquire);
  if (translate == nullptr || known == 0) return false;
  for (std::int32_t i = 0; i < count; ++i) found[i] = kUnknownRank;
  std::int32_t left = count;
  // Most are of the process's own world, and then of the one that it has made last.
  for (std::uint32_t n = 0; n < known && left > 0; ++n) {
    const World& world = worlds[n == 0 ? 0 : known - n];
    if (translate(group, count, members, world.group, scratch) != MPI_SUCCESS) return false;
    for (std::int32_t i = 0; i < count; ++i) {
      if (found[i] >= 0 || scratch[i] < 0) continue;
      found[i] = world.ranks.world_rank(scratch[i]);
      if (found[i] >= 0) --left;
    }
  }
  return true;
}

bool read_own_callers(RankMap& callers) noexcept {
  const LaunchInfo& own = launch_info();
  return own.number != 0 && read_callers(own.worlds_directory, own.number, callers);
}

NewWorld make_world(const SpawnCall& call, std::int32_t size) noexcept {
  const SpawnCommand* const command = spawn_command();
  if (command == nullptr || world_count.load(std::memory_order_acquire) == 0) return {};
  return make_world(command->worlds_directory, launch.number, worlds[0].ranks.size(), call, size);
}

const SpawnCommand* spawn_command() noexcept {
  const LaunchInfo& info = launch_info();
  return info.command.worlds_directory == nullptr ? nullptr : &info.command;
}

}  // namespace clusterprof::mpi_wrap
