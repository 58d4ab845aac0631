// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>

#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

constinit std::atomic<bool> g_new_is_locked = false;

}  // namespace

void* map_memory(std::uint64_t bytes, int file) noexcept {
  const int flags = (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_NORESERVE;
  // Memory that cannot be accessed yet is not brought in when the program locks its memory.
  const bool unlock = g_new_is_locked.load(std::memory_order_relaxed);
  const int first = unlock ? PROT_NONE : PROT_READ | PROT_WRITE;
  const long address = raw_syscall(SYS_mmap, nullptr, bytes, first, flags, file, 0);
  if (address < 0 && address > -4096) return nullptr;
  if (unlock) {
    raw_syscall(SYS_munlock, address, bytes);
    if (raw_syscall(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE) != 0) {
      raw_syscall(SYS_munmap, address, bytes);
      return nullptr;
    }
  }
  return reinterpret_cast<void*>(address);
}

void unmap_memory(void* memory, std::uint64_t bytes) noexcept { raw_syscall(SYS_munmap, memory, bytes); }

void set_new_memory_locked(bool locked) noexcept { g_new_is_locked.store(locked, std::memory_order_relaxed); }

bool new_memory_is_locked() noexcept { return g_new_is_locked.load(std::memory_order_relaxed); }

}  // namespace clusterprof::agent
