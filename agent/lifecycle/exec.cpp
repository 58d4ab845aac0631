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
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "agent/lifecycle/creation.h"
#include "agent/lifecycle/exec_preload.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/thread_records.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/windows.h"
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
constinit std::atomic<pid_t (*)()> g_vfork = nullptr;
constinit std::atomic<int (*)(const char*)> g_system = nullptr;
constinit std::atomic<FILE* (*)(const char*, const char*)> g_popen = nullptr;

constexpr std::uint64_t kSampleBit = std::uint64_t{1} << (kSampleSignal - 1);

// While an object lives, no signal of ours is sent to the calling thread. In a child of vfork, which has our
// memory but neither our threads nor our timers, it does nothing.
class ExecGuard {
 public:
  ExecGuard() noexcept : ignores_(ignore_signals_for_exec(reinterpret_cast<std::uintptr_t>(this), outer_)) {
    ThreadContext& context = t_context;
    if (slot_of(context) == nullptr || raw_syscall(SYS_getpid) != g_process.pid) return;
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
    if (ignores_) handle_signals_again(outer_);
    if (record_ == nullptr) return;
    const int error = errno;
    block_all_signals();
    t_context.exec_frame = 0;
    if (!really_blocks_sample_signal()) resume_events(*record_);
    give_record_back(*record_);
    catch_up_window(*record_, phase_);
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

  BusyFrame outer_ = {};
  const bool ignores_;
  const std::uint32_t phase_ = g_process.record_phase.load();  // recording may be turned on or off meanwhile
  ThreadRecord* record_ = nullptr;
  std::uint64_t mask_ = 0;
};

int failed(long result) noexcept {
  errno = static_cast<int>(-result);
  return -1;
}

// Ours apart, so that the stack has room for a second environment only if one is needed.
template <typename Call>
[[gnu::noinline]] int with_changed_environment(const PreloadFate& fate, const char* variable,
                                               char* const* environment, EnvironmentSize size,
                                               Call call) noexcept {
  void* const memory = alloca(size.bytes());
  char* const* const changed = changed_environment(fate, variable, environment, size, memory);
  return call(changed != nullptr ? changed : environment);
}

// Whether the stack is large enough, as far as that is known, for a copy that the program could do without.
bool has_room_for_copy(EnvironmentSize size) noexcept {
  constexpr std::size_t kLeftFree = 32 * 1024;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const ThreadContext& context = t_context;
  return frame >= context.stack_low && frame < context.stack_high &&
         frame - context.stack_low > size.bytes() + kLeftFree;
}

// Calls with the environment for a program that cannot load all of our objects, and is told what made it. An
// unrecorded program is told, too: those that it starts inherit it.
template <typename Call>
int with_usable_preloads(const PreloadFate& fate, const CreationText& creation, char* const* environment,
                         Call call) noexcept {
  // What cannot be read must not be.
  const bool may_tell = creation.text[0] != 0 && fate.readable;
  if (fate.keeps_environment() && !may_tell) return call(environment);
  const EnvironmentSize size = environment_size(environment);
  if (may_tell && has_room_for_copy(size)) {
    const int result = with_changed_environment(fate, creation.text, environment, size, call);
    // One variable more may be too much for the kernel, where the program's own would not be.
    if (result != E2BIG && !(result == -1 && errno == E2BIG)) return result;
  }
  if (fate.keeps_environment()) return call(environment);
  return with_changed_environment(fate, nullptr, environment, size, call);
}

// The same for a call that executes the program in this process, and returns only if that fails.
template <typename Call>
int execute_with(const PreloadFate& fate, const char* program, char* const* arguments,
                 char* const* environment, Call call) noexcept {
  count_unrecorded(fate.unrecorded, 1);
  const CreationText creation = creation_in_child_of_vfork();
  const OpenLaunch launch = fate.may_be_noted()
                                ? note_launch(static_cast<std::int32_t>(raw_syscall(SYS_getpid)),
                                              fate.unrecorded, creation.of, program, arguments)
                                : OpenLaunch{};
  const int result = with_usable_preloads(fate, creation, environment, call);
  forget_launch(launch);
  count_unrecorded(fate.unrecorded, -1);
  return result;
}

int search_and_execute(const char* file, char* const* arguments, char* const* environment) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate_of_command(file, environment), file, arguments, environment,
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
  // File actions may not be repeatable, so there must be no second call.
  const bool may_tell = fate.readable && (actions == nullptr || are_small(arguments, environment));
  // An environment that was made without us is left as it is, and the program noted in our table only.
  const bool is_only_noted = !fate.readable && fate.may_be_noted();
  const CreationText creation = may_tell || is_only_noted ? creation_for_spawn() : CreationText{};
  pid_t started = 0;
  pid_t* const pid = child != nullptr ? child : &started;
  const int error = with_usable_preloads(fate, creation, environment, [=](char* const* variables) noexcept {
    return function(pid, program, actions, attributes, arguments, variables);
  });
  if (error != 0) return error;
  count_unrecorded(fate.unrecorded, 1);
  if (fate.may_be_noted()) note_launch(*pid, fate.unrecorded, creation.of, program, arguments);
  return 0;
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
  real_function(g_vfork, "vfork");
  real_function(g_system, "system");
  real_function(g_popen, "popen");
}

int execute_at(int folder, const char* path, char* const* arguments, char* const* environment,
               int flags) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate(folder, path, environment), path, arguments, environment,
                      [=](char* const* variables) noexcept {
                        return failed(raw_syscall(SYS_execveat, folder, path, arguments, variables, flags));
                      });
}

int execute(const char* path, char* const* arguments, char* const* environment) noexcept {
  const ExecGuard guard;
  return execute_with(preload_fate(AT_FDCWD, path, environment), path, arguments, environment,
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

// vfork() returns twice from the frame that called it, so nothing of ours may be on the stack meanwhile:
// libc's function returns to our caller.
asm(R"(
  .pushsection .text
  .globl vfork
  .type vfork, @function
vfork:
  .cfi_startproc
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call clusterprof_before_vfork
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size vfork, . - vfork
  .popsection
)");

extern "C" {

// Returns libc's vfork.
[[gnu::visibility("hidden")]] void* clusterprof_before_vfork() noexcept {
  using namespace clusterprof::agent;
  note_creation(clusterprof::wire::CreationKind::kExec);
  const auto no_vfork = []() -> pid_t { return failed(-ENOSYS); };
  pid_t (*const function)() = real_function(g_vfork, "vfork");
  return reinterpret_cast<void*>(function != nullptr ? function : +no_vfork);
}

// Thread cancellation may unwind these.
CLUSTERPROF_EXPORT int system(const char* command) {
  using namespace clusterprof::agent;
  const auto function = real_function(g_system, "system");
  if (function == nullptr) return failed(-ENOSYS);
  const OpenShellCall call = begin_shell_call();
  const int status = function(command);
  end_shell_call(call, 0);
  return status;
}

CLUSTERPROF_EXPORT FILE* popen(const char* command, const char* mode) {
  using namespace clusterprof::agent;
  const auto function = real_function(g_popen, "popen");
  if (function == nullptr) {
    errno = ENOSYS;
    return nullptr;
  }
  const OpenShellCall call = begin_shell_call();
  FILE* const pipe = function(command, mode);
  // On a busy node the shell may come to its first instruction long after popen() has returned.
  constexpr std::uint64_t kLateNs = 2'000'000'000;
  end_shell_call(call, kLateNs);
  return pipe;
}

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
  return clusterprof::agent::execute(path, arguments, environ);
}

CLUSTERPROF_EXPORT int execlp(const char* file, const char* first, ...) noexcept {
  CLUSTERPROF_COLLECT(arguments, first, list);
  va_end(list);
  return clusterprof::agent::search_and_execute(file, arguments, environ);
}

CLUSTERPROF_EXPORT int execle(const char* path, const char* first, ...) noexcept {
  CLUSTERPROF_COLLECT(arguments, first, list);
  char* const* const environment = va_arg(list, char* const*);
  va_end(list);
  return clusterprof::agent::execute(path, arguments, environment);
}

}  // extern "C"
