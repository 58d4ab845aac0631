// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/start.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/discovery/attach.h"
#include "agent/discovery/module_table.h"
#include "agent/lifecycle/allocations.h"
#include "agent/lifecycle/annotation_variables.h"
#include "agent/lifecycle/cancellation.h"
#include "agent/lifecycle/creation.h"
#include "agent/lifecycle/end_recording.h"
#include "agent/lifecycle/event_loops.h"
#include "agent/lifecycle/exec.h"
#include "agent/lifecycle/exit.h"
#include "agent/lifecycle/fast_clock.h"
#include "agent/lifecycle/file_calls.h"
#include "agent/lifecycle/fork.h"
#include "agent/lifecycle/next_function.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/process.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/stdio_calls.h"
#include "agent/lifecycle/ticks.h"
#include "agent/lifecycle/timed_calls.h"
#include "agent/lifecycle/transfers.h"
#include "agent/lifecycle/wakes.h"
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

using ReadClock = int (*)(clockid_t, timespec*);

// The clock of libc itself, since other preloads may have wrapped it.
void find_in_libc() noexcept {
  if (g_process.read_clock != nullptr) return;
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc == nullptr) return;
  g_process.read_clock = reinterpret_cast<ReadClock>(dlsym(libc, "clock_gettime"));
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

// Whether the program's calls come by our functions. They do not where we were not preloaded and a library
// loads us, because a variable says so (agent/annotations): then nothing can be recorded without the program
// noticing. The function is one that hardly anybody else stands in front of.
bool is_in_front() noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(dlsym(RTLD_DEFAULT, "capset"));
  return first >= reinterpret_cast<std::uintptr_t>(__ehdr_start) &&
         first < reinterpret_cast<std::uintptr_t>(_end);
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
  {
    const NextFunctions functions;
    watch_transfers();
    watch_wakes(functions);
    watch_file_calls();
    watch_event_loops();
    watch_timed_calls(functions);
    watch_stdio_calls();
    watch_exec();
    watch_signals();
    // Else they are asked for once it is known that this process is recorded.
    void* const clock = functions.function_of_libc("clock_gettime");
    void* const message = functions.variable_of_libc("__abort_msg");
    if (clock != nullptr && message != nullptr) {
      g_process.read_clock = reinterpret_cast<ReadClock>(clock);
      g_process.abort_message = static_cast<const AbortMessage* const*>(message);
    }
  }
  if (!is_in_front()) return leave_allocations_alone();
  read_options();
  if (!g_options.record || is_off_on_this_node()) return leave_allocations_alone();
  read_creation(getenv(wire::kCreationVariable));
  prepare_process();
  start_fast_clock();
  name_library_for_old_kokkos();
  prepare_allocations();
  if (open_process(nullptr, false)) {
    watch_fork();
    watch_exit();
  } else {
    leave_allocations_alone();
  }
  if (g_options.no_children) hide_from_children();
}

}  // namespace clusterprof::agent
