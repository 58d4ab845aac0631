// SPDX-License-Identifier: BSD-3-Clause
// The child of a fork is another process of the same rank, with a segment of its own.
#include <pthread.h>
#include <unistd.h>

#include "agent/lifecycle/agent.h"

namespace clusterprof::agent {
namespace {

thread_local constinit bool t_watcher_paused = false;

// The watcher may be inside the loader or malloc; the child would find their locks taken for ever.
void before_fork() noexcept {
  t_watcher_paused = g_process.segment.load(std::memory_order_acquire) != nullptr && pause_watcher();
}

void after_fork_in_parent() noexcept {
  if (t_watcher_paused) resume_watcher();
  t_watcher_paused = false;
}

void after_fork_in_child() noexcept {
  t_watcher_paused = false;
  wire::SegmentHeader* const parents = g_process.segment.exchange(nullptr, std::memory_order_acq_rel);
  if (parents == nullptr) return;
  g_process.pid = getpid();
  reset_signals_after_fork();
  reset_watcher_after_fork();
  reset_end();
  abandon_counters();
  forget_threads();
  close_inherited_connection();
  unmap_segment(parents);
  if (!g_options.no_children) open_process(true);
}

}  // namespace

void watch_fork() noexcept { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

}  // namespace clusterprof::agent
