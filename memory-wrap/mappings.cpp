// SPDX-License-Identifier: BSD-3-Clause
// The interposed functions that get memory from the kernel or give it back, but for mmap, which is the
// agent's. Open MPI and UCX write a jump to functions of their own over the code of libc's munmap and the
// like: calls that come to us reach these through libc's. Where they do so with ours, we do not see the call,
// and what was there ends for us when the place is mapped again.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/lifecycle/interpose.h"
#include "agent/memory_api.h"
#include "agent/sigsafe/raw_syscall.h"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uintptr_t kPage = 4096;

using agent::raw_syscall;

long failing(long result) noexcept {
  if (result >= 0 || result <= -4096) return result;
  errno = static_cast<int>(-result);
  return -1;
}

void note_heap_end(std::uintptr_t before, std::uintptr_t now, const void* caller) noexcept {
  const agent::MemoryRecorder* const to = recorder();
  if (to == nullptr || is_in_allocator(caller)) return;
  if (now > before)
    to->mapped(reinterpret_cast<const void*>(before), now - before, wire::MemoryDomain::kMapping, caller);
  if (now < before) to->unmapped(reinterpret_cast<const void*>(now), before - now);
}

}  // namespace
}  // namespace clusterprof::memory_wrap

using namespace clusterprof::memory_wrap;
namespace agent = clusterprof::agent;

CLUSTERPROF_STANDS_FOR(int, munmap, void* address, std::size_t bytes) {
  const agent::MemoryRecorder* const to = recorder();
  // Before, since another thread may be given the place as soon as it is free.
  const bool is_valid = reinterpret_cast<std::uintptr_t>(address) % kPage == 0 && bytes != 0;
  if (to != nullptr && is_valid) to->unmapped(address, (bytes + kPage - 1) / kPage * kPage);
  auto* const next = g_functions.munmap.load(kRelaxed);
  if (next != nullptr) return next(address, bytes);
  return static_cast<int>(failing(raw_syscall(SYS_munmap, address, bytes)));
}

CLUSTERPROF_STANDS_FOR(void*, mremap, void* address, std::size_t bytes, std::size_t new_bytes, int flags,
                       ...) {
  va_list arguments;
  va_start(arguments, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  const agent::MemoryRecorder* const to = recorder();
  agent::MovingMappings moving;
  if (to != nullptr) to->moves(address, (bytes + kPage - 1) / kPage * kPage, moving);
  auto* const next = g_functions.mremap.load(kRelaxed);
  void* const moved = next != nullptr ? next(address, bytes, new_bytes, flags, wanted)
                                      : reinterpret_cast<void*>(failing(raw_syscall(
                                            SYS_mremap, address, bytes, new_bytes, flags, wanted)));
  if (to != nullptr) to->moved(moving, moved == MAP_FAILED ? nullptr : moved, new_bytes, CLUSTERPROF_CALLER);
  return moved;
}

CLUSTERPROF_STANDS_FOR(void*, sbrk, std::intptr_t bytes) {
  if (!have_functions()) {
    errno = ENOMEM;
    return reinterpret_cast<void*>(-1);
  }
  void* const before = g_functions.sbrk.load(kRelaxed)(bytes);
  if (before != reinterpret_cast<void*>(-1) && bytes != 0) {
    const auto end = reinterpret_cast<std::uintptr_t>(before);
    note_heap_end(end, end + static_cast<std::uintptr_t>(bytes), CLUSTERPROF_CALLER);
  }
  return before;
}

CLUSTERPROF_STANDS_FOR(int, brk, void* end) {
  if (!have_functions()) {
    errno = ENOMEM;
    return -1;
  }
  const auto before = reinterpret_cast<std::uintptr_t>(g_functions.sbrk.load(kRelaxed)(0));
  const int result = g_functions.brk.load(kRelaxed)(end);
  if (result == 0) note_heap_end(before, reinterpret_cast<std::uintptr_t>(end), CLUSTERPROF_CALLER);
  return result;
}

CLUSTERPROF_STANDS_FOR(void*, shmat, int segment, const void* wanted, int flags) {
  auto* const next = have_functions() ? g_functions.shmat.load(kRelaxed) : nullptr;
  void* const address =
      next != nullptr ? next(segment, wanted, flags)
                      : reinterpret_cast<void*>(failing(raw_syscall(SYS_shmat, segment, wanted, flags)));
  const agent::MemoryRecorder* const to = recorder();
  if (to != nullptr && address != reinterpret_cast<void*>(-1))
    to->attached(segment, address, CLUSTERPROF_CALLER);
  return address;
}

CLUSTERPROF_STANDS_FOR(int, shmdt, const void* address) {
  agent::KeptBlock block;
  const agent::MemoryRecorder* const to = recorder();
  if (to != nullptr && to->take(address, block)) {
    to->put_back(block);
    to->unmapped(address, block.bytes);
  }
  auto* const next = have_functions() ? g_functions.shmdt.load(kRelaxed) : nullptr;
  if (next != nullptr) return next(address);
  return static_cast<int>(failing(raw_syscall(SYS_shmdt, address)));
}
