// SPDX-License-Identifier: BSD-3-Clause
// Loads the MPI library given as argument late and privately, as language bindings do, and calls
// it through addresses found with dlsym and through a plugin-like lookup in the global scope.
#include <dlfcn.h>
#include <stdio.h>

typedef int (*init_function)(int*, char***);
typedef int (*finalize_function)(void);
typedef int (*version_function)(char*, int*);

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // Before any MPI library is there: only a preloaded object can have the symbol.
  const int before = dlsym(RTLD_DEFAULT, "MPI_Init") != NULL;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  // What a plugin linked to the library is bound to: the global scope comes first.
  void* where = before ? RTLD_DEFAULT : library;
  init_function init = (init_function)dlsym(where, "MPI_Init");
  finalize_function finalize = (finalize_function)dlsym(where, "MPI_Finalize");
  version_function version = (version_function)dlsym(where, "MPI_Get_library_version");
  char text[8192];
  int length = 0;
  if (version(text, &length) != 0 || length == 0 || init(&argc, &argv) != 0 || finalize() != 0) return 1;
  puts("late load done");
  return 0;
}
