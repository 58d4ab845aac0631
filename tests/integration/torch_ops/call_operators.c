/* SPDX-License-Identifier: BSD-3-Clause */
/* call_operators LIBRARY: loads it late and privately, as Python does, and calls operators from a program
 * without Python. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

static void (*operators)(const char* const*, int, int);

static __attribute__((noinline)) void forward(void) {
  static const char* const names[] = {"aten::mm"};
  for (int i = 0; i < 10; ++i) operators(names, 1, 1); /* the line of the forward operator */
}

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) return 2;
  operators = (void (*)(const char* const*, int, int))dlsym(library, "fake_operators");
  void (*const backward)(const char*, const char*, int64_t, uint64_t) =
      (void (*)(const char*, const char*, int64_t, uint64_t))dlsym(library, "fake_backward");
  uint64_t (*const thread)(void) = (uint64_t(*)(void))dlsym(library, "fake_thread");
  if (operators == NULL || backward == NULL || thread == NULL) return 3;
  forward();
  for (int i = 0; i < 10; ++i) backward("MmBackward0", "aten::mm", i, thread());
  return 42;
}
