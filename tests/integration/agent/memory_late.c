/* SPDX-License-Identifier: BSD-3-Clause */
/* A program without C++ that loads a plugin with it: nobody but the plugin sees operator new. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* const plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (dlsym(RTLD_DEFAULT, "_ZSt9terminatev") != NULL) return 2;  /* then this tests nothing */
  int (*work)(void) = NULL, (*lack)(void) = NULL;
  *(void**)&work = dlsym(plugin, "work");
  *(void**)&lack = dlsym(plugin, "lack");
  if (work == NULL || lack == NULL || dlopen("/nowhere/nothing.so", RTLD_NOW) != NULL) return 3;
  const int result = work();
  if (dlerror() == NULL) {
    fprintf(stderr, "an allocation has taken the program's dlerror\n");
    return 4;
  }
  return result != 0 ? result : lack();
}
