// SPDX-License-Identifier: BSD-3-Clause
// dlsym() may itself allocate, and malloc is called before anything of ours has begun, also by the loader. So
// the first call of any interposed function looks all of them up, and what is allocated meanwhile comes from
// early.hpp.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory-wrap/functions.hpp"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>

#include <cstring>
#include <initializer_list>

#include "memory-wrap/objects.hpp"
#include "memory-wrap/plugin_functions.hpp"

namespace clusterprof::memory_wrap {

constinit Functions g_functions = {};
constinit PassedFunctions g_passed = {};

namespace {

enum : std::uint32_t { kNotLookedUp, kBeingLookedUp, kLookedUp };
constinit std::atomic<std::uint32_t> g_state = kNotLookedUp;
constinit bool g_malloc_is_ours = false;

constexpr std::uint32_t kMaxAllocators = 5;
constinit AddressRange g_allocators[kMaxAllocators] = {};
constinit std::uint32_t g_allocator_count = 0;
constinit AddressRange g_malloc_object = {0, 0};

template <typename Function>
void look_up(std::atomic<Function*>& to, const char* name) noexcept {
  to.store(reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name)), std::memory_order_release);
}

template <typename Function>
void pass(std::atomic<Function*>& from, std::atomic<Function*>& to) noexcept {
  Function* const function = from.load(std::memory_order_relaxed);
  if (function != nullptr && !is_in_allocator(reinterpret_cast<const void*>(function)))
    to.store(function, std::memory_order_release);
}

void enter_allocator(const void* function) noexcept {
  if (function == nullptr || g_allocator_count == kMaxAllocators || is_in_allocator(function)) return;
  const AddressRange object = object_at(reinterpret_cast<std::uintptr_t>(function));
  if (object.end != 0) g_allocators[g_allocator_count++] = object;
}

// Whether a call of `name` from anywhere comes to us. In a program that is not position independent, the
// address may be that of its own jump to whatever the name means.
bool leads_to_us(const char* name) noexcept {
  void* const function = dlsym(RTLD_DEFAULT, name);
  if (function == nullptr) return false;
  if (is_in_ourselves(function)) return true;
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  const int known =
      dladdr1(function, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT);
  return known != 0 && symbol != nullptr && symbol->st_shndx == SHN_UNDEF;
}

void look_all_up() noexcept {
#define CLUSTERPROF_LOOK_UP(name, ...) look_up(g_functions.name, #name);
  CLUSTERPROF_OTHER_FUNCTIONS(CLUSTERPROF_LOOK_UP)
  CLUSTERPROF_NEW_FUNCTIONS(CLUSTERPROF_LOOK_UP)
  CLUSTERPROF_DELETE_FUNCTIONS(CLUSTERPROF_LOOK_UP)
  CLUSTERPROF_ALLOCATOR_FUNCTIONS(CLUSTERPROF_LOOK_UP)
  Functions::malloc_type* const malloc_function =
      reinterpret_cast<Functions::malloc_type*>(dlsym(RTLD_NEXT, "malloc"));
  enter_allocator(reinterpret_cast<const void*>(malloc_function));
  g_malloc_object = g_allocators[0];
  // TBB's proxy has its memory from another object. Without it, we do not see the blocks of that one.
  if (!is_in_allocator(reinterpret_cast<const void*>(g_functions.on_exit.load())))
    enter_allocator(dlsym(RTLD_NEXT, "scalable_malloc"));
  for (const auto* function : {reinterpret_cast<const void*>(g_functions.mallocx.load()),
                               reinterpret_cast<const void*>(g_functions.tc_malloc.load()),
                               reinterpret_cast<const void*>(g_functions.mi_malloc.load())})
    enter_allocator(function);
#define CLUSTERPROF_PASS(name, ...) pass(g_functions.name, g_passed.name);
  CLUSTERPROF_NEW_FUNCTIONS(CLUSTERPROF_PASS)
  CLUSTERPROF_DELETE_FUNCTIONS(CLUSTERPROF_PASS)
#undef CLUSTERPROF_PASS
  g_malloc_is_ours = malloc_function != nullptr && leads_to_us("malloc") && leads_to_us("free");
  CLUSTERPROF_HEAP_FUNCTIONS(CLUSTERPROF_LOOK_UP)
#undef CLUSTERPROF_LOOK_UP
  dlerror();  // leaves no error of ours for the program to find
}

}  // namespace

bool have_functions() noexcept {
  std::uint32_t state = g_state.load(std::memory_order_acquire);
  if (state == kLookedUp) return true;
  if (state == kBeingLookedUp ||
      !g_state.compare_exchange_strong(state, kBeingLookedUp, std::memory_order_acq_rel))
    return state == kLookedUp;
  const int saved_errno = errno;
  look_all_up();
  errno = saved_errno;
  g_state.store(kLookedUp, std::memory_order_release);
  return true;
}

bool malloc_is_ours() noexcept { return have_functions() && g_malloc_is_ours; }

bool is_in_allocator(const void* address) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  for (std::uint32_t i = 0; i < g_allocator_count; ++i)
    if (g_allocators[i].contains(place)) return true;
  return is_in_plugin_allocator(place);
}

bool has_malloc(const void* caller) noexcept {
  return g_malloc_object.contains(reinterpret_cast<std::uintptr_t>(caller));
}

void pass_new(bool aligned) noexcept {
#define CLUSTERPROF_PASS(name, ...)                      \
  if ((strstr(#name, "align_val") != nullptr) == aligned) \
    g_passed.name.store(g_functions.name.load());
  CLUSTERPROF_NEW_FUNCTIONS(CLUSTERPROF_PASS)
#undef CLUSTERPROF_PASS
}

bool calls_other_malloc(std::uintptr_t base, const void* dynamic) noexcept {
  const Dynamic object = read_dynamic(base, dynamic);
  if (object.symbols == nullptr || object.names == nullptr || object.calls == nullptr) return false;
  for (std::size_t i = 0; i < object.call_count; ++i) {
    const ElfW(Rela)& call = object.calls[i];
    if (ELF64_R_TYPE(call.r_info) != R_X86_64_JUMP_SLOT ||
        strcmp(object.names + object.symbols[ELF64_R_SYM(call.r_info)].st_name, "malloc") != 0)
      continue;
    void* const target = *reinterpret_cast<void**>(base + call.r_offset);
    if (is_in_ourselves(target)) return false;
    // The object has not called it yet, or has it itself: then the target is in the object.
    return !object_at(base + call.r_offset).contains(reinterpret_cast<std::uintptr_t>(target));
  }
  return false;
}

}  // namespace clusterprof::memory_wrap
