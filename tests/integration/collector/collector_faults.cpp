// SPDX-License-Identifier: BSD-3-Clause
// Preloaded into the collector: lets calls fail while the test says so.
#include "tests/integration/collector/collector_faults.hpp"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

clusterprof::test::Faults* g_faults = nullptr;

__attribute__((constructor)) void map_faults() {
  const char* const path = getenv(clusterprof::test::kFaultsVariable);
  const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const memory =
      mmap(nullptr, sizeof(clusterprof::test::Faults), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory != MAP_FAILED) g_faults = static_cast<clusterprof::test::Faults*>(memory);
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t bytes);

void* malloc(size_t bytes) {
  const size_t least = g_faults == nullptr ? 0 : g_faults->allocations.load();
  if (least != 0 && bytes >= least && syscall(SYS_gettid) == getpid()) {
    ++g_faults->allocations_refused;
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

int rename(const char* from, const char* to) {
  if (g_faults != nullptr && g_faults->renames.load() > 0) {
    --g_faults->renames;
    unlink(from);
    errno = ENOENT;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

}  // extern "C"
