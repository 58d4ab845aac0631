// SPDX-License-Identifier: BSD-3-Clause
// What libstdc++ and libgcc, which are part of the plugin, need of newer releases of glibc than 2.17
// (base/glibc_2_17.h). Slurm may run in a container, or on nodes, whose glibc is older than ours.
#include <link.h>
#include <pthread.h>
#include <stdint.h>

#define CLUSTERPROF_HIDDEN [[gnu::visibility("hidden")]]

extern "C" {

// From 2.32 on; false is always right.
CLUSTERPROF_HIDDEN extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// From 2.34 on in libc.
int clusterprof_old_pthread_once(pthread_once_t* once, void (*function)());
int clusterprof_old_pthread_key_create(pthread_key_t* key, void (*function)(void*));
__asm__(
    ".symver clusterprof_old_pthread_once,pthread_once@GLIBC_2.2.5\n"
    ".symver clusterprof_old_pthread_key_create,__pthread_key_create@GLIBC_2.2.5\n");
CLUSTERPROF_HIDDEN int pthread_once(pthread_once_t* once, void (*function)()) {
  return clusterprof_old_pthread_once(once, function);
}
CLUSTERPROF_HIDDEN int __pthread_key_create(pthread_key_t* key, void (*function)(void*)) {
  return clusterprof_old_pthread_key_create(key, function);
}

// From 2.35 on: how libgcc finds the unwind tables of an exception. The structure is that of <dlfcn.h>.
struct clusterprof_found_object {
  unsigned long long flags;
  void* start;
  void* end;
  link_map* map;
  void* eh_frame_header;
  unsigned long long reserved[7];
};
CLUSTERPROF_HIDDEN int clusterprof_find_object(void* pc, clusterprof_found_object* result) noexcept
    __asm__("_dl_find_object");
int clusterprof_find_object(void* pc, clusterprof_found_object* result) noexcept {
  struct Search {
    uintptr_t pc;
    clusterprof_found_object* result;
  } search = {reinterpret_cast<uintptr_t>(pc), result};
  const auto look = [](dl_phdr_info* info, size_t, void* argument) {
    const auto& wanted = *static_cast<Search*>(argument);
    const ElfW(Phdr)* code = nullptr;
    const ElfW(Phdr)* tables = nullptr;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info->dlpi_phdr[i];
      if (segment.p_type == PT_GNU_EH_FRAME) tables = &segment;
      if (segment.p_type == PT_LOAD && wanted.pc - (info->dlpi_addr + segment.p_vaddr) < segment.p_memsz)
        code = &segment;
    }
    if (code == nullptr || tables == nullptr) return 0;
    const auto at = [info](uintptr_t address) { return reinterpret_cast<void*>(info->dlpi_addr + address); };
    *wanted.result = {0,       at(code->p_vaddr),   at(code->p_vaddr + code->p_memsz),
                      nullptr, at(tables->p_vaddr), {}};
    return 1;
  };
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

}  // extern "C"
