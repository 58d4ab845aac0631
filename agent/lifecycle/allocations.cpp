// SPDX-License-Identifier: BSD-3-Clause
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "agent/lifecycle/allocations.h"

#include <link.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdlib>

#include "agent/discovery/attach.h"
#include "agent/lifecycle/allocation_record.h"
#include "agent/lifecycle/mappings.h"
#include "agent/lifecycle/options.h"
#include "agent/memory_api.h"
#include "agent/sigsafe/process_state.h"
#include "agent/sigsafe/python_runtime.h"
#include "agent/sigsafe/raw_syscall.h"

namespace clusterprof::agent {
namespace {

// Of the largest segment. With the call paths, the ring and memory-wrap's counters these are 8 MB, if a
// process uses all of it.
constexpr std::uint32_t kSites = 8192, kBlocks = 98304;
constexpr std::uint64_t kPathBytes = 1536u << 10;

// From this version on, sampled objects stay in the interpreter's own pools.
constexpr std::uint32_t kFirstPythonInPlace = 0x030e'0000;

constexpr auto kRelaxed = std::memory_order_relaxed;

MemoryWrap* wrap() noexcept { return &clusterprof_memory_wrap_v1; }

bool is_wanted() noexcept { return g_options.memory_interval_bytes != 0 && wrap() != nullptr; }

void note(wire::SegmentHeader* segment, wire::MemoryNotes what) noexcept {
  segment->memory.notes.fetch_or(what, kRelaxed);
}

// Of all object files.
struct Unseen {
  bool other_malloc;
  std::uint64_t static_bytes;
};
constinit std::uint64_t g_static_bytes = 0;  // as of the last look

int look_at_object(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  auto& unseen = *static_cast<Unseen*>(argument);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) unseen.static_bytes += header.p_memsz;
    if (header.p_type != PT_DYNAMIC) continue;
    const auto* const dynamic = reinterpret_cast<const void*>(info->dlpi_addr + header.p_vaddr);
    if (wrap()->calls_other_malloc(info->dlpi_addr, dynamic)) unseen.other_malloc = true;
  }
  return 0;
}

bool is_set(const char* variable) noexcept {
  const char* const value = getenv(variable);
  return value != nullptr && *value != 0;
}

// With these variables the interpreter sets its allocators when it is initialised. They are read at the
// start: later the program may be changing its environment while the watcher looks.
constinit bool g_sets_python_allocator = false;

void end_with_program() noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment == nullptr || raw_syscall(SYS_getpid) != g_process.pid) return;
  look_for_unseen_memory(segment);
  end_record_of_allocations(segment);
}

constinit const MemoryRecorder kRecorder = {record_allocated, record_take,   record_put_back, record_freed,
                                            record_copied,    record_mapped, record_unmapped, record_attached,
                                            record_moves,     record_moved,  end_with_program};

}  // namespace

MemoryCapacities memory_capacities(unsigned step) noexcept {
  if (!is_wanted()) return {0, 0, 0, 0};
  return {kSites >> step, kBlocks >> step, 1, kPathBytes >> step};
}

void prepare_allocations() noexcept {
  if (!is_wanted()) return;
  g_sets_python_allocator = is_set("PYTHONMALLOC") || is_set("PYTHONDEVMODE");
  wrap()->find_functions();
  wrap()->interval_bytes.store(g_options.memory_interval_bytes, kRelaxed);
  wrap()->recorder.store(&kRecorder, std::memory_order_release);
  // Its code is part of the measurement. Nobody else adds ranges yet.
  const std::uint32_t index = g_process.own_ranges.load(kRelaxed);
  if (index == ProcessState::kMaxOwnRanges) return;
  g_process.own_start[index] = reinterpret_cast<std::uintptr_t>(wrap()->object_begin);
  g_process.own_end[index] = reinterpret_cast<std::uintptr_t>(wrap()->object_end);
  g_process.own_ranges.store(index + 1, std::memory_order_release);
}

void begin_allocations(wire::SegmentHeader* segment, bool forked) noexcept {
  if (g_options.memory_interval_bytes == 0) return;
  segment->memory.asked_interval_bytes = g_options.memory_interval_bytes;
  if (wrap() == nullptr) {
    note(segment, wire::kNoMemoryWrap);
    return;
  }
  segment->memory.interval_bytes.store(wrap()->interval_bytes.load(kRelaxed), kRelaxed);
  segment->memory.static_bytes.store(g_static_bytes, kRelaxed);
  begin_record_of_allocations();
  if (forked) {
    forget_mappings();
    wrap()->forget_blocks();
  }
  const bool sees = wrap()->sees_malloc();
  if (!sees) note(segment, wire::kProgramsOwnMalloc);
  wrap()->phase.store(sees ? MemoryPhase::kOn : MemoryPhase::kOff, std::memory_order_release);
}

void leave_allocations_alone() noexcept {
  if (wrap() != nullptr) wrap()->phase.store(MemoryPhase::kOff, std::memory_order_release);
}

void watch_python_allocator() noexcept {
  wire::SegmentHeader* const segment = segment_for_allocations();
  if (segment == nullptr || !wrap()->sees_malloc() || wrap()->python_hooked.load(kRelaxed)) return;
  FoundPython python = {};
  if (!python_found(python)) return;
  const PythonRuntime* const runtime = python_runtime();
  if (runtime != nullptr && runtime->is_initialized() != 0 && g_sets_python_allocator) {
    // Hooks in front of those would count what malloc counts.
    note(segment, wire::kPythonReplaced);
    return;
  }
  const ObjectRecording how =
      python.version_hex >= kFirstPythonInPlace ? ObjectRecording::kInPlace : ObjectRecording::kDiverted;
  if (!python.is_known || !wrap()->hook_python(python.handle, how)) note(segment, wire::kPythonNotSeen);
}

void look_for_unseen_memory(wire::SegmentHeader* segment) noexcept {
  if (segment == nullptr || segment->memory_rings == 0 || !wrap()->sees_malloc()) return;
  wrap()->objects_changed();
  Unseen unseen = {};
  dl_iterate_phdr(look_at_object, &unseen);
  if (unseen.other_malloc) note(segment, wire::kOtherMalloc);
  g_static_bytes = unseen.static_bytes;
  segment->memory.static_bytes.store(g_static_bytes, kRelaxed);
  const PythonRuntime* const runtime = python_runtime();
  // Also when the program ends: then there is no interpreter any more, but it says that it is ending.
  const bool has_run =
      runtime != nullptr && (runtime->is_initialized() != 0 || runtime->is_finalizing() != 0);
  if (!has_run || !wrap()->python_hooked.load(kRelaxed)) return;
  if (!wrap()->python_called.load(kRelaxed) || g_sets_python_allocator) note(segment, wire::kPythonReplaced);
}

}  // namespace clusterprof::agent
