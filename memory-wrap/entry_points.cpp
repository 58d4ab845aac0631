// SPDX-License-Identifier: BSD-3-Clause
// The interposed functions of allocators. A call that is not recorded costs a comparison, a subtraction and a
// jump; a free costs the look at a counter.
#include <errno.h>
#include <malloc.h>

#include <cstring>

#include "agent/lifecycle/interpose.h"
#include "memory-wrap/early.hpp"
#include "memory-wrap/functions.hpp"
#include "memory-wrap/objects.hpp"
#include "memory-wrap/plugin_functions.hpp"
#include "memory-wrap/slow_path.hpp"

namespace clusterprof::memory_wrap {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Of what a function gives out before those behind are known.
void* allocate_early(std::size_t bytes, std::size_t alignment) noexcept {
  void* const address = early_allocate(bytes, alignment);
  if (address == nullptr)
    errno = ENOMEM;
  else
    filter_add(g_filter, address);
  return address;
}

std::size_t product(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

// Calls `allocate`, which returns the block, and records the block if that is due.
template <typename Allocate>
[[gnu::always_inline]] inline void* allocating(std::size_t bytes, const void* caller, Allocate allocate) {
  if (t_state.request.is_open) {
    t_state.request.is_open = false;
    const ObjectRequest request = t_state.request;
    void* const address = allocate();
    record(request.sample, address, request.bytes, caller);
    return address;
  }
  const Sample sample = decide(bytes);
  void* const address = allocate();
  if (sample.taken) record(sample, address, bytes, caller);
  return address;
}

// The same for one that resizes a block or moves it. `reallocate` returns null when that fails; or, for a
// size of 0, when the block is gone.
template <typename Reallocate>
[[gnu::always_inline]] inline void* reallocating(void* block, std::size_t bytes, const void* caller,
                                                 Reallocate reallocate) {
  Reallocation old(block);
  void* address = nullptr;
  const auto move = [&] {
    address = reallocate();
    if (address == nullptr && bytes != 0)
      old.failed();
    else
      old.succeeded();
    return address;
  };
  // What is recorded of the new block comes behind the end of the old one.
  return allocating(bytes, caller, move);
}

// An early block moves to the heap.
[[gnu::noinline]] void* leave_early(void* block, std::size_t bytes) noexcept {
  auto* const allocate = g_functions.malloc.load(kRelaxed);
  void* const moved = have_functions() && allocate != nullptr ? allocate(bytes) : allocate_early(bytes, 0);
  if (moved != nullptr) {
    const std::size_t had = early_bytes(block);
    std::memcpy(moved, block, had < bytes ? had : bytes);
  }
  return moved;
}

// The slow paths of functions of each kind. `Call` calls the function that is given.

template <typename Function, typename Call>
[[gnu::noinline]] void* allocate_slowly(std::atomic<Function*>& function, std::size_t bytes,
                                        std::size_t alignment, const void* caller, Call call) {
  if (!have_functions()) return allocate_early(bytes, alignment);
  Function* const next = function.load(kRelaxed);
  if (next == nullptr) return allocate_early(bytes, alignment);  // libc has them all
  return allocating(bytes, caller, [&] { return call(next); });
}

void free_slowly(void* block) noexcept {
  if (is_early(block)) return;
  if (!have_functions()) return;  // nothing but early blocks was given out
  if (filter_may_have(g_filter, block)) note_free(block);
  if (auto* const next = g_functions.free.load(kRelaxed); next != nullptr) next(block);
}

}  // namespace
}  // namespace clusterprof::memory_wrap

using namespace clusterprof::memory_wrap;

// --- libc's ---------------------------------------------------------------------------------

CLUSTERPROF_STANDS_FOR(void*, malloc, std::size_t bytes) {
  auto* const next = g_functions.malloc.load(kRelaxed);
  if (next == nullptr || is_due(bytes)) [[unlikely]]
    return allocate_slowly(g_functions.malloc, bytes, 0, CLUSTERPROF_CALLER,
                           [=](auto* function) { return function(bytes); });
  return next(bytes);
}

CLUSTERPROF_STANDS_FOR(void, free, void* block) {
  auto* const next = g_functions.free.load(kRelaxed);
  if (next == nullptr || filter_may_have(g_filter, block)) [[unlikely]]
    return free_slowly(block);
  next(block);
}

CLUSTERPROF_STANDS_FOR(void*, calloc, std::size_t count, std::size_t size) {
  auto* const next = g_functions.calloc.load(kRelaxed);
  if (next == nullptr || is_due(product(count, size))) [[unlikely]]
    return allocate_slowly(g_functions.calloc, product(count, size), 0, CLUSTERPROF_CALLER,
                           [=](auto* function) { return function(count, size); });
  return next(count, size);
}

static void* reallocate(void* block, std::size_t bytes, const void* caller) {
  if (is_early(block)) return leave_early(block, bytes);
  if (!have_functions()) return block == nullptr ? clusterprof_malloc(bytes) : nullptr;
  auto* const next = g_functions.realloc.load(kRelaxed);
  return reallocating(block, bytes, caller, [=] { return next(block, bytes); });
}

CLUSTERPROF_STANDS_FOR(void*, realloc, void* block, std::size_t bytes) {
  auto* const next = g_functions.realloc.load(kRelaxed);
  if (next == nullptr || filter_may_have(g_filter, block) || is_due(bytes)) [[unlikely]]
    return reallocate(block, bytes, CLUSTERPROF_CALLER);
  return next(block, bytes);
}

CLUSTERPROF_STANDS_FOR(void*, reallocarray, void* block, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return reallocate(block, bytes, CLUSTERPROF_CALLER);
}

#define CLUSTERPROF_ALIGNED(name)                                                         \
  CLUSTERPROF_STANDS_FOR(void*, name, std::size_t alignment, std::size_t bytes) {         \
    auto* const next = g_functions.name.load(kRelaxed);                                   \
    if (next == nullptr || is_due(bytes)) [[unlikely]]                                    \
      return allocate_slowly(g_functions.name, bytes, alignment, CLUSTERPROF_CALLER,      \
                             [=](auto* function) { return function(alignment, bytes); }); \
    return next(alignment, bytes);                                                        \
  }
CLUSTERPROF_ALIGNED(memalign)
CLUSTERPROF_ALIGNED(aligned_alloc)

static constexpr std::size_t kPage = 4096;
#define CLUSTERPROF_OF_PAGES(name)                                               \
  CLUSTERPROF_STANDS_FOR(void*, name, std::size_t bytes) {                       \
    auto* const next = g_functions.name.load(kRelaxed);                          \
    if (next == nullptr || is_due(bytes)) [[unlikely]]                           \
      return allocate_slowly(g_functions.name, bytes, kPage, CLUSTERPROF_CALLER, \
                             [=](auto* function) { return function(bytes); });   \
    return next(bytes);                                                          \
  }
CLUSTERPROF_OF_PAGES(valloc)
CLUSTERPROF_OF_PAGES(pvalloc)

// Returns the error, and leaves errno alone.
template <typename Function>
[[gnu::noinline]] static int place_slowly(Function* function, void** to, std::size_t alignment,
                                          std::size_t bytes, const void* caller) {
  const int saved_errno = errno;
  int error = ENOMEM;
  if (function == nullptr) {
    void* const address = allocate_early(bytes, alignment);
    if (address != nullptr) {
      *to = address;
      error = 0;
    }
  } else {
    allocating(bytes, caller, [&]() -> void* {
      error = function(to, alignment, bytes);
      return error == 0 ? *to : nullptr;
    });
  }
  errno = saved_errno;
  return error;
}

CLUSTERPROF_STANDS_FOR(int, posix_memalign, void** to, std::size_t alignment, std::size_t bytes) {
  auto* next = g_functions.posix_memalign.load(kRelaxed);
  if (next == nullptr && have_functions()) [[unlikely]]
    next = g_functions.posix_memalign.load(kRelaxed);
  if (next == nullptr || is_due(bytes)) [[unlikely]]
    return place_slowly(next, to, alignment, bytes, CLUSTERPROF_CALLER);
  return next(to, alignment, bytes);
}

// --- C++'s ----------------------------------------------------------------------------------

// Where no object behind us has the function, only some objects see a run time, whose function calls malloc.
// So does this. That function is looked for only when there is no memory.
template <typename Function, typename Call>
[[gnu::noinline]] static void* make_slowly(std::atomic<Function*>& function, const char* name,
                                           std::size_t bytes, std::size_t alignment, const void* caller,
                                           Call call) {
  if (!have_functions()) return allocate_early(bytes, alignment);
  if (Function* const next = function.load(kRelaxed); next != nullptr)
    return allocating(bytes, caller, [&] { return call(next); });
  const std::size_t wanted = bytes != 0 ? bytes : 1;
  const auto allocate = [=]() -> void* {
    return alignment == 0 ? g_functions.malloc.load(kRelaxed)(wanted)
                          : g_functions.memalign.load(kRelaxed)(alignment, wanted);
  };
  void* const made = is_due(bytes) ? allocating(bytes, caller, allocate) : allocate();
  if (made != nullptr) return made;
  auto* const found = reinterpret_cast<Function*>(function_reached(caller, name).function);
  return found != nullptr ? call(found) : nullptr;
}

#define CLUSTERPROF_NEW(name, alignment, parameters, ...)                                \
  CLUSTERPROF_STANDS_FOR(void*, name, CLUSTERPROF_UNPACK parameters) {                   \
    if (auto* const passed = g_passed.name.load(kRelaxed); passed != nullptr) [[likely]] \
      return passed(__VA_ARGS__);                                                        \
    auto* const next = g_functions.name.load(kRelaxed);                                  \
    if (next == nullptr || is_due(bytes)) [[unlikely]]                                   \
      return make_slowly(g_functions.name, #name, bytes, alignment, CLUSTERPROF_CALLER,  \
                         [=](auto* function) { return function(__VA_ARGS__); });         \
    return next(__VA_ARGS__);                                                            \
  }
CLUSTERPROF_NEW(_Znwm, 0, (std::size_t bytes), bytes)
CLUSTERPROF_NEW(_Znam, 0, (std::size_t bytes), bytes)
CLUSTERPROF_NEW(_ZnwmRKSt9nothrow_t, 0, (std::size_t bytes, const NoThrow* tag), bytes, tag)
CLUSTERPROF_NEW(_ZnamRKSt9nothrow_t, 0, (std::size_t bytes, const NoThrow* tag), bytes, tag)
CLUSTERPROF_NEW(_ZnwmSt11align_val_t, align, (std::size_t bytes, std::size_t align), bytes, align)
CLUSTERPROF_NEW(_ZnamSt11align_val_t, align, (std::size_t bytes, std::size_t align), bytes, align)
CLUSTERPROF_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, align,
                (std::size_t bytes, std::size_t align, const NoThrow* tag), bytes, align, tag)
CLUSTERPROF_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, align,
                (std::size_t bytes, std::size_t align, const NoThrow* tag), bytes, align, tag)

template <typename Function, typename Call>
[[gnu::noinline]] static void delete_slowly(std::atomic<Function*>& function, void* block, Call call) {
  if (!have_functions() || function.load(kRelaxed) == nullptr) return clusterprof_free(block);
  if (is_early(block)) return;
  if (filter_may_have(g_filter, block)) note_free(block);
  call(function.load(kRelaxed));
}

#define CLUSTERPROF_DELETE(name, parameters, ...)                                                           \
  CLUSTERPROF_STANDS_FOR(void, name, CLUSTERPROF_UNPACK parameters) {                                       \
    if (auto* const passed = g_passed.name.load(kRelaxed); passed != nullptr) [[likely]]                    \
      return passed(__VA_ARGS__);                                                                           \
    auto* const next = g_functions.name.load(kRelaxed);                                                     \
    if (next == nullptr || filter_may_have(g_filter, block)) [[unlikely]]                                   \
      return delete_slowly(g_functions.name, block, [=](auto* function) { return function(__VA_ARGS__); }); \
    next(__VA_ARGS__);                                                                                      \
  }
CLUSTERPROF_DELETE(_ZdlPv, (void* block), block)
CLUSTERPROF_DELETE(_ZdaPv, (void* block), block)
CLUSTERPROF_DELETE(_ZdlPvm, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_DELETE(_ZdaPvm, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_DELETE(_ZdlPvRKSt9nothrow_t, (void* block, const NoThrow* tag), block, tag)
CLUSTERPROF_DELETE(_ZdaPvRKSt9nothrow_t, (void* block, const NoThrow* tag), block, tag)
CLUSTERPROF_DELETE(_ZdlPvSt11align_val_t, (void* block, std::size_t align), block, align)
CLUSTERPROF_DELETE(_ZdaPvSt11align_val_t, (void* block, std::size_t align), block, align)
CLUSTERPROF_DELETE(_ZdlPvmSt11align_val_t, (void* block, std::size_t bytes, std::size_t align), block, bytes,
                   align)
CLUSTERPROF_DELETE(_ZdaPvmSt11align_val_t, (void* block, std::size_t bytes, std::size_t align), block, bytes,
                   align)
CLUSTERPROF_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void* block, std::size_t align, const NoThrow* tag),
                   block, align, tag)
CLUSTERPROF_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void* block, std::size_t align, const NoThrow* tag),
                   block, align, tag)

// --- allocators' own names ------------------------------------------------------------------

// Without such an allocator they are libc's, for a program that has only asked whether the name is there.
// Where the allocator itself calls them, it is within a call that is counted.

// The function behind.
#define CLUSTERPROF_NEXT(name) (have_functions() ? g_functions.name.load(kRelaxed) : nullptr)

// That of the calling object, where none is behind us. Null: there is none.
#define CLUSTERPROF_OF_PLUGIN(name)                                                                         \
  (have_functions() ? reinterpret_cast<Functions::name##_type*>(plugin_function(CLUSTERPROF_CALLER, #name)) \
                    : nullptr)

template <typename Allocate>
[[gnu::noinline]] static void* allocating_in_plugin(std::size_t bytes, const void* caller,
                                                    Allocate allocate) {
  const auto counted = [&] {
    const Counted inner;
    return allocate();
  };
  return is_due(bytes) ? allocating(bytes, caller, counted) : counted();
}

template <typename Reallocate>
[[gnu::noinline]] static void* reallocating_in_plugin(void* block, std::size_t bytes, const void* caller,
                                                      Reallocate reallocate) {
  const auto counted = [&] {
    const Counted inner;
    return reallocate();
  };
  return filter_may_have(g_filter, block) || is_due(bytes) ? reallocating(block, bytes, caller, counted)
                                                           : counted();
}

#define CLUSTERPROF_OWN(name, bytes_of_it, parameters, instead, ...)                                  \
  CLUSTERPROF_STANDS_FOR(void*, name, CLUSTERPROF_UNPACK parameters) {                                \
    if (auto* const next = CLUSTERPROF_NEXT(name); next != nullptr) {                                 \
      if (has_malloc(CLUSTERPROF_CALLER) || !is_due(bytes_of_it)) return next(__VA_ARGS__);           \
      return allocating(bytes_of_it, CLUSTERPROF_CALLER, [=] { return next(__VA_ARGS__); });          \
    }                                                                                                 \
    auto* const found = CLUSTERPROF_OF_PLUGIN(name);                                                  \
    if (found == nullptr) return instead;                                                             \
    return allocating_in_plugin(bytes_of_it, CLUSTERPROF_CALLER, [=] { return found(__VA_ARGS__); }); \
  }
#define CLUSTERPROF_OWN_ALLOCATE(name) \
  CLUSTERPROF_OWN(name, bytes, (std::size_t bytes), clusterprof_malloc(bytes), bytes)
CLUSTERPROF_OWN_ALLOCATE(je_malloc)
CLUSTERPROF_OWN_ALLOCATE(tc_malloc)
CLUSTERPROF_OWN_ALLOCATE(tc_new)
CLUSTERPROF_OWN_ALLOCATE(tc_newarray)
CLUSTERPROF_OWN_ALLOCATE(mi_malloc)
CLUSTERPROF_OWN_ALLOCATE(mi_malloc_small)
CLUSTERPROF_OWN_ALLOCATE(mi_new)
CLUSTERPROF_OWN_ALLOCATE(mi_new_nothrow)

#define CLUSTERPROF_OWN_ZEROED(name) \
  CLUSTERPROF_OWN(name, bytes, (std::size_t bytes), clusterprof_calloc(1, bytes), bytes)
CLUSTERPROF_OWN_ZEROED(mi_zalloc)
CLUSTERPROF_OWN_ZEROED(mi_zalloc_small)

#define CLUSTERPROF_OWN_COUNTED(name)                                                \
  CLUSTERPROF_OWN(name, product(count, size), (std::size_t count, std::size_t size), \
                  clusterprof_calloc(count, size), count, size)
CLUSTERPROF_OWN_COUNTED(je_calloc)
CLUSTERPROF_OWN_COUNTED(tc_calloc)
CLUSTERPROF_OWN_COUNTED(mi_calloc)
CLUSTERPROF_OWN_COUNTED(mi_mallocn)

#define CLUSTERPROF_OWN_ALIGNED(name)                                      \
  CLUSTERPROF_OWN(name, bytes, (std::size_t alignment, std::size_t bytes), \
                  clusterprof_memalign(alignment, bytes), alignment, bytes)
CLUSTERPROF_OWN_ALIGNED(je_aligned_alloc)
CLUSTERPROF_OWN_ALIGNED(tc_memalign)
CLUSTERPROF_OWN_ALIGNED(mi_aligned_alloc)
CLUSTERPROF_OWN_ALIGNED(mi_memalign)

#define CLUSTERPROF_OWN_ALIGNED_BEHIND(name)                               \
  CLUSTERPROF_OWN(name, bytes, (std::size_t bytes, std::size_t alignment), \
                  clusterprof_memalign(alignment, bytes), bytes, alignment)
CLUSTERPROF_OWN_ALIGNED_BEHIND(mi_malloc_aligned)
CLUSTERPROF_OWN_ALIGNED_BEHIND(mi_zalloc_aligned)
CLUSTERPROF_OWN_ALIGNED_BEHIND(mi_new_aligned)

// The low bits of jemalloc's flags are the logarithm of the alignment. Others ask for zeros, which it always
// has here.
static void* allocate_with_flags(std::size_t bytes, int flags, const void* caller) {
  constexpr std::size_t kUsual = 16;
  const std::size_t wanted = std::size_t{1} << (flags & 63), alignment = wanted > kUsual ? wanted : kUsual;
  void* const block = allocate_slowly(g_functions.memalign, bytes, alignment, caller,
                                      [=](auto* function) { return function(alignment, bytes); });
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}
CLUSTERPROF_OWN(mallocx, bytes, (std::size_t bytes, int flags),
                allocate_with_flags(bytes, flags, CLUSTERPROF_CALLER), bytes, flags)

// Moves the block even where it could stay, since only an allocation has the alignment.
static void* reallocate_with_flags(void* block, std::size_t bytes, int flags, const void* caller) {
  void* const moved = allocate_with_flags(bytes, flags, caller);
  if (moved == nullptr || block == nullptr) return moved;
  const std::size_t had = is_early(block) ? early_bytes(block) : malloc_usable_size(block);
  std::memcpy(moved, block, had < bytes ? had : bytes);
  clusterprof_free(block);
  return moved;
}

#define CLUSTERPROF_OWN_REALLOCATE_OR(instead, name, parameters, ...)                                    \
  CLUSTERPROF_STANDS_FOR(void*, name, CLUSTERPROF_UNPACK parameters) {                                   \
    if (auto* const next = CLUSTERPROF_NEXT(name); next != nullptr) {                                    \
      if (has_malloc(CLUSTERPROF_CALLER)) return next(__VA_ARGS__);                                      \
      if (!filter_may_have(g_filter, block) && !is_due(bytes)) return next(__VA_ARGS__);                 \
      return reallocating(block, bytes, CLUSTERPROF_CALLER, [=] { return next(__VA_ARGS__); });          \
    }                                                                                                    \
    auto* const found = CLUSTERPROF_OF_PLUGIN(name);                                                     \
    if (found == nullptr) return instead;                                                                \
    return reallocating_in_plugin(block, bytes, CLUSTERPROF_CALLER, [=] { return found(__VA_ARGS__); }); \
  }
#define CLUSTERPROF_OWN_REALLOCATE(name, ...) \
  CLUSTERPROF_OWN_REALLOCATE_OR(clusterprof_realloc(block, bytes), name, __VA_ARGS__)
CLUSTERPROF_OWN_REALLOCATE(je_realloc, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_REALLOCATE(tc_realloc, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_REALLOCATE(mi_realloc, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_REALLOCATE(mi_rezalloc, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_REALLOCATE(mi_realloc_aligned, (void* block, std::size_t bytes, std::size_t alignment), block,
                           bytes, alignment)
CLUSTERPROF_OWN_REALLOCATE_OR(reallocate_with_flags(block, bytes, flags, CLUSTERPROF_CALLER), rallocx,
                              (void* block, std::size_t bytes, int flags), block, bytes, flags)

#define CLUSTERPROF_OWN_PLACE(name)                                                            \
  CLUSTERPROF_STANDS_FOR(int, name, void** to, std::size_t alignment, std::size_t bytes) {     \
    if (auto* const next = CLUSTERPROF_NEXT(name); next != nullptr) {                          \
      if (has_malloc(CLUSTERPROF_CALLER) || !is_due(bytes)) return next(to, alignment, bytes); \
      return place_slowly(next, to, alignment, bytes, CLUSTERPROF_CALLER);                     \
    }                                                                                          \
    auto* const found = CLUSTERPROF_OF_PLUGIN(name);                                           \
    if (found == nullptr) return clusterprof_posix_memalign(to, alignment, bytes);             \
    int error = ENOMEM;                                                                        \
    allocating_in_plugin(bytes, CLUSTERPROF_CALLER, [&]() -> void* {                           \
      error = found(to, alignment, bytes);                                                     \
      return error == 0 ? *to : nullptr;                                                       \
    });                                                                                        \
    return error;                                                                              \
  }
CLUSTERPROF_OWN_PLACE(je_posix_memalign)
CLUSTERPROF_OWN_PLACE(tc_posix_memalign)
CLUSTERPROF_OWN_PLACE(mi_posix_memalign)

#define CLUSTERPROF_OWN_FREE(name, parameters, ...)                   \
  CLUSTERPROF_STANDS_FOR(void, name, CLUSTERPROF_UNPACK parameters) { \
    auto* next = CLUSTERPROF_NEXT(name);                              \
    if (next == nullptr) next = CLUSTERPROF_OF_PLUGIN(name);          \
    if (next == nullptr) return clusterprof_free(block);              \
    if (filter_may_have(g_filter, block)) note_free(block);           \
    next(__VA_ARGS__);                                                \
  }
CLUSTERPROF_OWN_FREE(je_free, (void* block), block)
CLUSTERPROF_OWN_FREE(dallocx, (void* block, int flags), block, flags)
CLUSTERPROF_OWN_FREE(sdallocx, (void* block, std::size_t bytes, int flags), block, bytes, flags)
CLUSTERPROF_OWN_FREE(tc_free, (void* block), block)
CLUSTERPROF_OWN_FREE(tc_free_sized, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_FREE(tc_delete, (void* block), block)
CLUSTERPROF_OWN_FREE(tc_deletearray, (void* block), block)
CLUSTERPROF_OWN_FREE(tc_delete_sized, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_FREE(tc_deletearray_sized, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_FREE(mi_free, (void* block), block)
CLUSTERPROF_OWN_FREE(mi_free_size, (void* block, std::size_t bytes), block, bytes)
CLUSTERPROF_OWN_FREE(mi_free_aligned, (void* block, std::size_t alignment), block, alignment)
CLUSTERPROF_OWN_FREE(mi_free_size_aligned, (void* block, std::size_t bytes, std::size_t alignment), block,
                     bytes, alignment)
