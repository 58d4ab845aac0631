/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that loads an interpreter late and privately: embed_host LIBPYTHON CODE */
#include <dlfcn.h>
#include <stdio.h>

typedef void (*initialize_function)(int);
typedef int (*run_function)(const char*);
typedef int (*finalize_function)(void);

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const initialize_function initialize = (initialize_function)dlsym(library, "Py_InitializeEx");
  const run_function run = (run_function)dlsym(library, "PyRun_SimpleString");
  const finalize_function finalize = (finalize_function)dlsym(library, "Py_FinalizeEx");
  if (initialize == NULL || run == NULL || finalize == NULL) return 2;
  initialize(0);
  const int failed = run(argv[2]);
  return finalize() < 0 || failed != 0;
}
