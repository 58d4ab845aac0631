// SPDX-License-Identifier: BSD-3-Clause
// Interposed sleeps and poll(2). Sleeps without a place for the remaining time are given one: the kernel
// writes there how much is left, and the handler repeats the sleep with that. Nothing here has a destructor,
// since the thread may be cancelled in a call or jump out of it.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/timed_calls.h"

#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "agent/lifecycle/interpose.h"
#include "agent/lifecycle/next_function.h"
#include "agent/lifecycle/real_function.h"
#include "agent/sigsafe/process_state.h"

namespace clusterprof::agent {
namespace {

CLUSTERPROF_REAL(nanosleep, int(const timespec*, timespec*));
CLUSTERPROF_REAL(usleep, int(useconds_t));
CLUSTERPROF_REAL(clock_nanosleep, int(clockid_t, int, const timespec*, timespec*));
CLUSTERPROF_REAL(thrd_sleep, int(const timespec*, timespec*));
CLUSTERPROF_REAL(poll, int(pollfd*, nfds_t, int));
CLUSTERPROF_REAL(__poll_chk, int(pollfd*, nfds_t, int, size_t));

bool g_usleep_is_nanosleep = false;  // both are libc's, and nobody else's is in front of one

}  // namespace

ThreadRecord* begin_timed_call(const void* array, int timeout_ms, const void* frame,
                               std::uint64_t now_ns) noexcept {
  const ThreadContext& context = t_context;
  if (timeout_ms <= 0 || recording_has_ended() || slot_of(context) == nullptr) return nullptr;
  TimedCall& timed = context.record->timed;
  if (now_ns == 0) now_ns = monotonic_ns();
  const std::uint64_t timeout_ns = static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
  timed.until_ns.store(now_ns + timeout_ns, std::memory_order_relaxed);
  timed.array.store(reinterpret_cast<std::uintptr_t>(array), std::memory_order_relaxed);
  timed.timeout_ms.store(timeout_ms, std::memory_order_relaxed);
  timed.frame.store(reinterpret_cast<std::uintptr_t>(frame), std::memory_order_release);
  return context.record;
}

// A handler may have forked during the call: then this is another process, with a record of its own.
void end_timed_call(const ThreadRecord* record) noexcept {
  ThreadRecord* const now = t_context.record;
  if (now != nullptr && now == record) now->timed.frame.store(0, std::memory_order_relaxed);
}

namespace {

// In the same object. The loader reads its whole table of symbols for that: 93,000 instructions for libc's.
bool are_of_one_object(const void* one, const void* other) noexcept {
  Dl_info of_one = {}, of_other = {};
  return dladdr(one, &of_one) != 0 && dladdr(other, &of_other) != 0 && of_one.dli_fbase == of_other.dli_fbase;
}

}  // namespace

void watch_timed_calls(const NextFunctions& next) noexcept {
  const auto find = [](auto&... functions) { (functions.find(), ...); };
  find(g_nanosleep, g_usleep, g_clock_nanosleep, g_thrd_sleep, g_poll, g___poll_chk);
  const void* const usleep = reinterpret_cast<const void*>(g_usleep.find());
  const void* const nanosleep = reinterpret_cast<const void*>(g_nanosleep.find());
  const void* const of_libc = next.function_of_libc("usleep");
  g_usleep_is_nanosleep = of_libc != nullptr
                              ? usleep == of_libc && nanosleep == next.function_of_libc("nanosleep")
                              : are_of_one_object(usleep, nanosleep);
}

}  // namespace clusterprof::agent

using namespace clusterprof::agent;

CLUSTERPROF_STANDS_FOR(int, nanosleep, const timespec* duration, timespec* left) {
  timespec own;
  return g_nanosleep(duration, left != nullptr ? left : &own);
}

// libc's own calls nanosleep(2) without a place for the rest, past our function. In call paths the sleep is
// then nanosleep's.
CLUSTERPROF_STANDS_FOR(int, usleep, useconds_t microseconds) {
  if (!g_usleep_is_nanosleep) return g_usleep(microseconds);
  constexpr useconds_t kPerSecond = 1'000'000;
  const timespec duration = {static_cast<time_t>(microseconds / kPerSecond),
                             static_cast<long>(microseconds % kPerSecond) * 1000};
  timespec left;
  return g_nanosleep(&duration, &left);
}

// Returns the number of an error, unlike the others.
CLUSTERPROF_STANDS_FOR(int, clock_nanosleep, clockid_t clock, int flags, const timespec* time,
                       timespec* left) {
  timespec own;
  const bool is_relative = (flags & TIMER_ABSTIME) == 0;
  return g_clock_nanosleep(clock, flags, time, left != nullptr || !is_relative ? left : &own);
}

CLUSTERPROF_STANDS_FOR(int, thrd_sleep, const timespec* duration, timespec* left) {
  timespec own;
  return g_thrd_sleep(duration, left != nullptr ? left : &own);
}

CLUSTERPROF_STANDS_FOR(int, poll, pollfd* descriptors, nfds_t count, int timeout_ms) {
  ThreadRecord* const record = begin_timed_call(descriptors, timeout_ms, __builtin_frame_address(0));
  const int ready = g_poll(descriptors, count, timeout_ms);
  end_timed_call(record);
  return ready;
}

CLUSTERPROF_STANDS_FOR(int, __poll_chk, pollfd* descriptors, nfds_t count, int timeout_ms, size_t room) {
  ThreadRecord* const record = begin_timed_call(descriptors, timeout_ms, __builtin_frame_address(0));
  const int ready = g___poll_chk(descriptors, count, timeout_ms, room);
  end_timed_call(record);
  return ready;
}
