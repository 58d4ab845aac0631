// SPDX-License-Identifier: BSD-3-Clause
// Interposed functions that wake threads. None of those in which threads wait is ours: what waits is seen by
// samples, and only whoever ends such a wait leaves a record (sigsafe/awaited_words.h).
#include "agent/lifecycle/wakes.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>

#include <cstring>

#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/threads.h"
#include "agent/sigsafe/awaited_words.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/sample_handler.h"
#include "agent/sigsafe/spin_lock.h"

namespace clusterprof::agent {
namespace {

std::atomic<int (*)(pthread_cond_t*)> g_cond_signal, g_cond_broadcast;
std::atomic<int (*)(cnd_t*)> g_cnd_signal, g_cnd_broadcast;
Real<int(sem_t*)> g_sem_post{"sem_post", {}};
std::atomic<int (*)(pthread_rwlock_t*)> g_rwlock_unlock;
std::atomic<int (*)(pthread_barrier_t*)> g_barrier_wait;
std::atomic<int (*)(pthread_spinlock_t*)> g_spin_unlock;

constexpr std::uint64_t kSampleBit = std::uint64_t{1} << (kSampleSignal - 1);

enum class Wakes { kOne, kAll };

// `words`: of the object, those that whoever waits may wait for.
[[gnu::noinline]] void note_wake(const void* object, const void* words, std::uint64_t bytes,
                                 Wakes wakes) noexcept {
  ThreadContext& context = t_context;
  if (recording_has_ended() || slot_of(context) == nullptr) return;
  // A handler of the program's may jump out of sem_post.
  const std::uint64_t mask = block_all_signals();
  // sem_post may be called by a handler of the program's that has interrupted another record of ours.
  if ((mask & kSampleBit) == 0) {
    const std::uint64_t word = take_awaited_word(words, bytes, wakes == Wakes::kAll);
    const std::uint64_t now_ns = monotonic_ns();
    if (word != 0)
      push_thread_tie(
          context, wakes == Wakes::kAll ? wire::ThreadTieKind::kWokeAll : wire::ThreadTieKind::kWoke, now_ns,
          now_ns, word, static_cast<std::int32_t>(word - reinterpret_cast<std::uint64_t>(object)));
  }
  restore_signals(mask);
}

// The last thread at a barrier. `seen`: what awaited_now() returned when it came.
[[gnu::noinline]] void note_last_at(const void* barrier, std::uint64_t seen, std::uint64_t came_ns) noexcept {
  ThreadContext& context = t_context;
  if (recording_has_ended() || slot_of(context) == nullptr) return;
  const std::uint64_t mask = block_all_signals();
  if ((mask & kSampleBit) == 0 && take_awaited(seen))
    push_thread_tie(context, wire::ThreadTieKind::kWokeAll, came_ns, came_ns, word_of(seen),
                    static_cast<std::int32_t>(word_of(seen) - reinterpret_cast<std::uint64_t>(barrier)));
  restore_signals(mask);
}

// Whoever spins for the lock does so because this thread has it: where that was is behind the call.
[[gnu::noinline]] void note_unlock(const void* lock, const void* behind_call) noexcept {
  ThreadContext& context = t_context;
  if (recording_has_ended() || slot_of(context) == nullptr) return;
  const std::uint64_t mask = block_all_signals();
  if ((mask & kSampleBit) == 0) {
    if (const std::uint64_t word = take_awaited_word(lock, sizeof(pthread_spinlock_t), true); word != 0)
      push_thread_tie(context, wire::ThreadTieKind::kUnlocked, monotonic_ns(),
                      reinterpret_cast<std::uint64_t>(behind_call), word, 0);
  }
  restore_signals(mask);
}

[[gnu::always_inline]] inline void before_wake(const void* object, std::uint64_t bytes,
                                               Wakes wakes) noexcept {
  if (__builtin_expect(is_awaited(object, bytes), false)) note_wake(object, object, bytes, wakes);
}

// For a function that returns its error.
template <typename Function, typename Object>
[[gnu::always_inline]] inline int pass_on(Function function, Object* object, int without_function) noexcept {
  return function != nullptr ? function(object) : without_function;
}

// Before 2.36, dlsym of glibc may return the function for the conditions of 2.2.5, which are others.
template <typename Function>
Function of_condition(std::atomic<Function>& cached, const char* name) noexcept {
  if (Function const known = cached.load(std::memory_order_relaxed); known != nullptr) return known;
  auto* const function = reinterpret_cast<Function>(dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"));
  if (function == nullptr) return real_function(cached, name);
  cached.store(function, std::memory_order_relaxed);
  return function;
}

// Of many readers only the last one ends a writer's wait. glibc keeps them in the first word, above three
// flags. Readers wait for it and for the third word, writers for the fourth, and these are woken one by one.
constexpr std::uint64_t kWriterWord = 12;

bool is_last_holder(const pthread_rwlock_t* lock) noexcept {
  constexpr std::uint32_t kReaderShift = 3, kHeldByWriter = 2;
  std::uint32_t state = 0;
  std::memcpy(&state, lock, sizeof state);
  return (state & kHeldByWriter) != 0 || state >> kReaderShift <= 1;
}

}  // namespace

void watch_wakes(const NextFunctions& functions) noexcept {
  of_condition(g_cond_signal, "pthread_cond_signal");
  of_condition(g_cond_broadcast, "pthread_cond_broadcast");
  real_function(g_cnd_signal, "cnd_signal");
  real_function(g_cnd_broadcast, "cnd_broadcast");
  g_sem_post.find();
  real_function(g_rwlock_unlock, "pthread_rwlock_unlock");
  real_function(g_barrier_wait, "pthread_barrier_wait");
  real_function(g_spin_unlock, "pthread_spin_unlock");
  // Before glibc 2.34 it is in libpthread.
  void* const spin_lock = functions.function_of_libc("pthread_spin_lock");
  know_spin_lock(spin_lock != nullptr ? spin_lock : next_function("pthread_spin_lock"));
}

void note_wakes(long address, long most) noexcept {
  before_wake(reinterpret_cast<const void*>(address), sizeof(int), most == 1 ? Wakes::kOne : Wakes::kAll);
}

}  // namespace clusterprof::agent

extern "C" {

[[gnu::visibility("default")]] int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  using namespace clusterprof::agent;
  before_wake(condition, sizeof *condition, Wakes::kOne);
  return pass_on(of_condition(g_cond_signal, "pthread_cond_signal"), condition, ENOSYS);
}

[[gnu::visibility("default")]] int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  using namespace clusterprof::agent;
  before_wake(condition, sizeof *condition, Wakes::kAll);
  return pass_on(of_condition(g_cond_broadcast, "pthread_cond_broadcast"), condition, ENOSYS);
}

[[gnu::visibility("default")]] int cnd_signal(cnd_t* condition) {
  using namespace clusterprof::agent;
  before_wake(condition, sizeof *condition, Wakes::kOne);
  return pass_on(real_function(g_cnd_signal, "cnd_signal"), condition, thrd_error);
}

[[gnu::visibility("default")]] int cnd_broadcast(cnd_t* condition) {
  using namespace clusterprof::agent;
  before_wake(condition, sizeof *condition, Wakes::kAll);
  return pass_on(real_function(g_cnd_broadcast, "cnd_broadcast"), condition, thrd_error);
}

[[gnu::visibility("default")]] int sem_post(sem_t* semaphore) noexcept {
  using namespace clusterprof::agent;
  before_wake(semaphore, sizeof(std::uint64_t), Wakes::kOne);
  return g_sem_post(semaphore);
}

[[gnu::visibility("default")]] int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  using namespace clusterprof::agent;
  if (is_last_holder(lock)) {
    before_wake(lock, kWriterWord, Wakes::kAll);
    const void* const writers = reinterpret_cast<const char*>(lock) + kWriterWord;
    if (__builtin_expect(is_awaited(writers, sizeof(int)), false))
      note_wake(lock, writers, sizeof(int), Wakes::kOne);
  }
  return pass_on(real_function(g_rwlock_unlock, "pthread_rwlock_unlock"), lock, ENOSYS);
}

[[gnu::visibility("default")]] int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  using namespace clusterprof::agent;
  const void* const word = const_cast<const int*>(lock);
  if (__builtin_expect(is_awaited(word, sizeof *lock), false)) note_unlock(word, __builtin_return_address(0));
  return pass_on(real_function(g_spin_unlock, "pthread_spin_unlock"), lock, ENOSYS);
}

// glibc gives this value to the last one that came, which has let the others go: when its call returns they
// may have run on for long, and wait for it again.
[[gnu::visibility("default")]] int pthread_barrier_wait(pthread_barrier_t* barrier) noexcept {
  using namespace clusterprof::agent;
  const std::uint64_t seen = awaited_now(barrier, sizeof *barrier);
  const std::uint64_t came_ns = seen != 0 ? monotonic_ns() : 0;
  const int result = pass_on(real_function(g_barrier_wait, "pthread_barrier_wait"), barrier, ENOSYS);
  if (result == PTHREAD_BARRIER_SERIAL_THREAD && seen != 0) note_last_at(barrier, seen, came_ns);
  return result;
}

}  // extern "C"
