/* SPDX-License-Identifier: BSD-3-Clause
   Included before everything else in objects that are loaded into programs of others (clusterprof_old_glibc in
   cmake/Clusterprof.cmake). These may run in a container whose glibc is older than the one that we were built
   with, and ld.so refuses an object that needs a version of glibc that is not there, and the program with it.
   So functions are bound to the versions that glibc 2.17 has; later releases keep these. */
#ifndef CLUSTERPROF_BASE_GLIBC_2_17_H
#define CLUSTERPROF_BASE_GLIBC_2_17_H

#if !defined(__x86_64__)
#error "which versions of these functions did glibc 2.17 have on this processor?"
#endif

__asm__(
    /* 2.34 moved them from libdl and libpthread to libc. */
    ".symver dladdr,dladdr@GLIBC_2.2.5\n"
    ".symver dladdr1,dladdr1@GLIBC_2.3.3\n"
#ifndef CLUSTERPROF_OWN_DLCLOSE /* a file that defines it */
    ".symver dlclose,dlclose@GLIBC_2.2.5\n"
#endif
    ".symver dlerror,dlerror@GLIBC_2.2.5\n"
    ".symver dlinfo,dlinfo@GLIBC_2.3.3\n"
    ".symver dlopen,dlopen@GLIBC_2.2.5\n"
    ".symver dlsym,dlsym@GLIBC_2.2.5\n"
    ".symver dlvsym,dlvsym@GLIBC_2.2.5\n"
    ".symver pthread_attr_getstack,pthread_attr_getstack@GLIBC_2.2.5\n"
    ".symver pthread_attr_setstacksize,pthread_attr_setstacksize@GLIBC_2.2.5\n"
    ".symver pthread_detach,pthread_detach@GLIBC_2.2.5\n"
    ".symver pthread_getattr_np,pthread_getattr_np@GLIBC_2.2.5\n"
    ".symver pthread_getspecific,pthread_getspecific@GLIBC_2.2.5\n"
    ".symver pthread_key_create,pthread_key_create@GLIBC_2.2.5\n"
    ".symver pthread_mutex_timedlock,pthread_mutex_timedlock@GLIBC_2.2.5\n"
    ".symver pthread_setspecific,pthread_setspecific@GLIBC_2.2.5\n"
#ifndef CLUSTERPROF_OWN_PTHREAD_ONCE /* a file that defines it */
    ".symver pthread_once,pthread_once@GLIBC_2.2.5\n"
#endif
);

#endif
