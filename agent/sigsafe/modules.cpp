// SPDX-License-Identifier: BSD-3-Clause
#include "agent/sigsafe/modules.h"

#include <atomic>

namespace clusterprof::agent {
namespace {

std::atomic<const ModuleTable*> g_table{nullptr};

}  // namespace

const ModuleTable* module_table() noexcept { return g_table.load(std::memory_order_acquire); }

void publish_module_table(const ModuleTable* table) noexcept {
  g_table.store(table, std::memory_order_release);
}

bool find_module(const ModuleTable* table, std::uint64_t pc, Module& out) noexcept {
  const std::uint32_t epoch = __atomic_load_n(&table->epoch, __ATOMIC_ACQUIRE);
  const Module* const modules = table->modules;
  std::uint32_t low = 0;
  std::uint32_t high = table->count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (modules[middle].start <= pc) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  out = modules[low - 1];
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return pc >= out.start && pc < out.end && epoch != 0 &&
         __atomic_load_n(&table->epoch, __ATOMIC_RELAXED) == epoch;
}

}  // namespace clusterprof::agent
