// SPDX-License-Identifier: BSD-3-Clause
// What the handler needs to know about the process and about every thread besides its
// ThreadContext. Set up by lifecycle/ before the first timer of the process starts.
#pragma once

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "agent/sigsafe/thread_context.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// High and real-time, so that the program's own EINTRs and SIGPROF stay its own. Not SIGRTMAX - 0:
// that is a popular choice of others.
inline constexpr int kSampleSignal = 61;

// From this rate on CPU clock timers are too coarse (they are driven by the kernel's tick).
inline constexpr std::uint32_t kWallTimerRateHz = 500;

// A thread has moved, that is, it has left the call it was blocked in, when its CPU clock grew by more than
// this plus what our own handler cost. Being interrupted and going back to sleep costs about 10 us.
inline constexpr std::uint64_t kMovedNs = 30'000;

// One thread's event set. Written by its own thread.
struct CounterState {
  std::atomic<std::uint32_t> running;
  int event_set;
  // The file descriptors that PAPI opened for it, and the kernel's id of the event behind the first, which
  // is the one that is read: the program may close descriptors it does not know, and reuse the number.
  std::uint32_t descriptor_count;
  int descriptors[wire::kMaxCounters];
  std::uint64_t first_id;  // 0: cannot be checked
};

enum class RecordState : std::uint32_t {
  kFree = 0,
  kClaimed = 1,  // being set up or taken down by its thread
  kLive = 2,
  kWatched = 3,  // live, and the watcher is looking at it this instant
};

// The process-private side of a ThreadSlot, at the same index.
struct ThreadRecord {
  std::atomic<std::uint32_t> state;  // RecordState
  std::int32_t tid;
  wire::ThreadSlot* slot;
  clockid_t clock_id;  // the thread's CPU clock, from any thread of the process
  int timer_id;        // kernel's; -1 none
  CounterState counters;

  // Handler and watcher.
  std::atomic<std::uint64_t> sampled_cpu_ns;   // CPU clock at the last signal of ours
  std::atomic<std::uint32_t> sampled_cost_ns;  // what that signal's handler took
  std::atomic<std::uint32_t> timer_off;        // wall timers: the handler stopped it, the thread is blocked
  std::atomic<std::uint32_t> signal_sent;      // watcher: 1 before the signal; handler: 0
  // What the kernel said the thread was blocked in when the signal was sent; number -1: nothing.
  std::int32_t blocked_number;
  std::uint64_t blocked_pc;

  // Watcher only.
  std::uint64_t last_cpu_ns, last_look_ns;
  bool signalled;  // once for this block

  // Kept for the next thread in this slot.
  void* memory;
  std::uint64_t memory_bytes;

  // Of a thread that was there before the agent: what its context becomes at its first signal.
  std::atomic<std::uint32_t> adoptable;
  ThreadContext prepared;
};

struct ProcessState {
  std::atomic<wire::SegmentHeader*> segment;
  ThreadRecord* records;
  std::uint32_t record_count;
  std::atomic<std::uint32_t> records_used;  // no record at or above this index was ever live
  std::int32_t pid;
  std::uint32_t generation;  // grows with every new segment (fork)
  std::uint64_t period_ns;
  bool wall_timers;
  bool watch_blocked;  // the watcher signals threads that do not run
  bool walk_native_frames;
  std::uint32_t counter_count;
  int (*papi_read)(int event_set, long long* values);

  // The program's own use of kSampleSignal: called for signals that are not ours.
  void (*foreign_signal)(int signal, siginfo_t* info, void* context);

  // Code that is part of the measurement, see agent_api.h. [0] is the agent itself.
  static constexpr std::uint32_t kMaxOwnRanges = 16;
  std::uintptr_t own_start[kMaxOwnRanges], own_end[kMaxOwnRanges];
  std::atomic<std::uint32_t> own_ranges;
};

extern ProcessState g_process;

// Async-signal-safe.
inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec time;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}
inline std::uint64_t monotonic_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

// Async-signal-safe.
inline void count_drop(wire::SegmentHeader* segment, wire::DropReason reason) noexcept {
  if (segment != nullptr)
    segment->drops[static_cast<std::uint32_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
