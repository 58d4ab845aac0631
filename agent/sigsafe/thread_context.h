// SPDX-License-Identifier: BSD-3-Clause
// What the agent keeps per thread outside shared memory. One thread-local object with the initial-exec TLS
// model, trivially constructed: reading it in a handler never allocates.
#pragma once

#include <atomic>
#include <cstdint>

#include "agent/agent_api.h"
#include "agent/sigsafe/openmp_state.h"
#include "agent/sigsafe/pause_clock.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

struct NativeCache;   // native_stack.h: pc -> unwind rule
struct Scratch;       // sample_handler.h: room for one stack walk
struct PathMemo;      // call_path.h: MPI call paths seen on this thread
struct ThreadRecord;  // process_state.h: the private side of the slot

// Guarded reads: while `armed`, a SIGSEGV or SIGBUS on this thread jumps back to where the guard was set. See
// guard.h.
struct GuardState {
  volatile std::uint32_t armed;
  void* jump[5];  // __builtin_setjmp buffer
};

// What lifecycle/transfers.cpp needs to know about signals that arrived during a call.
struct TransferState {
  volatile std::uint32_t program_handlers;  // of the program's that have returned
  volatile std::uint32_t cut;               // signals of ours that may have ended a transfer in the middle
  // A transfer is being continued, in this system call, which is made below this frame. 0: none.
  volatile std::uintptr_t continued_frame;
  volatile std::int64_t continued_number;
};

// By CLOCK_MONOTONIC in ns, or by the processor's time stamp counter (lifecycle/fast_clock.h).
struct Moment {
  std::uint64_t at;
  bool in_ticks;
};

// The program's regions that the thread is in (lifecycle/regions.cpp). Written by the thread, outside
// handlers. An entry is complete before the depth includes it.
struct RegionStack {
  static constexpr std::uint32_t kMost = 128;
  struct Entry {
    std::uint32_t index;        // of wire::Region; kNoRegion: it has none, the table being full
    std::uint32_t innermost;    // index of this one, or of the innermost around it that has one
    std::uint64_t key, domain;  // hashes of name and domain, and of the domain
    std::uint64_t forward;      // ForwardPlace::packed
    Moment start;
    std::int64_t n;
  };
  volatile std::uint32_t depth;
  std::uint32_t deeper;  // begun when there was no room: part of the innermost
  OutsideClock outside;
  PausesOfCalls pauses;  // of MPI calls
  Entry entry[kMost];
};

struct ThreadContext {
  TransferState transfer;       // first: signal_return.cpp; outlives what the others are about
  wire::ThreadSlot* slot;       // null: this thread is not recorded
  volatile std::uint32_t busy;  // > 0: agent code runs on this thread outside the handler
  // The lower half of the return address that was above busy_frame; 0: not known.
  std::uint32_t busy_return;
  GuardState guard;
  std::uintptr_t stack_low, stack_high;  // of the thread; both 0 when unknown
  NativeCache* native_cache;
  Scratch* handler_scratch;  // for the handler only
  Scratch* call_scratch;     // for call_path(), outside the handler
  PathMemo* path_memo;
  RegionStack* regions;  // null when the thread is not recorded
  OmpState* openmp;      // the same
  std::uint32_t last_handler_ns;
  std::uint32_t mpi_depth;
  bool mpi_paused;  // the program had paused recording when the thread entered MPI
  // As a mask: signals of faults that the thread blocks, and that its handler has unblocked for this sample.
  volatile std::uint16_t faults_let_in;
  std::uint32_t mpi_phase;  // ProcessState::record_phase then
  // Estimate of the cost of MPI wrappers (lifecycle/api.cpp): the number of calls since the last timed one;
  // for a timed call, what its wrapper has cost so far and when the call ended; and the usual cost of a
  // wrapper.
  std::uint32_t mpi_calls;
  bool mpi_timed;
  std::uint64_t wrapper_ns, wrapper_left_ns, usual_wrapper_ns;
  std::uint64_t walks_ns;          // spent in walks for call paths, outside the handler
  clusterprof_call_path mpi_path;  // of the call it is in
  wire::MpiEventRing* event_ring;  // of the thread in that segment; null: it has none
  const wire::SegmentHeader* event_ring_of;
  std::uint32_t
      event_ring_generation;  // ProcessState::generation: a later segment may be at the same address
  // kMonotonic: where the last sample found the thread waiting; 0: it ran.
  std::uint64_t waiting_pc, waiting_sp;
  // The last values of getrusage, and when they were read (CLOCK_MONOTONIC).
  std::uint64_t usage_time_ns, usage_cpu_ns, system_ns, page_faults, major_faults, switches;
  std::uint64_t voluntary_switches, told_voluntary_switches;  // now, and at the last record
  std::uint64_t preemptions, told_preemptions;
  // The stack addresses at which mpi_depth and busy were set: the program may jump out of these frames.
  std::uintptr_t mpi_frame, busy_frame;
  std::uintptr_t exec_frame;  // of lifecycle/exec.cpp, while it keeps the record to itself; 0: it does not
  ThreadRecord* record;       // set whenever slot is
  std::uint32_t generation;   // ProcessState::generation when slot was set: see slot_of
  std::uint64_t python_name_time_ns;  // when Python's name of it was looked for (CLOCK_MONOTONIC; 0: not yet)
};

// Number of regions that samples of this thread show: the outermost ones. On the thread itself.
[[gnu::always_inline]] inline std::uint32_t shown_regions(const ThreadContext& context) noexcept {
  const std::uint32_t depth = context.regions != nullptr ? context.regions->depth : 0;
  return depth < wire::kMaxRegionDepth ? depth : wire::kMaxRegionDepth;
}

// The innermost of these regions, kNoRegion if there is none. It implies all regions around it.
[[gnu::always_inline]] inline std::uint32_t shown_region(const ThreadContext& context) noexcept {
  const std::uint32_t shown = shown_regions(context);
  return shown != 0 ? context.regions->entry[shown - 1].innermost : wire::kNoRegion;
}

// What a call path of the thread has besides the frames of its stack.
[[gnu::always_inline]] inline std::uint64_t surroundings(const ThreadContext& context) noexcept {
  return std::uint64_t{joined_site(context.openmp)} << 32 | shown_region(context);
}
inline constexpr std::uint32_t kMostSurroundings = wire::kMaxRegionDepth + 1;

// Writes the frame words for these: the OpenMP region that the stack goes on with, then one word per region,
// the innermost first. Returns the number, at most kMostSurroundings.
inline std::uint32_t write_surroundings(const ThreadContext& context, std::uint64_t* words) noexcept {
  std::uint32_t count = 0;
  if (const std::uint32_t site = joined_site(context.openmp); site != wire::kNoOmpSite)
    words[count++] = wire::kOmpFrameTag | site;
  for (std::uint32_t i = shown_regions(context); i-- > 0;) {
    const std::uint32_t index = context.regions->entry[i].index;
    if (index != wire::kNoRegion) words[count++] = wire::kRegionFrameTag | index;
  }
  return count;
}

// Where busy code said that it began. A handler of the program's may interrupt code of ours that has said so
// and is not busy yet; what begins in the handler keeps this, and puts it back at its end.
struct BusyFrame {
  std::uintptr_t frame;
  std::uint32_t return_address;  // its lower half
};

[[gnu::always_inline]] inline BusyFrame begin_busy(ThreadContext& context, std::uintptr_t frame,
                                                   std::uint32_t return_address) noexcept {
  const BusyFrame outer = {context.busy_frame, context.busy_return};
  context.busy_frame = frame;
  context.busy_return = return_address;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  context.busy = context.busy + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return outer;
}

[[gnu::always_inline]] inline void end_busy(ThreadContext& context, const BusyFrame& outer) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (context.busy != 0) context.busy = context.busy - 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  context.busy_frame = outer.frame;
  context.busy_return = outer.return_address;
}

// The program jumped out of agent code outside the handler, so that code is over.
inline void forget_busy(ThreadContext& context) noexcept {
  context.busy = 0;
  context.guard.armed = 0;
}

inline bool is_on_own_stack(const ThreadContext& context, std::uintptr_t address) noexcept {
  return address >= context.stack_low && address < context.stack_high;
}

// True if code that began at `frame` is over although it did not report its end: the stack now ends above it.
// False if either address is not on the thread's own stack.
inline bool is_left(const ThreadContext& context, std::uintptr_t frame, std::uintptr_t now) noexcept {
  return frame >= context.stack_low && now < context.stack_high && now > frame;
}

// The same for what made the thread busy, also on stacks whose ends are not known. A deeper call may be made
// since: then something else is where the frame was. `now` is one above the frame of a call that begins.
bool busy_is_left(const ThreadContext& context, std::uintptr_t now) noexcept;

extern thread_local constinit ThreadContext t_context __attribute__((tls_model("initial-exec")));

}  // namespace clusterprof::agent
