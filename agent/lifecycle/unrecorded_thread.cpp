// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/unrecorded_thread.h"

#include <errno.h>

#include <atomic>

#include "agent/lifecycle/real_function.h"

namespace clusterprof::agent {
namespace {

using PthreadCreate = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
constinit std::atomic<PthreadCreate> g_pthread_create = nullptr;

}  // namespace

int create_unrecorded_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                             void* argument) noexcept {
  const PthreadCreate create = real_function(g_pthread_create, "pthread_create");
  return create != nullptr ? create(thread, attributes, start, argument) : ENOSYS;
}

}  // namespace clusterprof::agent
