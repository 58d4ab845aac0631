// SPDX-License-Identifier: BSD-3-Clause
// The process starts to execute another program. A signal of ours that is still pending would kill that
// program, which has no handler for it. The new program also inherits the signal mask, which must be the one
// that the old program believes to have.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/exec.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "agent/lifecycle/exec_preload.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/ticks.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"

namespace clusterprof::agent {
namespace {

using ExecByPath = int (*)(const char*, char* const*);
using ExecByPathWithEnvironment = int (*)(const char*, char* const*, char* const*);
using PosixSpawn = int (*)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                           char* const*, char* const*);

constinit std::atomic<ExecByPath> g_execvp = nullptr;
constinit std::atomic<ExecByPathWithEnvironment> g_execvpe = nullptr;
constinit std::atomic<PosixSpawn> g_posix_spawn = nullptr;
constinit std::atomic<PosixSpawn> g_posix_spawnp = nullptr;

constexpr std::uint64_t kSampleBit = std::uint64_t{1} << (kSampleSignal - 1);

// While an object lives, no signal of ours is sent to the calling thread. In a child of vfork, which has our
// memory but neither our threads nor our timers, it does nothing.
class ExecGuard {
 public:
  ExecGuard() noexcept : ignores_(ignore_signals_for_exec(this)) {
    ThreadContext& context = t_context;
    if (context.slot == nullptr || raw_syscall(SYS_getpid) != g_process.pid) return;
    // A handler of the program that interrupted the thread's registration, or another exec that is still on
    // its way. One that the program jumped out of may have begun at this very place.
    const auto here = reinterpret_cast<std::uintptr_t>(this);
    const std::uint32_t state = context.record->state.load(std::memory_order_relaxed);
    if (state == static_cast<std::uint32_t>(RecordState::kClaimed) &&
        (context.exec_frame == 0 || !is_left(context, context.exec_frame - 1, here)))
      return;
    // All signals: a handler of the program may jump out of the code that runs with signals open, but not out
    // of this.
    mask_ = block_all_signals();
    if (!claim_own_record(*context.record)) {
      restore_signals(mask_);
      return;
    }
    record_ = context.record;
    context.exec_frame = here;
    pause_events(*record_);
    if (!really_blocks_sample_signal()) resume_when_left(*record_);
    drop_waiting();
    std::uint64_t mask = holds_sample_signal() ? mask_ & ~kSampleBit : mask_;
    if (believes_sample_signal_blocked()) mask |= kSampleBit;
    restore_signals(mask);
  }
  ~ExecGuard() {
    if (ignores_) handle_signals_again();
    if (record_ == nullptr) return;
    const int error = errno;
    block_all_signals();
    t_context.exec_frame = 0;
    if (!really_blocks_sample_signal()) resume_events(*record_);
    give_record_back(*record_);
    restore_signals(mask_);
    errno = error;
  }
  ExecGuard(const ExecGuard&) = delete;
  ExecGuard& operator=(const ExecGuard&) = delete;

 private:
  // Goes through the thread's queue once: the program's own signals are queued again at its end, behind a
  // mark.
  void drop_waiting() noexcept {
    constexpr timespec kNow = {0, 0};
    constexpr std::uint32_t kWithoutMark = 1024;  // turns: the user has too many signals waiting to queue one
    const long thread = raw_syscall(SYS_gettid);
    siginfo_t info = {};
    info.si_signo = kSampleSignal;
    info.si_code = SI_QUEUE;
    info.si_pid = g_process.pid;
    info.si_value.sival_ptr = this;
    const bool marked = raw_syscall(SYS_rt_tgsigqueueinfo, g_process.pid, thread, kSampleSignal, &info) == 0;
    for (std::uint32_t turn = 0; marked || turn < kWithoutMark; ++turn) {
      if (raw_syscall(SYS_rt_sigtimedwait, &kSampleBit, &info, &kNow, sizeof kSampleBit) != kSampleSignal)
        return;
      if (info.si_code == SI_QUEUE && info.si_value.sival_ptr == this) return;
      if (!is_own(info)) {
        raw_syscall(SYS_rt_tgsigqueueinfo, g_process.pid, thread, kSampleSignal, &info);
      } else if (is_of_descriptor(info) && info.si_fd == record_->event_descriptor) {
        record_->event_spent = true;
      }
    }
  }

  const bool ignores_;
  ThreadRecord* record_ = nullptr;
  std::uint64_t mask_ = 0;
};

int failed(long result) noexcept {
  errno = static_cast<int>(-result);
  return -1;
}

// Ours apart, so that the stack has room for a second environment only if one is needed.
template <typename Call>
[[gnu::noinline]] int with_changed_environment(PreloadSet left_out, char* const* environment,
                                               Call call) noexcept {
  void* const memory = alloca(changed_environment_bytes(environment));
  return call(changed_environment(left_out, environment, memory));
}

// Calls with the environment for a program that cannot load all of our objects.
template <typename Call>
int with_usable_preloads(const PreloadFate& fate, char* const* environment, Call call) noexcept {
  return fate.left_out == 0 ? call(environment) : with_changed_environment(fate.left_out, environment, call);
}

// The same for a call that executes the program in this process, and returns only if that fails.
template <typename Call>
int execute_with(const PreloadFate& fate, char* const* environment, Call call) noexcept {
  count_unrecorded(fate.unrecorded, 1);
  const int result = with_usable_preloads(fate, environment, call);
  count_unrecorded(fate.unrecorded, -1);
  return result;
}

int search_and_execute(const char* file, char* const* arguments, char* const* environment) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate_of_command(file, environment), environment,
                      [=](char* const* variables) noexcept {
                        // Another preload may have wrapped only this one.
                        if (variables == environ) {
                          const ExecByPath function = real_function(g_execvp, "execvp");
                          return function != nullptr ? function(file, arguments) : failed(-ENOSYS);
                        }
                        const auto function = real_function(g_execvpe, "execvpe");
                        return function != nullptr ? function(file, arguments, variables) : failed(-ENOSYS);
                      });
}

// `function`: libc's posix_spawn or posix_spawnp; null if it has none.
int spawn(PosixSpawn function, const PreloadFate& fate, pid_t* child, const char* program,
          const posix_spawn_file_actions_t* actions, const posix_spawnattr_t* attributes,
          char* const* arguments, char* const* environment) noexcept {
  if (function == nullptr) return ENOSYS;
  const int error = with_usable_preloads(fate, environment, [=](char* const* variables) noexcept {
    return function(child, program, actions, attributes, arguments, variables);
  });
  if (error == 0) count_unrecorded(fate.unrecorded, 1);
  return error;
}

std::size_t count_arguments(va_list list) noexcept {
  std::size_t count = 1;
  while (va_arg(list, const char*) != nullptr) ++count;
  return count;
}

}  // namespace

// Looked up here, since the loader's locks may be taken for ever when it is called, in the child of a fork.
void watch_exec() noexcept {
  real_function(g_execvp, "execvp");
  real_function(g_execvpe, "execvpe");
  real_function(g_posix_spawn, "posix_spawn");
  real_function(g_posix_spawnp, "posix_spawnp");
}

int execute_at(int folder, const char* path, char* const* arguments, char* const* environment,
               int flags) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate(folder, path, environment), environment,
                      [=](char* const* variables) noexcept {
                        return failed(raw_syscall(SYS_execveat, folder, path, arguments, variables, flags));
                      });
}

int execute(const char* path, char* const* arguments, char* const* environment) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate(AT_FDCWD, path, environment), environment,
                      [=](char* const* variables) noexcept {
                        return failed(raw_syscall(SYS_execve, path, arguments, variables));
                      });
}

}  // namespace clusterprof::agent

#define CLUSTERPROF_EXPORT [[gnu::visibility("default")]]

// Collects the arguments of a variadic exec in the array `to`, on the stack as in libc. The list ends after
// the null.
#define CLUSTERPROF_COLLECT(to, first, list)                                  \
  va_list counted;                                                            \
  va_start(counted, first);                                                   \
  const std::size_t count = clusterprof::agent::count_arguments(counted);     \
  va_end(counted);                                                            \
  auto** const to = static_cast<char**>(alloca((count + 1) * sizeof(char*))); \
  va_list list;                                                               \
  va_start(list, first);                                                      \
  to[0] = const_cast<char*>(first);                                           \
  for (std::size_t argument = 1; argument <= count; ++argument) to[argument] = va_arg(list, char*)

extern "C" {

CLUSTERPROF_EXPORT int execve(const char* path, char* const* arguments, char* const* environment) noexcept {
  return clusterprof::agent::execute(path, arguments, environment);
}

CLUSTERPROF_EXPORT int execv(const char* path, char* const* arguments) noexcept {
  return clusterprof::agent::execute(path, arguments, environ);
}

CLUSTERPROF_EXPORT int execveat(int folder, const char* path, char* const* arguments,
                                char* const* environment, int flags) noexcept {
  return clusterprof::agent::execute_at(folder, path, arguments, environment, flags);
}

CLUSTERPROF_EXPORT int fexecve(int descriptor, char* const* arguments, char* const* environment) noexcept {
  using namespace clusterprof::agent;
  asm("" : "+r"(arguments));  // declared never to be null
  if (descriptor < 0 || arguments == nullptr || environment == nullptr) return failed(-EINVAL);
  return execute_at(descriptor, "", arguments, environment, AT_EMPTY_PATH);
}

CLUSTERPROF_EXPORT int execvp(const char* file, char* const* arguments) noexcept {
  return clusterprof::agent::search_and_execute(file, arguments, environ);
}

CLUSTERPROF_EXPORT int execvpe(const char* file, char* const* arguments, char* const* environment) noexcept {
  return clusterprof::agent::search_and_execute(file, arguments, environment);
}

CLUSTERPROF_EXPORT int posix_spawn(pid_t* child, const char* path, const posix_spawn_file_actions_t* actions,
                                   const posix_spawnattr_t* attributes, char* const* arguments,
                                   char* const* environment) {
  using namespace clusterprof::agent;
  return spawn(real_function(g_posix_spawn, "posix_spawn"), preload_fate(AT_FDCWD, path, environment), child,
               path, actions, attributes, arguments, environment);
}

CLUSTERPROF_EXPORT int posix_spawnp(pid_t* child, const char* file, const posix_spawn_file_actions_t* actions,
                                    const posix_spawnattr_t* attributes, char* const* arguments,
                                    char* const* environment) {
  using namespace clusterprof::agent;
  return spawn(real_function(g_posix_spawnp, "posix_spawnp"), preload_fate_of_command(file, environment),
               child, file, actions, attributes, arguments, environment);
}

CLUSTERPROF_EXPORT int execl(const char* path, const char* first, ...) noexcept {
  CLUSTERPROF_COLLECT(arguments, first, list);
  va_end(list);
  return execv(path, arguments);
}

CLUSTERPROF_EXPORT int execlp(const char* file, const char* first, ...) noexcept {
  CLUSTERPROF_COLLECT(arguments, first, list);
  va_end(list);
  return execvp(file, arguments);
}

CLUSTERPROF_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  CLUSTERPROF_COLLECT(arguments, first, list);
  char* const* const environment = va_arg(list, char* const*);
  va_end(list);
  return execve(path, arguments, environment);
}

}  // extern "C"
