// SPDX-License-Identifier: BSD-3-Clause
// Without us, a call of GOMP_parallel would have reached the first object that has it: among the program and
// what it was linked with or has loaded for all to see, or else among what the caller itself was linked with.
// dlvsym() finds the same, since it leaves out our own functions, which have no version. A caller that was
// not linked with one reaches that of whoever loaded it, which cannot be asked for: the first one of all.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/openmp/runtimes.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>

#include <cstring>
#include <iterator>

#include "agent/lifecycle/memory.h"

extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start[];

namespace clusterprof::agent {
namespace {

constexpr const char* kNames[kGompFunctions] = {
#define CLUSTERPROF_GOMP_NAME(name) #name,
    CLUSTERPROF_GOMP_FUNCTIONS(CLUSTERPROF_GOMP_NAME) CLUSTERPROF_GOMP_QUESTIONS(CLUSTERPROF_GOMP_NAME)
#undef CLUSTERPROF_GOMP_NAME
};
// In every libgomp that there ever was, and in libomp.
constexpr const char* kKnownFunction = "GOMP_barrier";
constexpr const char* kKnownVersion = "GOMP_1.0";

// Both lists only grow, without a lock: the loader has one of its own, which a thread may hold that comes
// here.
struct Caller {
  std::atomic<std::uintptr_t> begin;  // 0: free
  std::uintptr_t end;
  std::atomic<OmpRuntime*> runtime;  // stored last
};
constexpr std::uint32_t kCallers = 256;
constinit Caller g_callers[kCallers] = {};
constinit std::atomic<std::uint32_t> g_caller_count = 0;
constinit std::atomic<OmpRuntime*> g_runtimes = nullptr;
constinit OmpRuntime g_none = {};  // for a caller without a run time
// The first ones need no memory: where there is none left, the program's work must be done all the same.
constinit OmpRuntime g_first[4] = {};
constinit std::atomic<std::uint32_t> g_first_used = 0;

bool is_foreign(const void* symbol) noexcept {
  Dl_info info;
  return symbol != nullptr && dladdr(symbol, &info) != 0 &&
         info.dli_fbase != static_cast<const void*>(__ehdr_start);
}

struct Object {
  std::uintptr_t address, begin, end;
};

int find_object(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& object = *static_cast<Object*>(argument);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (object.address < begin || object.address >= begin + segment.p_memsz) continue;
    object.begin = begin;
    object.end = begin + segment.p_memsz;
    return 1;
  }
  return 0;
}

struct LoadedName {
  std::uint32_t left;  // objects before it
  char name[PATH_MAX];
};

int find_name(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& wanted = *static_cast<LoadedName*>(argument);
  if (wanted.left != 0) return --wanted.left, 0;
  const std::size_t length = info->dlpi_name != nullptr ? strlen(info->dlpi_name) : 0;
  wanted.name[0] = 0;
  if (length != 0 && length < sizeof wanted.name) memcpy(wanted.name, info->dlpi_name, length + 1);
  return 1;
}

// Of the first run time among all that is loaded. Null: there is none. Objects are opened after the walk has
// ended, since it holds a lock of the loader.
[[gnu::noinline]] void* known_function_of_any() noexcept {
  LoadedName object;
  for (std::uint32_t i = 0;; ++i) {
    object.left = i;
    if (dl_iterate_phdr(find_name, &object) == 0) return nullptr;
    void* const handle = object.name[0] != 0 ? dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (handle == nullptr) continue;
    void* const function = dlvsym(handle, kKnownFunction, kKnownVersion);
    dlclose(handle);
    if (is_foreign(function)) return function;
  }
}

// A function of the run time that the caller would reach. Null: there is none.
void* known_function_for(std::uintptr_t caller) noexcept {
  void* function = dlvsym(RTLD_DEFAULT, kKnownFunction, kKnownVersion);
  if (is_foreign(function)) return function;
  Dl_info info;
  link_map* map = nullptr;
  void* handle = nullptr;
  if (dladdr1(reinterpret_cast<void*>(caller), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 &&
      map != nullptr && map->l_name != nullptr && map->l_name[0] != 0)
    handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  // Other run times have locks, and may not have GCC's functions or give them no versions.
  for (const char* const name : {kKnownFunction, "omp_set_lock", "omp_set_lock_"}) {
    if (function = handle != nullptr ? dlvsym(handle, name, kKnownVersion) : nullptr; is_foreign(function))
      break;
    if (function = handle != nullptr ? dlsym(handle, name) : nullptr; is_foreign(function)) break;
    if (function = dlsym(RTLD_NEXT, name); is_foreign(function)) break;
    function = nullptr;
  }
  if (handle != nullptr) dlclose(handle);  // it stays as long as its caller
  return function != nullptr ? function : known_function_of_any();
}

OmpRuntime* known_runtime(const void* base) noexcept {
  OmpRuntime* known = g_runtimes.load(std::memory_order_acquire);
  while (known != nullptr && known->base != base) known = known->next;
  return known;
}

OmpRuntime* new_runtime() noexcept {
  if (g_first_used.load(std::memory_order_relaxed) < std::size(g_first)) {
    const std::uint32_t index = g_first_used.fetch_add(1, std::memory_order_relaxed);
    if (index < std::size(g_first)) return &g_first[index];
  }
  return static_cast<OmpRuntime*>(map_memory(sizeof(OmpRuntime)));
}

OmpRuntime* find_runtime(void* known_function) noexcept {
  Dl_info info;
  if (known_function == nullptr || dladdr(known_function, &info) == 0) return &g_none;
  if (OmpRuntime* const known = known_runtime(info.dli_fbase); known != nullptr) return known;
  OmpRuntime* const made = new_runtime();
  if (made == nullptr) return &g_none;
  // It is not closed: the run time stays.
  void* const handle = info.dli_fname != nullptr ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  for (std::uint32_t i = 0; i < kGompFunctions; ++i) {
    void* const function = handle != nullptr ? dlsym(handle, kNames[i]) : nullptr;
    void* const first = dlsym(RTLD_NEXT, kNames[i]);
    // A lock has to be set by the library that initialises it: omp_init_lock, which is not ours, is found by
    // its own name.
    const bool is_lock = strncmp(kNames[i], "omp_set_", strlen("omp_set_")) == 0;
    made->functions[i] = is_foreign(function) && !(is_lock && first != nullptr) ? function : first;
  }
  made->base = info.dli_fbase;
  made->is_llvm = handle != nullptr && dlsym(handle, "__kmpc_fork_call") != nullptr;
  const char* const slash = info.dli_fname != nullptr ? strrchr(info.dli_fname, '/') : nullptr;
  strncpy(made->name, slash != nullptr ? slash + 1 : "OpenMP", sizeof made->name - 1);
  made->next = g_runtimes.load(std::memory_order_acquire);
  while (!g_runtimes.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return known_runtime(info.dli_fbase);  // of two that were made at the same time, both serve
}

OmpRuntime* known_to(std::uintptr_t caller, Object& object) noexcept {
  const std::uint32_t used = g_caller_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < used && i < kCallers; ++i) {
    OmpRuntime* const runtime = g_callers[i].runtime.load(std::memory_order_acquire);
    const std::uintptr_t begin = g_callers[i].begin.load(std::memory_order_relaxed);
    if (runtime == nullptr || caller < begin || caller >= g_callers[i].end) continue;
    object = {caller, begin, g_callers[i].end};
    return runtime;
  }
  return nullptr;
}

// Once, though all threads of a team may come here together.
void remember(const Object& object, OmpRuntime* runtime) noexcept {
  for (std::uint32_t i = 0; i < kCallers; ++i) {
    Caller& caller = g_callers[i];
    std::uintptr_t there = 0;
    if (caller.begin.compare_exchange_strong(there, object.begin, std::memory_order_relaxed)) {
      caller.end = object.end;
      caller.runtime.store(runtime, std::memory_order_release);
      std::uint32_t used = g_caller_count.load(std::memory_order_relaxed);
      while (used <= i && !g_caller_count.compare_exchange_weak(used, i + 1, std::memory_order_release)) {
      }
      return;
    }
    if (there == object.begin) return;
  }
}

// Code that was made at run time is in no object: its page stands for one.
void take_page(Object& object) noexcept {
  constexpr std::uintptr_t kPage = 4096;
  object.begin = object.address / kPage * kPage;
  object.end = object.begin + kPage;
}

// Of those that the thread called from before its last object, if it is one of these.
OmpRuntime* served_before(OmpState& state, std::uintptr_t caller) noexcept {
  for (std::uint32_t i = 1; i < OmpState::kCallers; ++i) {
    const OmpState::Caller found = state.callers[i];
    if (caller < found.begin || caller >= found.end) continue;
    for (; i > 0; --i) state.callers[i] = state.callers[i - 1];
    state.callers[0] = found;
    return static_cast<OmpRuntime*>(found.runtime);
  }
  return nullptr;
}

}  // namespace

OmpRuntime& search_runtime(std::uintptr_t caller) noexcept {
  OmpState* const state = openmp_state();
  if (OmpRuntime* const before = state != nullptr ? served_before(*state, caller) : nullptr;
      before != nullptr)
    return *before;
  Object object = {caller, 0, 0};
  OmpRuntime* runtime = known_to(caller, object);
  if (runtime == nullptr) {
    const int error = errno;
    runtime = find_runtime(known_function_for(caller));
    if (runtime != &g_none) {  // one may be loaded yet
      if (dl_iterate_phdr(find_object, &object) == 0) take_page(object);
      remember(object, runtime);
    }
    errno = error;
  }
  if (state != nullptr && runtime != &g_none) {
    for (std::uint32_t i = OmpState::kCallers - 1; i > 0; --i) state->callers[i] = state->callers[i - 1];
    state->callers[0] = {object.begin, object.end, runtime};
  }
  return *runtime;
}

}  // namespace clusterprof::agent
