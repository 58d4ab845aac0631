// SPDX-License-Identifier: BSD-3-Clause
// Finds out when the program begins to end: what its exit handlers free counts as live at the end. libc runs
// the handlers in the order that is opposite to their registration, and so one of ours comes behind each of
// the program's.
#include "agent/lifecycle/interpose.h"
#include "agent/memory_api.h"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// libc forgets the handlers of a library that is unloaded, but not ours behind them. In programs that load
// and unload for ever, those of the first ones have to do. 32 bytes each.
constexpr std::uint32_t kMostHandlers = 16384;
constinit std::atomic<std::uint32_t> g_handlers = 0;

void begin_to_end(void*) {
  if (const agent::MemoryRecorder* const to = recorder(); to != nullptr) to->ends();
}

void register_again() noexcept {
  // For no object file, since none may take it along when it is unloaded.
  auto* const next = g_functions.__cxa_atexit.load(kRelaxed);
  if (next != nullptr && g_handlers.fetch_add(1, kRelaxed) < kMostHandlers)
    next(begin_to_end, nullptr, nullptr);
}

[[gnu::constructor]] void register_first() {
  if (have_functions()) register_again();
}

}  // namespace
}  // namespace clusterprof::memory_wrap

using namespace clusterprof::memory_wrap;

CLUSTERPROF_STANDS_FOR(int, __cxa_atexit, void (*handler)(void*), void* argument, void* object) {
  auto* const next = have_functions() ? g_functions.__cxa_atexit.load(kRelaxed) : nullptr;
  if (next == nullptr) return -1;
  const int result = next(handler, argument, object);
  if (result == 0) register_again();
  return result;
}

CLUSTERPROF_STANDS_FOR(int, on_exit, void (*handler)(int, void*), void* argument) {
  auto* const next = have_functions() ? g_functions.on_exit.load(kRelaxed) : nullptr;
  if (next == nullptr) return -1;
  const int result = next(handler, argument);
  if (result == 0) register_again();
  return result;
}
