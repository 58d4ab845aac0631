// SPDX-License-Identifier: BSD-3-Clause
// Creates threads without our own pthread_create.
#pragma once

#include <pthread.h>

namespace clusterprof::agent {

// pthread_create of libc: the thread is not registered.
int create_unrecorded_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                             void* argument) noexcept;

}  // namespace clusterprof::agent
