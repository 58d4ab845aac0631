// SPDX-License-Identifier: BSD-3-Clause
// What libstdc++ and libgcc, where they are linked in, and our own code need of newer releases of glibc than
// some that we run with: the SPANK plugin (glibc 2.17) and the programs of a portable package (glibc 2.28).
// Compiled into each of these; where glibc has them, its own are not used.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLUSTERPROF_HIDDEN [[gnu::visibility("hidden")]]

extern "C" {

// From 2.32 on; false is always right.
CLUSTERPROF_HIDDEN extern char __libc_single_threaded;
char __libc_single_threaded = 0;

// From 2.36 on: what std::random_device asks first.
CLUSTERPROF_HIDDEN uint32_t arc4random() noexcept {
  uint32_t value = 0;
  long result = 0;
  do {
    result = syscall(SYS_getrandom, &value, sizeof value, 0);
  } while (result < 0 && errno == EINTR);
  if (result != sizeof value) abort();  // as in glibc, which does not give out numbers that are not random
  return value;
}

// From 2.34 on.
CLUSTERPROF_HIDDEN void closefrom(int lowest) noexcept {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, lowest, ~0u, 0) == 0) return;
#endif
  // Before Linux 5.9. Closing may skip entries that are still to be read, so it goes on until there are none.
  for (bool closed = true; closed;) {
    closed = false;
    DIR* const open = opendir("/proc/self/fd");
    if (open == nullptr) break;
    while (const dirent* const entry = readdir(open)) {
      const int descriptor = atoi(entry->d_name);  // 0 for "." and ".."
      if (descriptor < lowest || descriptor == dirfd(open) || entry->d_name[0] == '.') continue;
      closed = close(descriptor) == 0 || closed;
    }
    closedir(open);
    if (!closed) return;
  }
  for (long descriptor = lowest, end = sysconf(_SC_OPEN_MAX); descriptor < end; ++descriptor)
    close(static_cast<int>(descriptor));
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
