// SPDX-License-Identifier: BSD-3-Clause
#include "cli/attach/stack_rules.hpp"

#include <sys/syscall.h>

#include <algorithm>
#include <string_view>

#include "base/base_name.hpp"

namespace clusterprof::cli::attach {
namespace {

template <typename List>
bool has(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// Functions of libc that wait for a futex and hold no lock of libc's meanwhile.
constexpr std::string_view kWaits[] = {
    "pthread_cond_wait",     "pthread_cond_timedwait", "pthread_cond_clockwait", "sem_wait",
    "sem_timedwait",         "sem_clockwait",          "pthread_mutex_lock",     "pthread_mutex_timedlock",
    "pthread_join",          "pthread_timedjoin_np",   "pthread_clockjoin_np",   "pthread_barrier_wait",
    "pthread_rwlock_rdlock", "pthread_rwlock_wrlock",  "new_sem_wait",           "syscall"};

// Functions of libc that take no lock, call none of the program's, and change nothing but errno.
constexpr std::string_view kLockless[] = {
    "clock",        "clock_getres", "clock_gettime", "getcpu",    "getegid", "geteuid",
    "getgid",       "getpid",       "getppid",       "getrusage", "gettid",  "getuid",
    "gettimeofday", "sched_getcpu", "sched_yield",   "syscall",   "time",    "times"};

// A symbol table may have several names at one place: __pthread_mutex_lock, pthread_cond_wait@@GLIBC_2.3.2.
std::string_view plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  return name.substr(0, name.find('@'));
}

// That call the program back.
constexpr std::string_view kCallers[] = {"qsort", "qsort_r", "bsearch", "start_thread", "pthread_once"};
// The frame of libc's that is next to the program's entry point.
constexpr std::string_view kStarters[] = {"libc_start_main", "libc_start_main_impl"};

bool is_libc(const StackFrame& frame) { return frame.place == Place::kLibc; }
bool is_vdso(const StackFrame& frame) { return frame.place == Place::kVdso; }

// Such a call waits for nothing: wherever the thread is stopped in it, the result is there.
bool returns_at_once(long call) {
  switch (call) {
    case SYS_clock_getres:
    case SYS_clock_gettime:
    case SYS_getcpu:
    case SYS_getegid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getpid:
    case SYS_getppid:
    case SYS_getrusage:
    case SYS_gettid:
    case SYS_gettimeofday:
    case SYS_getuid:
    case SYS_sched_yield:
    case SYS_time:
    case SYS_times:
      return true;
    default:
      return false;
  }
}

// Behind the frames of a complete stack that are the program's doing: where threads begin there are functions
// of libc's, which in most installations have no names; where the main thread begins, the entry point is
// behind them.
std::vector<StackFrame>::const_iterator end_of_program(const std::vector<StackFrame>& frames,
                                                       std::vector<StackFrame>::const_iterator begin) {
  auto end = frames.end();
  if (end - begin >= 2 && (end - 1)->place == Place::kProgram && is_libc(*(end - 2)) &&
      has(kStarters, plain((end - 2)->function)))
    --end;
  while (end != begin && is_libc(*(end - 1))) --end;
  return end;
}

}  // namespace

Place place_of_object(const std::string& path) {
  const std::string_view name = base_name(path);
  for (const std::string_view prefix : {"ld-linux", "ld-2.", "ld.so"})
    if (name.starts_with(prefix)) return Place::kLoader;
  for (const std::string_view prefix :
       {"libc.so.6", "libc-2.", "libpthread", "libdl.so", "libdl-2.", "librt.so", "librt-2."})
    if (name.starts_with(prefix)) return Place::kLibc;
  for (const std::string_view prefix : {"libjemalloc", "libtcmalloc", "libmimalloc", "libtbbmalloc",
                                        "libhoard", "libasan", "libtsan", "liblsan", "libmsan"})
    if (name.starts_with(prefix)) return Place::kAllocator;
  return name.starts_with("[vdso") ? Place::kVdso : Place::kProgram;
}

bool may_stop_in(long call) {
  switch (call) {
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_restart_syscall:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_futex:
      return true;
    default:
      return false;
  }
}

int suits(char state, long call) {
  if (state == 'S' && may_stop_in(call)) return call == SYS_futex ? 1 : 0;
  return state == 'R' ? 2 : -1;
}

std::string objection_to(const ThreadStack& stack, bool own_malloc) {
  const auto& frames = stack.frames;
  const bool may_wait = may_stop_in(stack.call);
  if (stack.call >= 0 && !may_wait && !returns_at_once(stack.call))
    return "it is in a system call that cannot be interrupted and made again";
  if (frames.empty()) return "its stack cannot be read";
  if (!may_wait && !stack.complete) return "its stack cannot be walked to its end";
  if (own_malloc && (!may_wait || stack.call == SYS_futex)) return "it may be in the program's own malloc";
  for (const StackFrame& frame : frames) {
    if (frame.place == Place::kLoader) return "it is in the loader";
    if (frame.place == Place::kAllocator) return "it is in malloc";
  }
  const auto first = std::find_if_not(frames.begin(), frames.end(), is_vdso);
  const auto caller = std::find_if_not(first, frames.end(), is_libc);
  if (caller != first) {
    const std::string& entered = (caller - 1)->function;  // what was called from outside of libc
    if (!may_wait && !has(kLockless, plain(entered))) return "it is in libc";
    if (stack.call == SYS_futex && !has(kWaits, plain(entered)))
      return "it waits for a lock in libc" + (entered.empty() ? std::string() : " (" + entered + ")");
  }
  if (caller == frames.end()) return stack.complete ? "" : "its stack cannot be walked out of libc";
  const auto end = stack.complete ? end_of_program(frames, caller) : frames.end();
  const auto inside = std::find_if(caller, end, [](const StackFrame& frame) {
    return is_libc(frame) && !has(kCallers, plain(frame.function));
  });
  if (inside == end) return {};
  return "it is in libc" + (inside->function.empty() ? std::string() : " (" + inside->function + ")");
}

}  // namespace clusterprof::cli::attach
