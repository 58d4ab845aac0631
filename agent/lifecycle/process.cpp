// SPDX-License-Identifier: BSD-3-Clause
#include "agent/lifecycle/process.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/discovery/attach.h"
#include "agent/discovery/module_table.h"
#include "agent/lifecycle/allocations.h"
#include "agent/lifecycle/counters.h"
#include "agent/lifecycle/memory.h"
#include "agent/lifecycle/openmp.h"
#include "agent/lifecycle/options.h"
#include "agent/lifecycle/regions.h"
#include "agent/lifecycle/segment.h"
#include "agent/lifecycle/signals.h"
#include "agent/lifecycle/threads.h"
#include "agent/lifecycle/usage.h"
#include "agent/lifecycle/watcher.h"
#include "agent/lifecycle/windows.h"
#include "agent/sigsafe/call_path.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/raw_syscall.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {
namespace {

constinit void* g_path_table = nullptr;
constinit bool g_fork_empties_path_table = false;

// A kernel that empties the table in the child of a fork copies none of it.
bool renew_path_table(bool forked) noexcept {
  if (!forked || !g_fork_empties_path_table || g_path_table == nullptr) {
    if (g_path_table != nullptr) unmap_memory(g_path_table, path_table_bytes());
    g_path_table = map_memory(path_table_bytes());
    g_fork_empties_path_table =
        g_path_table != nullptr &&
        raw_syscall(SYS_madvise, g_path_table, path_table_bytes(), MADV_WIPEONFORK) == 0;
  }
  set_path_table(g_path_table);
  return g_path_table != nullptr;
}

}  // namespace

void drop_path_table() noexcept {
  if (g_path_table != nullptr) unmap_memory(g_path_table, path_table_bytes());
  g_path_table = nullptr;
}

const void* path_table_memory() noexcept { return g_path_table; }

bool open_process(const wire::SegmentHeader* parents, bool one_thread) noexcept {
  const bool forked = parents != nullptr;
  wire::SegmentHeader* const segment = make_segment(parents);
  if (segment == nullptr) return false;
  ++g_process.generation;
  begin_usage();
  if (!renew_path_table(forked) || (!forked && !prepare_threads(segment))) {
    unmap_segment(segment);
    refuse_recording(wire::UnrecordedReason::kNoMemory);
    return false;
  }
  if (forked) {  // what came or went since, the watcher will find
    module_table_copy(parents, segment);
    if (!g_options.no_python) python_report(segment);
  } else {
    module_table_refresh(nullptr);
    module_table_describe_all(segment);
    if (!g_options.no_python) python_attach(segment);
  }
  if (!forked || !keep_counters()) {
    if (g_process.attached)
      open_counters_without_papi("attached while it ran");
    else if (!forked || one_thread)
      open_counters();
    else
      open_counters_without_papi("forked by a program with threads");
  }
  describe_counters(segment);
  begin_windows(segment, forked);
  describe_openmp(segment);
  g_process.segment.store(segment, std::memory_order_release);
  if (!forked) install_handlers();
  if (!g_process.attached) register_this_thread();  // else this one is ours
  begin_allocations(segment, forked);
  watch_python_allocator();
  start_regions(segment, parents);
  if (!forked) attach_existing_threads();
  start_watcher();
  return true;
}

}  // namespace clusterprof::agent
