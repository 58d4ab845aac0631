// SPDX-License-Identifier: BSD-3-Clause
// The stand-ins of the plugin and of portable packages for what libgcc, libstdc++ and our code need of newer
// glibc (slurm/spank/glibc_2_17.cpp, base/older_glibc.cpp, base/older_libm.cpp), linked as they are.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <locale>
#include <memory>
#include <stdexcept>
#include <string>

extern "C" int found_object(void* pc, void* result) __asm__("_dl_find_object");
extern "C" double __wrap_exp(double x) noexcept;
extern "C" double __wrap_log(double x) noexcept;
extern "C" double __wrap_pow(double x, double y) noexcept;

namespace {

[[gnu::noinline]] void throw_through(int depth) {
  const std::string destroyed(100, 'x');
  if (depth == 0) throw std::runtime_error(destroyed);
  throw_through(depth - 1);
}

bool check(bool good, const char* what) {
  if (!good) std::fprintf(stderr, "failed: %s\n", what);
  return good;
}

// As before Linux 5.9.
bool take_close_range_away() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog program = {std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         syscall(SYS_close_range, 1000, 1001, 0) == -1 && errno == ENOSYS;
}

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

// In a process of its own: closes what is above `lowest` among more descriptors than are read at once.
bool closes(bool as_before_linux_5_9) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kLowest = 100, kHighest = 900;
    for (int descriptor = kLowest - 1; descriptor <= kHighest; ++descriptor) dup2(2, descriptor);
    if (as_before_linux_5_9 && !take_close_range_away()) _exit(2);
    closefrom(kLowest);
    bool good = is_open(2) && is_open(kLowest - 1);
    for (int descriptor = kLowest; descriptor <= kHighest; ++descriptor) good = good && !is_open(descriptor);
    _exit(good ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main() {
  bool good = true;
  try {
    throw_through(3);
    good = check(false, "an exception was thrown");
  } catch (const std::runtime_error& error) {
    good = check(std::string(error.what()).size() == 100, "the exception arrives") && good;
  }
  void* result[16] = {};
  auto* const here = reinterpret_cast<char*>(&throw_through);
  good =
      check(found_object(here, result) == 0 && result[1] <= here && result[2] > here, "this code is found") &&
      good;
  good = check(found_object(result, result) == -1, "the stack is no code") && good;
  good = check(std::use_facet<std::numpunct<char>>(std::locale::classic()).decimal_point() == '.',
               "locales are made once") &&
         good;
  good = check(reinterpret_cast<void*>(&closefrom) != dlsym(RTLD_NEXT, "closefrom"), "closefrom is ours") &&
         good;
  good = check(closes(false), "closefrom closes") && good;
  good = check(closes(true), "closefrom closes without close_range") && good;
  std::uint32_t differing = 0;
  for (int i = 0; i < 8; ++i) differing |= arc4random() ^ arc4random();
  good = check(differing != 0, "random numbers differ") && good;
  good = check(__wrap_exp(0) == 1 && __wrap_log(1) == 0 && __wrap_pow(2, 10) == 1024, "exp, log and pow") &&
         good;
  return good ? 0 : 1;
}
