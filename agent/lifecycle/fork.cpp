// SPDX-License-Identifier: BSD-3-Clause
// The child of a fork is another process of the same rank, with a segment of its own.
#include "agent/lifecycle/fork.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "agent/lifecycle/allocations.h"
#include "agent/lifecycle/attachment.h"
#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/counters.h"
#include "agent/lifecycle/creation.h"
#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/file_io.h"
#include "agent/lifecycle/labelled_memory.h"
#include "agent/lifecycle/openmp.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/process.h"
#include "agent/lifecycle/regions.h"
#include "agent/lifecycle/seccomp.h"
#include "agent/lifecycle/segment.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/watcher.h"
#include "agent/sigsafe/process_state.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

thread_local constinit bool t_watcher_paused = false;
thread_local constinit bool t_one_thread = false;  // besides the watcher, where counters have to know
thread_local constinit bool t_has_forked = false;

// A handler of the program may call fork during a fork. The outermost fork holds the watcher's lock.
thread_local constinit std::uint32_t t_depth = 0;
thread_local constinit std::uintptr_t t_outermost_frame = 0;
thread_local constinit HeldSignal t_held = {0, false, -1};

bool has_one_thread() noexcept {
  struct stat status;
  constexpr nlink_t kDirectories = 2, kThreads = 2;  // ours and the watcher
  return stat("/proc/self/task", &status) == 0 && status.st_nlink == kDirectories + kThreads;
}

// Handlers that have waited run at the end of this function, and may call fork.
void end_outermost() noexcept {
  if (t_watcher_paused) resume_watcher();
  t_watcher_paused = false;
  t_depth = 0;
  const HeldSignal held = t_held;
  release_sample_signal(held);
}

// In a process with more than one thread, libc holds a lock during a fork, and a handler that calls fork
// would wait for it for ever. In a program of one thread that would be our fault, since our watcher is the
// second thread. So signals are blocked, except those that faults raise, which would then kill the process,
// and 32 and 33, which are libc's.
constexpr std::uint64_t bit_of(int signal) noexcept { return std::uint64_t{1} << (signal - 1); }
constexpr std::uint64_t kWaiting = ~(bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGILL) | bit_of(SIGFPE) |
                                     bit_of(SIGTRAP) | bit_of(SIGSYS) | bit_of(32) | bit_of(33));

// The watcher may be inside the loader or malloc, and then the child would find their locks taken for ever.
// Also, before Linux 4.19 a signal makes a fork start again, however much memory it has already copied.
void before_fork() noexcept {
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (t_depth != 0 && is_left(t_context, t_outermost_frame - 1, frame)) end_outermost();  // was jumped out of
  if (t_depth++ != 0) return;
  t_outermost_frame = frame;
  note_creation(wire::CreationKind::kFork);
  // Also where nothing is recorded: a process may be attached to again during this fork.
  t_watcher_paused = !filter_has_ended_recording() && pause_watcher();
  const bool is_recorded = g_process.segment.load(std::memory_order_acquire) != nullptr;
  t_one_thread = t_watcher_paused && is_recorded && must_know_threads_at_fork() && has_one_thread();
  t_held = hold_sample_signal(SYS_clone, kWaiting);
}

void after_fork_in_parent() noexcept {
  if (t_depth > 1) {
    --t_depth;
    return;
  }
  t_has_forked = t_watcher_paused && g_process.segment.load(std::memory_order_acquire) != nullptr;
  end_outermost();
}

void begin_as_child() noexcept {
  keep_segment_for_end(nullptr);
  reset_signals_after_fork();
  if (filter_has_ended_recording()) return;
  reset_watcher_after_fork();
  forget_attachment();
  if (recording_has_ended()) {
    g_process.segment.store(nullptr, std::memory_order_release);  // the parent's
    return;
  }
  const CancellationOff no_cancellation;
  g_process.pid = getpid();
  g_handlers.running.store(0, std::memory_order_relaxed);
  wire::SegmentHeader* const parents = g_process.segment.exchange(nullptr, std::memory_order_acq_rel);
  if (parents == nullptr) return;
  reset_end();
  abandon_counters(t_one_thread);
  keep_regions();
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  if (t_context.busy != 0 && busy_is_left(t_context, here)) forget_busy(t_context);
  const bool interrupts = t_context.busy != 0;
  forget_threads();
  reset_file_io_after_fork();
  reset_openmp_after_fork();
  reset_labelled_memory_after_fork();
  close_inherited_connection();
  begin_as_created_by(*parents);
  if (g_options.no_children || !open_process(parents, t_one_thread)) leave_allocations_alone();
  // A handler of the program's may have forked in the middle of a search.
  if (interrupts)
    blank_segment(parents);
  else
    blank_header(parents);
}

void after_fork_in_child() noexcept {
  t_watcher_paused = t_has_forked = false;
  if (t_depth != 0) --t_depth;
  begin_as_child();
  release_sample_signal(t_held);
}

}  // namespace

bool asks_for_threads_after_fork(const char* path) noexcept {
  if (!t_has_forked) return false;
  t_has_forked = false;
  return path != nullptr && strcmp(path, "/proc/self/stat") == 0 && has_one_thread();
}

void watch_fork() noexcept { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

}  // namespace clusterprof::agent
