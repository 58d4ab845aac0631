// SPDX-License-Identifier: BSD-3-Clause
// Interposed functions that create threads: a new thread registers itself before it runs the program's
// function. Those that create and those that join threads note what ties the two together.
#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <threads.h>

#include <cstdlib>

#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/start.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/unrecorded_thread.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/sample_handler.h"

namespace clusterprof::agent {
namespace {

struct ThreadStart {
  void* (*start)(void*);
  thrd_start_t start_c11;
  void* argument;
  // Whether the program believes that the thread inherits our signal blocked.
  bool believes_blocked;
  char name[16];  // the kernel's of the thread that makes this one
  std::uint64_t created_ns;  // when that one called us
  std::int32_t creator;
};

void note_tie(wire::ThreadTieKind kind, std::uint64_t begin_ns, std::uint64_t thread, std::int32_t creator) {
  ThreadContext& context = t_context;
  if (recording_has_ended() || slot_of(context) == nullptr) return;
  const CancellationOff no_cancellation;
  const std::uint64_t mask = block_sample_signal();
  push_thread_tie(context, kind, begin_ns, monotonic_ns(), thread, creator);
  restore_signals(mask);
}

void note_beginning(std::uint64_t created_ns, std::int32_t creator) {
  note_tie(wire::ThreadTieKind::kBegan, created_ns, static_cast<std::uint64_t>(pthread_self()), creator);
}

void* run_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread(reinterpret_cast<std::uintptr_t>(start.start), start.name);
  note_beginning(start.created_ns, start.creator);
  return start.start(start.argument);  // a jump: no frame of ours stays on the thread's stack
}

int run_c11_thread(void* given) {
  const ThreadStart start = *static_cast<ThreadStart*>(given);
  free(given);
  set_believed_block(start.believes_blocked);
  register_this_thread(reinterpret_cast<std::uintptr_t>(start.start_c11), start.name);
  note_beginning(start.created_ns, start.creator);
  return start.start_c11(start.argument);
}

ThreadStart* make_start(void* (*start)(void*), thrd_start_t start_c11, void* argument) noexcept {
  auto* made = static_cast<ThreadStart*>(malloc(sizeof(ThreadStart)));
  if (made == nullptr) return nullptr;
  *made = {start, start_c11, argument, believes_sample_signal_blocked(), {}, monotonic_ns(), own_tid()};
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
  const std::uint64_t created_ns = own->created_ns;  // the new thread frees the rest
  const int result = create_unrecorded_thread(thread, attributes, run_thread, own);
  if (result != 0)
    free(own);
  else
    note_tie(clusterprof::wire::ThreadTieKind::kCreated, created_ns, 0, 0);
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
  const std::uint64_t created_ns = own->created_ns;
  const int result = create(thread, run_c11_thread, own);
  if (result != thrd_success)
    free(own);
  else
    note_tie(clusterprof::wire::ThreadTieKind::kCreated, created_ns, 0, 0);
  return result;
}

// A thread may be cancelled in these: then nothing was joined.
[[gnu::visibility("default")]] int pthread_join(pthread_t thread, void** returned) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(pthread_t, void**)> real;
  auto* const join = real_function(real, "pthread_join");
  if (join == nullptr) return ENOSYS;
  const std::uint64_t begin_ns = monotonic_ns();
  const int result = join(thread, returned);
  if (result == 0)
    note_tie(clusterprof::wire::ThreadTieKind::kJoined, begin_ns, static_cast<std::uint64_t>(thread), 0);
  return result;
}

[[gnu::visibility("default")]] int thrd_join(thrd_t thread, int* returned) {
  using namespace clusterprof::agent;
  static std::atomic<int (*)(thrd_t, int*)> real;
  auto* const join = real_function(real, "thrd_join");
  if (join == nullptr) return thrd_error;
  const std::uint64_t begin_ns = monotonic_ns();
  const int result = join(thread, returned);
  if (result == thrd_success)
    note_tie(clusterprof::wire::ThreadTieKind::kJoined, begin_ns, static_cast<std::uint64_t>(thread), 0);
  return result;
}

}  // extern "C"
