// SPDX-License-Identifier: BSD-3-Clause
// libc exports these functions since glibc 2.33 only (base/glibc_2_17.h). The program keeps libc's.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

[[gnu::visibility("hidden")]] int fstat(int descriptor, struct stat* status) noexcept {
  return static_cast<int>(syscall(SYS_fstat, descriptor, status));
}

[[gnu::visibility("hidden")]] int stat(const char* path, struct stat* status) noexcept {
  return static_cast<int>(syscall(SYS_stat, path, status));
}

}  // extern "C"
