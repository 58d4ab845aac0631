// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <initializer_list>
#include <string>

#include "cli/attach/stack_rules.hpp"

namespace clusterprof::cli::attach {
namespace {

const StackFrame kUser{Place::kProgram, ""}, kLoaderFrame{Place::kLoader, ""}, kMalloc{Place::kAllocator, ""},
    kVdso{Place::kVdso, ""};
StackFrame libc(const char* function) { return {Place::kLibc, function}; }

ThreadStack stack(long call, std::initializer_list<StackFrame> frames, bool complete = true) {
  return {call, frames, complete};
}

bool may(const ThreadStack& given, bool own_malloc = false) {
  return objection_to(given, own_malloc).empty();
}

TEST(StackRules, ThreadsThatSleep) {
  EXPECT_TRUE(may(stack(SYS_clock_nanosleep, {libc("clock_nanosleep"), libc("nanosleep"), kUser,
                                              libc("start_thread"), libc("")})));
  EXPECT_TRUE(may(stack(SYS_poll, {libc("poll"), kUser, kUser}, false)));
  EXPECT_TRUE(may(stack(SYS_read, {libc("read"), libc("fgets"), kUser, libc("__libc_start_main"), kUser})));
  // As the main thread begins where libc has kept the names of exported functions only.
  EXPECT_TRUE(may(stack(SYS_read, {libc("read"), kUser, libc(""), libc("__libc_start_main"), kUser})));
  EXPECT_TRUE(may(stack(-1, {kUser, libc(""), libc("__libc_start_main@@GLIBC_2.34"), kUser})));
  EXPECT_FALSE(may(stack(-1, {kUser, libc(""), kUser, libc(""), libc("__libc_start_main"), kUser})));
  EXPECT_FALSE(may(stack(-1, {kUser, libc(""), libc("exit"), kUser})));
  EXPECT_TRUE(may(stack(SYS_poll, {kUser, kUser})));  // by its own instruction
  EXPECT_FALSE(may(stack(SYS_poll, {}, false)));
  EXPECT_FALSE(may(stack(SYS_poll, {libc("poll"), libc("")}, false)));  // whoever called it is not known
  EXPECT_TRUE(may(stack(SYS_poll, {libc("poll"), libc("")})));          // a thread of libc's own
}

TEST(StackRules, CallsThatCannotBeMadeAgain) {
  EXPECT_FALSE(may(stack(SYS_connect, {libc("connect"), kUser})));
  EXPECT_FALSE(may(stack(SYS_write, {libc("write"), kUser})));
  EXPECT_FALSE(may_stop_in(SYS_rt_sigtimedwait));
  EXPECT_FALSE(may_stop_in(SYS_rt_sigsuspend));
  EXPECT_FALSE(may_stop_in(SYS_pause));
}

TEST(StackRules, LocksOfLibc) {
  EXPECT_TRUE(may(stack(SYS_futex, {libc(""), libc("pthread_cond_wait"), kUser})));
  EXPECT_TRUE(may(stack(SYS_futex, {kUser})));
  EXPECT_TRUE(may(stack(SYS_futex, {libc(""), libc("___pthread_mutex_lock"), kUser})));
  EXPECT_TRUE(may(stack(SYS_futex, {libc(""), libc("pthread_cond_wait@@GLIBC_2.3.2"), kUser})));
  EXPECT_FALSE(may(stack(SYS_futex, {libc(""), libc("__"), kUser})));
  EXPECT_FALSE(may(stack(SYS_futex, {libc(""), libc("malloc"), kUser})));
  EXPECT_FALSE(may(stack(SYS_futex, {libc(""), libc("fputs"), kUser})));
  EXPECT_FALSE(may(stack(SYS_futex, {libc(""), kUser})));
}

TEST(StackRules, ThreadsThatRun) {
  EXPECT_TRUE(may(stack(-1, {kUser, kUser, libc("start_thread"), libc("")})));
  EXPECT_FALSE(may(stack(-1, {kUser, kUser}, false)));
  EXPECT_FALSE(may(stack(-1, {libc("memcpy"), kUser})));
  EXPECT_FALSE(may(stack(-1, {libc("malloc"), kUser, libc("start_thread")})));
  EXPECT_FALSE(may(stack(-1, {kMalloc, kUser})));
}

TEST(StackRules, ThreadsThatAskForTheTimeOrYieldInALoop) {
  const StackFrame clock = libc("__clock_gettime"), end = libc("start_thread");
  EXPECT_TRUE(may(stack(SYS_clock_gettime, {kVdso, clock, kUser, end})));
  EXPECT_TRUE(may(stack(-1, {kVdso, clock, kUser, end})));
  EXPECT_TRUE(may(stack(-1, {clock, libc("clock"), kUser, end})));
  EXPECT_TRUE(may(stack(-1, {kVdso, kUser, end})));  // as gettimeofday() is linked
  EXPECT_TRUE(may(stack(SYS_sched_yield, {libc("sched_yield"), kUser, end})));
  EXPECT_TRUE(may(stack(SYS_gettid, {libc("syscall"), kUser, end})));
  EXPECT_TRUE(may(stack(SYS_sched_yield, {kUser, end})));
  EXPECT_FALSE(may(
      stack(SYS_sched_yield, {libc("sched_yield"), libc("pthread_spin_unlock_of_the_future"), kUser, end})));
  EXPECT_FALSE(may(stack(SYS_sched_yield, {libc("sched_yield"), kMalloc, kUser, end})));
  EXPECT_FALSE(may(stack(SYS_clock_gettime, {kVdso, clock, libc(""), kUser, end})));
  EXPECT_FALSE(may(stack(SYS_mmap, {libc("syscall"), kUser, end})));
  EXPECT_FALSE(may(stack(SYS_clock_gettime, {kVdso, clock, kUser}, false)));
  EXPECT_FALSE(may(stack(SYS_sched_yield, {libc("sched_yield"), kUser, end}), true));
}

TEST(StackRules, WhatIsFurtherOut) {
  EXPECT_TRUE(may(stack(-1, {kUser, libc("qsort"), kUser, libc("start_thread")})));
  EXPECT_FALSE(may(stack(-1, {kUser, libc("malloc"), kUser, libc("start_thread")})));  // a handler in malloc
  EXPECT_FALSE(may(stack(SYS_poll, {libc("poll"), kUser, libc("exit"), kUser})));
  EXPECT_FALSE(
      may(stack(SYS_poll, {libc("poll"), kUser, kLoaderFrame, kLoaderFrame, kUser})));  // a constructor
  EXPECT_FALSE(may(stack(SYS_poll, {libc("poll"), kUser, kMalloc, kUser})));
  // Not down to the end: what is outermost may be anything.
  EXPECT_FALSE(may(stack(SYS_poll, {libc("poll"), kUser, libc("malloc")}, false)));
}

TEST(StackRules, AMallocOfTheProgramsOwn) {
  EXPECT_FALSE(may(stack(-1, {kUser, kUser}), true));
  EXPECT_FALSE(may(stack(SYS_futex, {kUser}), true));
  EXPECT_TRUE(may(stack(SYS_poll, {libc("poll"), kUser}), true));
}

TEST(StackRules, TheBestThreadComesFirst) {
  EXPECT_EQ(suits('S', SYS_poll), 0);
  EXPECT_EQ(suits('S', SYS_futex), 1);
  EXPECT_EQ(suits('R', -1), 2);
  EXPECT_EQ(suits('S', SYS_write), -1);
  EXPECT_EQ(suits('D', SYS_read), -1);
  EXPECT_EQ(suits('Z', -1), -1);
}

TEST(StackRules, KindsOfObjects) {
  EXPECT_EQ(place_of_object("/usr/lib/libc.so.6"), Place::kLibc);
  EXPECT_EQ(place_of_object("/lib64/libpthread-2.28.so"), Place::kLibc);
  EXPECT_EQ(place_of_object("/usr/lib/ld-linux-x86-64.so.2"), Place::kLoader);
  EXPECT_EQ(place_of_object("/opt/lib/libjemalloc.so.2"), Place::kAllocator);
  EXPECT_EQ(place_of_object("/opt/lib/libcrypto.so.3"), Place::kProgram);
  EXPECT_EQ(place_of_object("[vdso: 12]"), Place::kVdso);
}

}  // namespace
}  // namespace clusterprof::cli::attach
