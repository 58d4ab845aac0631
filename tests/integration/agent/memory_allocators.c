/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads plugins with an allocator each (memory_allocator.c): two of them together, or one in the other's place again
 * and again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Plugin {
  void* handle;
  void (*work)(void);
  void* (*grab)(size_t);
  void* (*make)(size_t);
  void (*give_back)(void*);
};

static void* find(void* handle, const char* name) {
  void* const function = dlsym(handle, name);
  if (function != NULL) return function;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

static struct Plugin load(const char* path) {
  struct Plugin plugin;
  plugin.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin.handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  *(void**)&plugin.work = find(plugin.handle, "work");
  *(void**)&plugin.grab = find(plugin.handle, "grab");
  *(void**)&plugin.make = find(plugin.handle, "make");
  *(void**)&plugin.give_back = find(plugin.handle, "give_back");
  return plugin;
}

static void together(const char* first, const char* second) {
  const struct Plugin one = load(first);
  one.give_back(one.grab(100));
  const struct Plugin two = load(second);
  if (dlopen("/nowhere/nothing.so", RTLD_NOW) != NULL) exit(3);
  for (int i = 0; i < 5000; ++i) {
    void* const of_one = one.make(100);
    void* const of_two = two.make(100);
    one.give_back(of_one);
    two.give_back(of_two);
  }
  if (dlerror() == NULL) {
    fprintf(stderr, "an allocation has taken the program's dlerror\n");
    exit(4);
  }
  one.work();
  two.work();
}

static void in_turn(const char* first, const char* second) {
  const char* const paths[] = {first, second};
  int moved = 0;
  void* last = NULL;
  for (int i = 0; i < 40; ++i) {
    const struct Plugin plugin = load(paths[i % 2]);
    for (int k = 0; k < 100; ++k) plugin.give_back(plugin.make(1000));
    moved += i != 0 && *(void* const*)&plugin.make != last;
    last = *(void* const*)&plugin.make;
    if (dlclose(plugin.handle) != 0) exit(5);
  }
  if (moved == 0) exit(6);  /* then this tests nothing */
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  (strcmp(arguments[1], "together") == 0 ? together : in_turn)(arguments[2], arguments[3]);
  return 0;
}
