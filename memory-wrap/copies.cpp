// SPDX-License-Identifier: BSD-3-Clause
// The interposed functions that copy memory. The loader and the functions that choose between variants call
// them before there is any thread-local data: whether the functions behind are known says that there is.
#include "agent/lifecycle/interpose.h"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

void* copy_early(void* to, const void* from, std::size_t bytes) noexcept {
  void* end = to;
  if (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from) >= bytes) {
    asm volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(bytes) : : "memory");
  } else {  // from the back, since it overlaps
    end = static_cast<char*>(to) + bytes - 1;
    from = static_cast<const char*>(from) + bytes - 1;
    asm volatile("std\n\trep movsb\n\tcld" : "+D"(end), "+S"(from), "+c"(bytes) : : "memory", "cc");
  }
  return to;
}

[[gnu::noinline]] void note_copy(std::size_t bytes, const void* caller) noexcept {
  const Sample sample = decide_copy(bytes);
  const agent::MemoryRecorder* const to = recorder();
  if (sample.taken && to != nullptr) to->copied(sample.weight.bytes, sample.weight.calls, caller);
}

// memcpy of old programs may overlap, and libc's memmove is as fast.
[[gnu::always_inline]] inline void* copy(void* to, const void* from, std::size_t bytes,
                                         const void* caller) noexcept {
  auto* const next = g_functions.memmove.load(kRelaxed);
  if (next == nullptr) [[unlikely]]
    return copy_early(to, from, bytes);
  if (is_due(t_state.copies, bytes)) [[unlikely]]
    note_copy(bytes, caller);
  return next(to, from, bytes);
}

// It ends the program where the copy does not fit.
[[gnu::always_inline]] inline void* copy_checked(void* to, const void* from, std::size_t bytes,
                                                 std::size_t room, const void* caller) noexcept {
  if (bytes > room) [[unlikely]] {
    auto* const next = have_functions() ? g_functions.__memmove_chk.load(kRelaxed) : nullptr;
    if (next != nullptr) return next(to, from, bytes, room);
    __builtin_trap();
  }
  return copy(to, from, bytes, caller);
}

}  // namespace
}  // namespace clusterprof::memory_wrap

using namespace clusterprof::memory_wrap;

CLUSTERPROF_STANDS_FOR(void*, memcpy, void* to, const void* from, std::size_t bytes) {
  return copy(to, from, bytes, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(void*, memmove, void* to, const void* from, std::size_t bytes) {
  return copy(to, from, bytes, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(void*, __memcpy_chk, void* to, const void* from, std::size_t bytes, std::size_t room) {
  return copy_checked(to, from, bytes, room, CLUSTERPROF_CALLER);
}
CLUSTERPROF_STANDS_FOR(void*, __memmove_chk, void* to, const void* from, std::size_t bytes,
                       std::size_t room) {
  return copy_checked(to, from, bytes, room, CLUSTERPROF_CALLER);
}
