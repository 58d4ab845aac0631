// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/start.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/discovery/attach.h"
#include "agent/discovery/module_table.h"
#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/creation.h"
#include "agent/lifecycle/end_recording.h"
#include "agent/lifecycle/event_loops.h"
#include "agent/lifecycle/exec.h"
#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/file_calls.h"
#include "agent/lifecycle/fork.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/process.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/stdio_calls.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/transfers.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_stack.h"
#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

// Defined by the linker: start and end of this object in memory.
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start[];
extern "C" [[gnu::visibility("hidden")]] const char _end[];

namespace clusterprof::agent {
namespace {

constinit std::atomic<std::uint32_t> g_started = 0;

// The clock of libc itself, since other preloads may have wrapped it.
void find_in_libc() noexcept {
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc == nullptr) return;
  g_process.read_clock = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(libc, "clock_gettime"));
  g_process.abort_message = static_cast<const AbortMessage* const*>(dlsym(libc, "__abort_msg"));
  dlclose(libc);  // it stays
}

void set_process_options() noexcept {
  g_process.pid = getpid();
  g_process.period_ns.store(wire::sampling_period_ns(g_options.rate_hz), std::memory_order_relaxed);
  g_process.watch_blocked = !g_options.cpu_clock;
  g_process.walk_native_frames = !g_options.no_native;
  g_process.only_regions = g_options.only_regions;
  g_process.check_paths = g_options.check_paths;
  g_process.foreign_signal = forward_foreign_signal;
  if (g_process.own_ranges.load(std::memory_order_relaxed) != 0) return;  // it is attached to again
  g_process.own_start[0] = reinterpret_cast<std::uintptr_t>(__ehdr_start);
  g_process.own_end[0] = reinterpret_cast<std::uintptr_t>(_end);
  g_process.own_ranges.store(1, std::memory_order_release);
}

[[gnu::constructor]] void start_with_program() { ensure_started(); }

}  // namespace

void prepare_process() noexcept {
  find_in_libc();
  set_process_options();
  g_process.tick = choose_tick();
}

void ensure_started() noexcept {
  std::uint32_t expected = 0;
  if (g_started.load(std::memory_order_acquire) != 0 ||
      !g_started.compare_exchange_strong(expected, 1, std::memory_order_acq_rel))
    return;
  const CancellationOff no_cancellation;
  // Also if nothing is recorded: in the child of a fork, the loader's locks may be held forever.
  watch_transfers();
  watch_file_calls();
  watch_event_loops();
  watch_stdio_calls();
  watch_exec();
  watch_signals();
  read_options();
  if (!g_options.record || is_off_on_this_node()) return;
  read_creation(getenv(wire::kCreationVariable));
  prepare_process();
  if (open_process(nullptr, false)) {
    watch_fork();
    watch_exit();
  }
  if (g_options.no_children) hide_from_children();
}

}  // namespace clusterprof::agent
