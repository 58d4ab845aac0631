// SPDX-License-Identifier: BSD-3-Clause
// The functions that are interposed, as the next object that has them defines them.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace clusterprof::memory_wrap {

// X(name, type). Of libc, or of the allocator that stands in for libc's. In this order they are looked up.
#define CLUSTERPROF_HEAP_FUNCTIONS(X)                      \
  X(free, void(void*))                                     \
  X(realloc, void*(void*, std::size_t))                    \
  X(calloc, void*(std::size_t, std::size_t))               \
  X(memalign, void*(std::size_t, std::size_t))             \
  X(aligned_alloc, void*(std::size_t, std::size_t))        \
  X(posix_memalign, int(void**, std::size_t, std::size_t)) \
  X(valloc, void*(std::size_t))                            \
  X(pvalloc, void*(std::size_t))                           \
  X(malloc, void*(std::size_t))

// Of the kernel's memory, of copies, of objects that are unloaded, and of the end of the program.
#define CLUSTERPROF_OTHER_FUNCTIONS(X)                                  \
  X(memmove, void*(void*, const void*, std::size_t))                    \
  X(__memmove_chk, void*(void*, const void*, std::size_t, std::size_t)) \
  X(munmap, int(void*, std::size_t))                                    \
  X(mremap, void*(void*, std::size_t, std::size_t, int, ...))           \
  X(brk, int(void*))                                                    \
  X(sbrk, void*(std::intptr_t))                                         \
  X(shmat, void*(int, const void*, int))                                \
  X(shmdt, int(const void*))                                            \
  X(dlclose, int(void*))                                                \
  X(__cxa_atexit, int(void (*)(void*), void*, void*))                   \
  X(on_exit, int(void (*)(int, void*), void*))

// C++: either of the run time, which calls malloc, or of the allocator.
struct NoThrow;
#define CLUSTERPROF_NEW_FUNCTIONS(X)                                                     \
  X(_Znwm, void*(std::size_t))                                                           \
  X(_Znam, void*(std::size_t))                                                           \
  X(_ZnwmRKSt9nothrow_t, void*(std::size_t, const NoThrow*))                             \
  X(_ZnamRKSt9nothrow_t, void*(std::size_t, const NoThrow*))                             \
  X(_ZnwmSt11align_val_t, void*(std::size_t, std::size_t))                               \
  X(_ZnamSt11align_val_t, void*(std::size_t, std::size_t))                               \
  X(_ZnwmSt11align_val_tRKSt9nothrow_t, void*(std::size_t, std::size_t, const NoThrow*)) \
  X(_ZnamSt11align_val_tRKSt9nothrow_t, void*(std::size_t, std::size_t, const NoThrow*))
#define CLUSTERPROF_DELETE_FUNCTIONS(X)                                            \
  X(_ZdlPv, void(void*))                                                           \
  X(_ZdaPv, void(void*))                                                           \
  X(_ZdlPvm, void(void*, std::size_t))                                             \
  X(_ZdaPvm, void(void*, std::size_t))                                             \
  X(_ZdlPvRKSt9nothrow_t, void(void*, const NoThrow*))                             \
  X(_ZdaPvRKSt9nothrow_t, void(void*, const NoThrow*))                             \
  X(_ZdlPvSt11align_val_t, void(void*, std::size_t))                               \
  X(_ZdaPvSt11align_val_t, void(void*, std::size_t))                               \
  X(_ZdlPvmSt11align_val_t, void(void*, std::size_t, std::size_t))                 \
  X(_ZdaPvmSt11align_val_t, void(void*, std::size_t, std::size_t))                 \
  X(_ZdlPvSt11align_val_tRKSt9nothrow_t, void(void*, std::size_t, const NoThrow*)) \
  X(_ZdaPvSt11align_val_tRKSt9nothrow_t, void(void*, std::size_t, const NoThrow*))

// Names that allocators have besides. Those of jemalloc, tcmalloc and mimalloc that programs call.
#define CLUSTERPROF_ALLOCATOR_FUNCTIONS(X)                      \
  X(mallocx, void*(std::size_t, int))                           \
  X(rallocx, void*(void*, std::size_t, int))                    \
  X(dallocx, void(void*, int))                                  \
  X(sdallocx, void(void*, std::size_t, int))                    \
  X(je_malloc, void*(std::size_t))                              \
  X(je_calloc, void*(std::size_t, std::size_t))                 \
  X(je_realloc, void*(void*, std::size_t))                      \
  X(je_free, void(void*))                                       \
  X(je_aligned_alloc, void*(std::size_t, std::size_t))          \
  X(je_posix_memalign, int(void**, std::size_t, std::size_t))   \
  X(tc_malloc, void*(std::size_t))                              \
  X(tc_calloc, void*(std::size_t, std::size_t))                 \
  X(tc_realloc, void*(void*, std::size_t))                      \
  X(tc_free, void(void*))                                       \
  X(tc_free_sized, void(void*, std::size_t))                    \
  X(tc_memalign, void*(std::size_t, std::size_t))               \
  X(tc_posix_memalign, int(void**, std::size_t, std::size_t))   \
  X(tc_new, void*(std::size_t))                                 \
  X(tc_newarray, void*(std::size_t))                            \
  X(tc_delete, void(void*))                                     \
  X(tc_deletearray, void(void*))                                \
  X(tc_delete_sized, void(void*, std::size_t))                  \
  X(tc_deletearray_sized, void(void*, std::size_t))             \
  X(mi_malloc, void*(std::size_t))                              \
  X(mi_malloc_small, void*(std::size_t))                        \
  X(mi_zalloc, void*(std::size_t))                              \
  X(mi_zalloc_small, void*(std::size_t))                        \
  X(mi_calloc, void*(std::size_t, std::size_t))                 \
  X(mi_mallocn, void*(std::size_t, std::size_t))                \
  X(mi_malloc_aligned, void*(std::size_t, std::size_t))         \
  X(mi_zalloc_aligned, void*(std::size_t, std::size_t))         \
  X(mi_new, void*(std::size_t))                                 \
  X(mi_new_nothrow, void*(std::size_t))                         \
  X(mi_new_aligned, void*(std::size_t, std::size_t))            \
  X(mi_realloc, void*(void*, std::size_t))                      \
  X(mi_rezalloc, void*(void*, std::size_t))                     \
  X(mi_realloc_aligned, void*(void*, std::size_t, std::size_t)) \
  X(mi_posix_memalign, int(void**, std::size_t, std::size_t))   \
  X(mi_aligned_alloc, void*(std::size_t, std::size_t))          \
  X(mi_memalign, void*(std::size_t, std::size_t))               \
  X(mi_free, void(void*))                                       \
  X(mi_free_size, void(void*, std::size_t))                     \
  X(mi_free_aligned, void(void*, std::size_t))                  \
  X(mi_free_size_aligned, void(void*, std::size_t, std::size_t))

// Null: not looked up yet, or there is none.
struct Functions {
#define CLUSTERPROF_FUNCTION(name, ...) \
  using name##_type = __VA_ARGS__;      \
  std::atomic<name##_type*> name;
  CLUSTERPROF_HEAP_FUNCTIONS(CLUSTERPROF_FUNCTION)
  CLUSTERPROF_OTHER_FUNCTIONS(CLUSTERPROF_FUNCTION)
  CLUSTERPROF_NEW_FUNCTIONS(CLUSTERPROF_FUNCTION)
  CLUSTERPROF_DELETE_FUNCTIONS(CLUSTERPROF_FUNCTION)
  CLUSTERPROF_ALLOCATOR_FUNCTIONS(CLUSTERPROF_FUNCTION)
#undef CLUSTERPROF_FUNCTION
};
extern Functions g_functions;

// Those of C++ that are not the allocator's own: they call malloc, and are called without further ado.
struct PassedFunctions {
#define CLUSTERPROF_FUNCTION(name, ...) std::atomic<Functions::name##_type*> name;
  CLUSTERPROF_NEW_FUNCTIONS(CLUSTERPROF_FUNCTION)
  CLUSTERPROF_DELETE_FUNCTIONS(CLUSTERPROF_FUNCTION)
#undef CLUSTERPROF_FUNCTION
};
extern PassedFunctions g_passed;

// Looks all of them up, once. False: this is being done, and the calling thread, or another one, is in the
// middle of it.
bool have_functions() noexcept;

// Whether the program calls our malloc and free, and those behind are known.
bool malloc_is_ours() noexcept;

// Whether the address is in an object that has the functions of an allocator behind us, or of a plugin's own.
bool is_in_allocator(const void* address) noexcept;

// Whether it is the object whose malloc is behind ours that calls.
bool has_malloc(const void* caller) noexcept;

// Lets an allocator's operator new pass, since it calls our functions: those with an alignment, or the others.
void pass_new(bool aligned) noexcept;

// MemoryWrap::calls_other_malloc.
bool calls_other_malloc(std::uintptr_t base, const void* dynamic) noexcept;

}  // namespace clusterprof::memory_wrap
