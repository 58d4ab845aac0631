// SPDX-License-Identifier: BSD-3-Clause
// Prints what a native walk costs beside backtrace(), that is, libgcc: ns per frame with a warm cache of
// rules, and where the last walk's stack is still there, the same with the processor's caches cold, and ns
// per new pc.
#include <execinfo.h>
#include <pthread.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "agent/discovery/module_table.h"
#include "agent/sigsafe/native_stack.h"
#include "tests/unit/unwind/workload.hpp"

namespace {

using namespace clusterprof::agent;

std::uint64_t g_low = 0, g_high = 0;  // of the stack

template <typename Function>
double median_ns(unsigned repeats, Function&& function) {
  std::vector<double> times;
  for (unsigned i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    function();
    times.push_back(
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void measure(const char* name) {
  auto stack = std::make_unique<NativeStack>();
  auto* const cache = static_cast<NativeCache*>(std::calloc(1, native_cache_bytes()));
  ucontext_t context;
  getcontext(&context);
  Registers registers{};
  const auto at = [&](int number) { return static_cast<std::uint64_t>(context.uc_mcontext.gregs[number]); };
  registers.rip = at(REG_RIP), registers.rsp = at(REG_RSP), registers.rbp = at(REG_RBP);
  registers.rbx = at(REG_RBX), registers.r12 = at(REG_R12), registers.r13 = at(REG_R13);
  registers.r14 = at(REG_R14), registers.r15 = at(REG_R15);
  // Without the stack's bounds the last walk is not made use of.
  const auto walk = [&] { walk_native(registers, 0, 0, cache, *stack); };
  const auto walk_again = [&] { walk_native(registers, g_low, g_high, cache, *stack); };
  walk();
  const double frames = stack->count;
  std::vector<std::uint64_t> pcs;
  for (std::uint32_t i = 0; i < stack->count; ++i) pcs.push_back(stack->frames[i].pc);
  std::sort(pcs.begin(), pcs.end());
  const double distinct = static_cast<double>(std::unique(pcs.begin(), pcs.end()) - pcs.begin());
  const double warm = median_ns(2000, walk);
  // The cache is cleared outside the timed part; the rest of the memory stays warm.
  std::vector<double> cold_times;
  for (int i = 0; i < 500; ++i) {
    std::memset(static_cast<void*>(cache), 0, native_cache_bytes());
    cold_times.push_back(median_ns(1, walk));
  }
  std::sort(cold_times.begin(), cold_times.end());
  const double cold = cold_times[cold_times.size() / 2];
  const double again = median_ns(2000, walk_again);
  // Another workload between two walks takes the caches of the processor, as it does at 100 Hz.
  std::vector<char> other(8 << 20);
  const auto evicted = [&](auto&& function) {
    std::vector<double> times;
    for (int i = 0; i < 60; ++i) {
      for (std::size_t j = 0; j < other.size(); j += 64) other[j] = static_cast<char>(other[j] + 1);
      times.push_back(median_ns(1, function));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  const double evicted_walk = evicted(walk);
  walk_again();
  const double evicted_again = evicted(walk_again);
  void* buffer[512];
  const double libgcc = median_ns(500, [&] { backtrace(buffer, 512); });
  std::printf(
      "%-24s %3.0f frames%s: ns/frame %5.1f, unchanged stack %5.1f, backtrace() %5.1f (%.0f and %.0f times "
      "ours); "
      "processor caches cold %5.1f and %5.1f; per new pc %5.1f (%.0f pcs)\n",
      name, frames, stack->truncated ? " (truncated)" : "", warm / frames, again / frames, libgcc / frames,
      libgcc / warm, libgcc / again, evicted_walk / frames, evicted_again / frames, (cold - warm) / distinct,
      distinct);
  std::free(cache);
}

}  // namespace

int main() {
  module_table_refresh(nullptr);
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  g_low = reinterpret_cast<std::uint64_t>(low);
  g_high = g_low + bytes;
  for (const int depth : {0, 30, 200}) {
    char name[64];
    std::snprintf(name, sizeof(name), "rsp frames, depth %d", depth);
    test::without_frame_pointers_call(depth, [&] { measure(name); });
    std::snprintf(name, sizeof(name), "rbp frames, depth %d", depth);
    test::with_frame_pointers_call(depth, [&] { measure(name); });
  }
  return 0;
}
