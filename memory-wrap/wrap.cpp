// SPDX-License-Identifier: BSD-3-Clause
// What the agent finds of this object (agent/memory_api.h).
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/memory_api.h"
#include "agent/sigsafe/raw_syscall.h"
#include "memory-wrap/early.hpp"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/plugin_functions.hpp"
#include "memory-wrap/python.hpp"
#include "memory-wrap/slow_path.hpp"

// Defined by the linker: start and end of this object in memory.
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start[];
extern "C" [[gnu::visibility("hidden")]] const char _end[];

namespace clusterprof::memory_wrap {
namespace {

// Whether a function of an allocator's own calls our functions, as operator new of jemalloc up to 5.2.1 does,
// and that with an alignment of later ones. Nothing is recorded yet.
template <typename Make, typename End>
bool calls_us(Make make, End end) noexcept {
  const Countdown countdown = t_state.heap;
  const ObjectRequest request = t_state.request;
  t_state.request = {true, 1, {false, {0, 0, 0}}};
  t_state.heap.left = 0;  // leads malloc to the slow path, which closes the request
  void* const block = make();
  const bool called = !t_state.request.is_open;
  t_state.heap = countdown;
  t_state.request = request;
  end(block);
  return called;
}

void find_functions() noexcept {
  if (!have_functions()) return;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  auto* const make = g_functions._Znwm.load(kRelaxed);
  auto* const end = g_functions._ZdlPv.load(kRelaxed);
  if (make != nullptr && end != nullptr && g_passed._Znwm.load(kRelaxed) == nullptr &&
      calls_us([=] { return make(1); }, end))
    pass_new(false);
  constexpr std::size_t kAlignment = 64;
  auto* const make_aligned = g_functions._ZnwmSt11align_val_t.load(kRelaxed);
  auto* const end_aligned = g_functions._ZdlPvSt11align_val_t.load(kRelaxed);
  if (make_aligned != nullptr && end_aligned != nullptr &&
      g_passed._ZnwmSt11align_val_t.load(kRelaxed) == nullptr &&
      calls_us([=] { return make_aligned(kAlignment, kAlignment); },
               [=](void* block) { end_aligned(block, kAlignment); }))
    pass_new(true);
}

// Early blocks are known by their counters: who frees one must not call the allocator.
void forget_blocks() noexcept {
  if (agent::raw_syscall(SYS_madvise, &g_filter, sizeof g_filter, MADV_DONTNEED) != 0)  // it may be locked
    for (auto& counter : g_filter) counter.store(0, std::memory_order_relaxed);
  for_each_early([](const void* address) { filter_add(g_filter, address); });
  // Processes that do the same would choose the same bytes.
  t_state.heap = {};
  t_state.copies = {};
  t_state.random = 0;
}

bool maps_for_heap(const void* caller) noexcept { return t_state.maps_for_heap || is_in_allocator(caller); }

}  // namespace
}  // namespace clusterprof::memory_wrap

[[gnu::visibility("default")]] constinit clusterprof::agent::MemoryWrap clusterprof_memory_wrap_v1 = {
    clusterprof::agent::MemoryPhase::kNotStarted,
    0,
    nullptr,
    __ehdr_start,
    _end,
    clusterprof::memory_wrap::find_functions,
    clusterprof::memory_wrap::malloc_is_ours,
    clusterprof::memory_wrap::calls_other_malloc,
    clusterprof::memory_wrap::forget_plugin_functions,
    clusterprof::memory_wrap::forget_blocks,
    clusterprof::memory_wrap::hook_python,
    false,
    false,
    clusterprof::memory_wrap::maps_for_heap};
