/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the plugin in its argument so that its calls lead to its own libraries first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* const plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*work)(void) = NULL;
  *(void**)&work = dlsym(plugin, "work");
  return work != NULL && work() == 0 ? 0 : 1;
}
