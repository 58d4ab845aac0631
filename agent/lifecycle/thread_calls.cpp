// SPDX-License-Identifier: BSD-3-Clause
// Interposed functions that create threads: a new thread registers itself before it runs the program's
// function.
#include <pthread.h>
#include <sys/prctl.h>
#include <threads.h>

#include <cstdlib>

#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/start.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/unrecorded_thread.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {
namespace {

struct ThreadStart {
  void* (*start)(void*);
  thrd_start_t start_c11;
  void* argument;
  // Whether the program believes that the thread inherits our signal blocked.
  bool believes_blocked;
  char name[16];  // the kernel's of the thread that makes this one
};

void* run_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread(reinterpret_cast<std::uintptr_t>(start.start), start.name);
  return start.start(start.argument);  // a jump: no frame of ours stays on the thread's stack
}

int run_c11_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread(reinterpret_cast<std::uintptr_t>(start.start_c11), start.name);
  return start.start_c11(start.argument);
}

ThreadStart* make_start(void* (*start)(void*), thrd_start_t start_c11, void* argument) noexcept {
  auto* made = static_cast<ThreadStart*>(malloc(sizeof(ThreadStart)));
  if (made == nullptr) return nullptr;
  *made = {start, start_c11, argument, believes_sample_signal_blocked(), {}};
  prctl(PR_GET_NAME, made->name);
  return made;
}

}  // namespace
}  // namespace clusterprof::agent

extern "C" {

[[gnu::visibility("default")]] int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                                  void* (*start)(void*), void* argument) noexcept {
  using namespace clusterprof::agent;
  ensure_started();
  ThreadStart* const own = g_process.segment.load(std::memory_order_acquire) != nullptr
                               ? make_start(start, nullptr, argument)
                               : nullptr;
  if (own == nullptr) return create_unrecorded_thread(thread, attributes, start, argument);
  const int result = create_unrecorded_thread(thread, attributes, run_thread, own);
  if (result != 0) free(own);
  return result;
}

[[gnu::visibility("default")]] int thrd_create(thrd_t* thread, thrd_start_t start, void* argument) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(thrd_t*, thrd_start_t, void*)> real;
  auto* const create = real_function(real, "thrd_create");
  if (create == nullptr) return thrd_error;
  ensure_started();
  ThreadStart* const own = g_process.segment.load(std::memory_order_acquire) != nullptr
                               ? make_start(nullptr, start, argument)
                               : nullptr;
  if (own == nullptr) return create(thread, start, argument);
  const int result = create(thread, run_c11_thread, own);
  if (result != thrd_success) free(own);
  return result;
}

}  // extern "C"
