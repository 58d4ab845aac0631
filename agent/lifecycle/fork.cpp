// SPDX-License-Identifier: BSD-3-Clause
// The child of a fork is another process of the same rank, with a segment of its own.
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "agent/lifecycle/agent.h"

namespace clusterprof::agent {
namespace {

thread_local constinit bool t_watcher_paused = false;
thread_local constinit bool t_one_thread = false;  // besides the watcher
thread_local constinit bool t_has_forked = false;  // as the only thread that the program knows of

bool has_one_thread() noexcept {
  struct stat status;
  constexpr nlink_t kDirectories = 2, kThreads = 2;  // ours and the watcher
  return stat("/proc/self/task", &status) == 0 && status.st_nlink == kDirectories + kThreads;
}

// The watcher may be inside the loader or malloc; the child would find their locks taken for ever.
void before_fork() noexcept {
  t_watcher_paused = g_process.segment.load(std::memory_order_acquire) != nullptr && pause_watcher();
  t_one_thread = t_watcher_paused && has_one_thread();
}

void after_fork_in_parent() noexcept {
  if (t_watcher_paused) resume_watcher();
  t_has_forked = t_one_thread;
  t_watcher_paused = false;
}

void after_fork_in_child() noexcept {
  const CancellationOff no_cancellation;
  t_watcher_paused = t_has_forked = false;
  g_process.pid = getpid();
  reset_signals_after_fork();
  wire::SegmentHeader* const parents = g_process.segment.exchange(nullptr, std::memory_order_acq_rel);
  if (parents == nullptr) return;
  reset_watcher_after_fork();
  reset_end();
  abandon_counters(t_one_thread);
  keep_regions();
  forget_threads();
  reset_file_io_after_fork();
  close_inherited_connection();
  if (!g_options.no_children) open_process(parents, t_one_thread);
  unmap_segment(parents);
}

}  // namespace

bool asks_for_threads_after_fork(const char* path) noexcept {
  if (!t_has_forked) return false;
  t_has_forked = false;
  return path != nullptr && strcmp(path, "/proc/self/stat") == 0;
}

void watch_fork() noexcept { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

}  // namespace clusterprof::agent
