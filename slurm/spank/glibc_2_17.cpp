// SPDX-License-Identifier: BSD-3-Clause
// What libstdc++ and libgcc, which are part of the plugin, need of glibc in other versions than 2.17's
// (base/glibc_2_17.h; what 2.17 does not have at all is in base/older_glibc.cpp). Slurm may run in a
// container, or on nodes, whose glibc is older than ours.
#include <pthread.h>

#define CLUSTERPROF_HIDDEN [[gnu::visibility("hidden")]]

extern "C" {

// From 2.34 on in libc.
int clusterprof_old_pthread_once(pthread_once_t* once, void (*function)());
int clusterprof_old_pthread_key_create(pthread_key_t* key, void (*function)(void*));
__asm__(
    ".symver clusterprof_old_pthread_once,pthread_once@GLIBC_2.2.5\n"
    ".symver clusterprof_old_pthread_key_create,__pthread_key_create@GLIBC_2.2.5\n");
CLUSTERPROF_HIDDEN int pthread_once(pthread_once_t* once, void (*function)()) {
  return clusterprof_old_pthread_once(once, function);
}
CLUSTERPROF_HIDDEN int __pthread_key_create(pthread_key_t* key, void (*function)(void*)) {
  return clusterprof_old_pthread_key_create(key, function);
}

}  // extern "C"
