/* SPDX-License-Identifier: BSD-3-Clause */
/* load_torch LIBRARY: loads it late and privately, as Python does, and returns what its scenario returns. */
#include <dlfcn.h>
#include <stdio.h>

/* libtorch_python of 2.6 has a description of its own of this class, too, to which that of ProcessGroupGloo
 * then leads. */
struct description {
  const void* functions;
  const char* name;
};
extern const struct description backend __asm__("_ZTIN4c10d7BackendE");
const struct description backend = {NULL, "N4c10d7BackendE"};

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*const scenario)(void) = library == NULL ? NULL : (int (*)(void))dlsym(library, "fake_scenario");
  if (scenario == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const int result = scenario();
  printf("%d wrong\n", result);
  return result != 0 ? 1 : 42;
}
