// SPDX-License-Identifier: BSD-3-Clause
// A table that is read without a lock. A row is of the generation in which its search began, and counts only
// as long as that is the present one: so nothing has to be emptied, and a search that was overtaken by an
// unloading leaves nothing behind.
#include "memory-wrap/plugin_functions.hpp"

#include <atomic>

#include "memory-wrap/objects.hpp"

namespace clusterprof::memory_wrap {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

struct Row {
  std::atomic<std::uint32_t> version;  // odd: being written
  std::atomic<std::uint32_t> generation;
  std::atomic<std::uint64_t> caller_begin, caller_end, object_begin, object_end;
  std::atomic<const char*> name;
  std::atomic<void*> function;
};
// A plugin takes a row for each of the functions that it calls. What finds none is searched for each time.
constexpr std::uint32_t kRows = 128;
constinit Row g_rows[kRows] = {};
constinit std::atomic<std::uint32_t> g_rows_used = 0;  // none at or above this one
constinit std::atomic<std::uint32_t> g_generation = 1;

struct Known {
  const char* name;
  ReachedFunction reached;
};

// False: another thread is writing it, or it does not count any more.
bool read_row(const Row& row, std::uint32_t generation, Known& known) noexcept {
  const std::uint32_t version = row.version.load(std::memory_order_acquire);
  if (version % 2 != 0 || row.generation.load(kRelaxed) != generation) return false;
  known = {row.name.load(kRelaxed),
           {row.function.load(kRelaxed),
            {row.caller_begin.load(kRelaxed), row.caller_end.load(kRelaxed)},
            {row.object_begin.load(kRelaxed), row.object_end.load(kRelaxed)}}};
  std::atomic_thread_fence(std::memory_order_acquire);
  return row.version.load(kRelaxed) == version;
}

void remember(std::uint32_t generation, const Known& known) noexcept {
  for (std::uint32_t i = 0; i < kRows; ++i) {
    Row& row = g_rows[i];
    std::uint32_t version = row.version.load(std::memory_order_acquire);
    if (version % 2 != 0 || row.generation.load(kRelaxed) == generation ||
        !row.version.compare_exchange_strong(version, version + 1, std::memory_order_acq_rel))
      continue;
    std::atomic_thread_fence(std::memory_order_release);
    row.generation.store(generation, kRelaxed);
    row.caller_begin.store(known.reached.caller.begin, kRelaxed);
    row.caller_end.store(known.reached.caller.end, kRelaxed);
    row.object_begin.store(known.reached.object.begin, kRelaxed);
    row.object_end.store(known.reached.object.end, kRelaxed);
    row.name.store(known.name, kRelaxed);
    row.function.store(known.reached.function, kRelaxed);
    row.version.store(version + 2, std::memory_order_release);
    std::uint32_t used = g_rows_used.load(kRelaxed);
    while (used <= i && !g_rows_used.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
    }
    return;
  }
}

// Calls visit(known) for each row that counts, until it returns true.
template <typename Visit>
void for_each_known(std::uint32_t generation, Visit visit) noexcept {
  const std::uint32_t used = g_rows_used.load(std::memory_order_acquire);
  Known known;
  for (std::uint32_t i = 0; i < used; ++i)
    if (read_row(g_rows[i], generation, known) && visit(known)) return;
}

}  // namespace

void* plugin_function(const void* caller, const char* name) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  const std::uint32_t generation = g_generation.load(std::memory_order_acquire);
  bool is_known = false;
  void* function = nullptr;
  for_each_known(generation, [&](const Known& known) {
    is_known = known.name == name && known.reached.caller.contains(address);
    if (is_known) function = known.reached.function;
    return is_known;
  });
  if (is_known) return function;
  const ReachedFunction reached = function_reached(caller, name);
  if (reached.caller.end != 0) remember(generation, {name, reached});
  return reached.function;
}

bool is_in_plugin_allocator(std::uintptr_t address) noexcept {
  bool is_in = false;
  for_each_known(g_generation.load(std::memory_order_acquire), [&](const Known& known) {
    is_in = known.reached.object.contains(address);
    return is_in;
  });
  return is_in;
}

void forget_plugin_functions() noexcept { g_generation.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace clusterprof::memory_wrap
