// SPDX-License-Identifier: BSD-3-Clause
// Records how the process ended. exit() and a return from main reach on_exit; the other ways to end are
// interposed. A child of vfork shares our memory but is another process: its end is not ours.
#include "agent/lifecycle/exit.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/discovery/generated_code.h"
#include "agent/lifecycle/real_function.h"
#include "agent/lifecycle/signal_mask.h"
#include "agent/lifecycle/usage.h"
#include "agent/sigsafe/fork_page.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/sample_handler.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<bool> g_ended = false;
CLUSTERPROF_WRITTEN_BY_FORKS constinit std::atomic<wire::SegmentHeader*> g_kept_segment = nullptr;

bool is_recorded_process() noexcept {
  return g_process.segment.load(std::memory_order_acquire) != nullptr &&
         raw_syscall(SYS_getpid) == g_process.pid;
}

// The stack of the thread that ends the process shows where it gave up.
[[gnu::noinline]] void sample_where_it_ends() noexcept {
  const ThreadContext& thread = t_context;
  if (thread.record == nullptr || slot_of(thread) == nullptr || thread.slot->is_main != 1) return;
  ucontext_t here = {};  // getcontext() leaves the stack out
  if (getcontext(&here) != 0 || raw_syscall(SYS_sigaltstack, nullptr, &here.uc_stack) != 0) return;
  sample_last(&here);
}

void end_with_status(int status) noexcept {
  if (wire::SegmentHeader* const kept = g_kept_segment.load(std::memory_order_acquire)) {
    // It is not possible to ask which process this is: a child of vfork may get here before the process
    // itself. The last one counts.
    kept->exit_status.store(status & 0xff, std::memory_order_relaxed);
    kept->exit_flags.fetch_or(wire::kExitStatusKnown, std::memory_order_release);
    return;
  }
  if (!is_recorded_process()) return;
  if (status != 0) sample_where_it_ends();
  block_sample_signal();  // for the rest of this thread's life
  ThreadContext& context = t_context;
  if (slot_of(context) != nullptr && !recording_has_ended()) {
    push_thread_end(context, clock_ns(CLOCK_THREAD_CPUTIME_ID));
    context.slot = nullptr;
  }
  generated_code_refresh_at_exit(g_process.segment.load(std::memory_order_acquire));
  record_end(wire::kExitStatusKnown, status & 0xff, 0);
}

}  // namespace

// A second fault during this sample enters the fault handler again, which then ends at once.
void sample_last(void* context) noexcept {
  static constinit std::atomic<bool> done = false;
  const ThreadContext& thread = t_context;
  if (thread.record == nullptr || done.exchange(true, std::memory_order_relaxed)) return;
  const std::uint64_t before = change_mask(SIG_SETMASK, kAllSignals & ~kFaultSignals);
  siginfo_t tick = {};
  tick.si_code = SI_TIMER;
  tick.si_timerid = kLastTick;
  tick.si_value.sival_ptr = thread.record;
  sample_handler(kSampleSignal, &tick, context);
  change_mask(SIG_SETMASK, before);
}

void record_end(std::uint32_t exit_flags, int status, std::uint32_t fatal_signal) noexcept {
  wire::SegmentHeader* const segment = g_process.segment.load(std::memory_order_acquire);
  if (segment == nullptr) return;
  const bool has_ended = g_ended.exchange(true, std::memory_order_acq_rel);
  std::uint32_t none = 0;
  if (fatal_signal != 0)
    segment->fatal_signal.compare_exchange_strong(none, fatal_signal, std::memory_order_relaxed);
  if (has_ended) {
    // What runs after our exit handler, or another thread, may crash. Nothing else changes what was said.
    if (fatal_signal != 0) segment->exit_flags.fetch_or(exit_flags, std::memory_order_release);
    return;
  }
  refresh_usage_at_end(segment);
  segment->exit_status.store(status, std::memory_order_relaxed);
  segment->exit_flags.fetch_or(exit_flags, std::memory_order_release);
  segment->end_mono_ns.store(monotonic_ns(), std::memory_order_release);
}

void keep_segment_for_end(wire::SegmentHeader* segment) noexcept {
  g_kept_segment.store(segment, std::memory_order_release);
}

void reset_end() noexcept { g_ended.store(false, std::memory_order_relaxed); }

// It is registered before the program's own exit handlers, so it runs after them.
void watch_exit() noexcept {
  on_exit([](int status, void*) { end_with_status(status); }, nullptr);
}

}  // namespace clusterprof::agent

extern "C" {

[[gnu::visibility("default"), gnu::noreturn]] void _exit(int status) {
  clusterprof::agent::end_with_status(status);
  while (true) clusterprof::agent::raw_syscall(SYS_exit_group, status);
}

[[gnu::visibility("default"), gnu::noreturn]] void _Exit(int status) noexcept { _exit(status); }

[[gnu::visibility("default"), gnu::noreturn]] void quick_exit(int status) noexcept {
  using namespace clusterprof::agent;
  static std::atomic<void (*)(int)> real;
  end_with_status(status);  // runs before its handlers; with exit, it runs after them
  if (auto* const function = real_function(real, "quick_exit")) function(status);
  _exit(status);
}

}  // extern "C"
