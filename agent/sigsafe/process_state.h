// SPDX-License-Identifier: BSD-3-Clause
// What the handler needs to know about the process, and about every thread besides its ThreadContext.
// lifecycle/ sets it up before the first timer of the process starts.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "agent/sigsafe/raw_syscall.h"
#include "agent/sigsafe/thread_context.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent {

// A high real-time signal, so that the program's EINTRs and its SIGPROF stay its own. Not SIGRTMAX - 0, which
// many other tools choose.
inline constexpr int kSampleSignal = 61;

// From this rate on CPU clock timers are too coarse (they are driven by the kernel's tick).
inline constexpr std::uint32_t kWallTimerRateHz = 500;

// A thread has moved, that is, left the call in which it was blocked, if its CPU clock grew by more than this
// plus the cost of our own handler. Being interrupted and going back to sleep costs about 10 us.
inline constexpr std::uint64_t kMovedNs = 30'000;

// Where a counter's value comes from. A thread reports its values in this order; one that has no event set,
// or no event of its own, reports only the first ones.
enum class CounterKind : std::uint8_t {
  kTaskClock,  // the thread's CPU clock; up to kContextSwitches, the kernel's accounting of the thread
  kPageFaults,
  kMinorFaults,
  kMajorFaults,
  kContextSwitches,
  kPapi,        // of the thread's event set
  kMigrations,  // a performance event
};

// What one thread counts with. Written by its own thread, and by the one that attaches it.
struct CounterState {
  std::atomic<std::uint32_t> counts;   // 0: it has no counters
  std::atomic<std::uint32_t> running;  // the event set
  bool attached;                       // made by another thread than the one it is about
  bool equivalents;                    // ProcessState::equivalent_kinds instead of an event set
  int event_set;                       // PAPI's number, or the descriptor of the first event of a group
  // The file descriptors that were opened for it, and the kernel's id of the event behind the first one,
  // which is the one that is read: the program may close descriptors that it does not know, and reuse their
  // numbers.
  std::uint32_t descriptor_count;
  int descriptors[2 * wire::kMaxCounters];  // an event may be made of several
  std::uint64_t first_id;                   // 0: cannot be checked
  int migrations_descriptor;                // -1: none; its kernel's id, as above
  std::uint64_t migrations_id;
  // What was read last, when the thread had had that many context switches.
  bool migrations_known;
  bool migrations_due;  // the event is opened at the thread's next sample
  std::uint64_t migrations, migrations_switches;
  std::uint64_t base[wire::kMaxCounters];  // what was there before the program, of the kernel's accounting

  // With ProcessState::counts_mpi. Samples report what was counted outside MPI: the values minus `inside`.
  // `outside`: that difference when the thread entered MPI.
  volatile std::uint32_t in_mpi;
  std::uint32_t entered;  // how many values `outside` has
  std::uint64_t outside[wire::kMaxCounters], inside[wire::kMaxCounters], call[wire::kMaxCounters];
};

enum class RecordState : std::uint32_t {
  kFree = 0,
  kClaimed = 1,  // being set up or taken down by its thread
  kLive = 2,
  kWatched = 3,  // live, and the watcher is looking at it this instant
};

struct AbortMessage;  // last_words.h

// What causes a running thread's signals.
enum class Tick : std::uint32_t {
  kNone = 0,
  kCpuClock,   // a timer on the thread's CPU clock; the kernel looks at it at its own tick only
  kMonotonic,  // a timer on CLOCK_MONOTONIC: also comes while the thread waits, until it is stopped
  kTaskClock,  // a performance event that counts the thread's running time, or its cycles
};

// The watcher's own notes on a thread.
struct WatchState {
  std::int32_t tid;  // whom they are about: the thread of this number, see ThreadRecord
  std::uint32_t number;
  int syscall_file, schedule_file;  // below /proc, in the watcher's descriptor table; -1: not open
  std::uint64_t next_ns, pause_ns;  // when to look again, after how long
  std::uint64_t same_since_ns;      // it has run, or slept, all the time since
  // The thread's CPU time, and the time it waited for a processor, at one instant. base_ns 0: not known.
  std::uint64_t base_ns, base_cpu_ns, base_waited_ns;
  std::uint64_t waited_ns;     // in wait of a processor, when that was read last
  std::uint64_t signalled_ns;  // last time; 0: never
  std::uint64_t rest_ns;       // for how long it was then left alone
  std::uint64_t named_at_age_ns;
  std::uint64_t ran_after_ns;  // it did run after this look, and not after the next
  // After the signal at the first of these CPU times, the thread came to rest at the second.
  std::uint64_t rest_signal_ns, rest_cpu_ns;
  // How often it had got a processor: at this CPU time, and when the watcher signalled it. 0: not known.
  std::uint64_t runs, runs_cpu_ns, signalled_runs;
  // kMonotonic: by how many that number is above the context switches that the handler counts, at least. The
  // kernel does not count everything in both.
  bool runs_above_known;
  std::int64_t runs_above;
};

// True if a system call that is made at this stack pointer may be one that a function of ours with this frame
// makes: through libc's function, with others in between. 0: there is no such function.
inline bool may_be_called_by(std::uintptr_t frame, std::uint64_t stack_pointer) noexcept {
  constexpr std::uint64_t kNearBytes = 16 * 1024;
  return stack_pointer < frame && frame - stack_pointer <= kNearBytes;
}

// A poll(2), epoll_wait(2) or epoll_pwait(2) that a function of ours is making. By the thread itself; the
// watcher reads it.
struct TimedCall {
  std::atomic<std::uintptr_t> frame;     // as transfer_frame; 0: none
  std::atomic<std::uintptr_t> array;     // its argument: where the events are
  std::atomic<std::int32_t> timeout_ms;  // its argument
  std::atomic<std::uint64_t> until_ns;   // when it has to be over (CLOCK_MONOTONIC)

  // True for a system call with these arguments. After the thread has jumped out of the call, others look
  // like it only if they are made past our functions, for the same array and a shorter time.
  bool is(std::int64_t number, std::uint64_t call_array, std::int32_t call_timeout_ms,
          std::uint64_t stack_pointer) const noexcept {
    return (number == SYS_poll || number == SYS_epoll_wait || number == SYS_epoll_pwait) &&
           call_timeout_ms > 0 && may_be_called_by(frame.load(std::memory_order_acquire), stack_pointer) &&
           array.load(std::memory_order_relaxed) == call_array &&
           call_timeout_ms <= timeout_ms.load(std::memory_order_relaxed);
  }
};

// The process-private side of a ThreadSlot, at the same index.
struct ThreadRecord {
  std::atomic<std::uint32_t> state;  // RecordState
  std::int32_t tid;
  wire::ThreadSlot* slot;
  clockid_t clock_id;  // the thread's CPU clock, from any thread of the process
  Tick tick;
  int timer_id;  // kernel's; -1 none
  // kMonotonic: where in a period the timer expires; and a second timer, on the thread's CPU clock, which is
  // started when the first is stopped and shows that the thread runs again. kTaskClock: the second timer runs
  // while the event is paused. -1: none.
  std::uint64_t phase_ns;
  int wake_timer_id;
  // The descriptor of the kTaskClock event, or of the event that is sampled on besides the tick (-1: none),
  // and the kernel's id of it: the program may close descriptors that it does not know, and reuse their
  // numbers. The event stops with each signal, so that no more than one can be pending.
  int event_descriptor;
  std::uint64_t event_id;
  bool event_shifted;  // its first period is another one, for the thread's phase
  bool event_spent;    // it has stopped, and its signal was thrown away
  bool event_waits;    // it has stopped in a call that blocks, and goes on when the thread is seen running
  CounterState counters;

  // Handler and watcher.
  std::atomic<std::uint64_t> sampled_cpu_ns;   // CPU clock at the last signal of ours
  std::atomic<std::uint32_t> sampled_cost_ns;  // what that signal's handler took
  // Where it met the thread: at or behind the call that it interrupted.
  std::atomic<std::uint64_t> sampled_pc, sampled_sp;
  // If it met it blocked: how often the thread had given its processor up by then to wait for something, and
  // how often it had lost it in either way. Both 0: not known.
  std::atomic<std::uint64_t> sampled_waits, sampled_switches;
  std::atomic<bool> sampled_running;       // it was no sample of a thread that waits
  std::atomic<std::uint32_t> timer_off;    // kMonotonic: the handler stopped it, the thread is blocked
  std::atomic<std::uint32_t> signal_sent;  // watcher: 1 before the signal; handler: 0
  // What the kernel said the thread was blocked in when the signal was sent; number -1: nothing.
  std::int32_t blocked_number;
  std::uint64_t blocked_pc;

  std::uint32_t number;             // of the process's threads, in the order in which they began
  std::uint64_t base_run_delay_ns;  // of the kernel's account, before the thread was recorded

  // Written by the thread itself: it is in a call that continues after one of our signals
  // (lifecycle/transfers.cpp), and everything that the call runs is below this address on the stack. 0: it is
  // not.
  std::atomic<std::uintptr_t> transfer_frame;
  TimedCall timed;  // the same of a wait with a relative timeout (lifecycle/timed_calls.h)

  // The thread has our signal blocked around this system call (SampleSignalHeld); -1: around none.
  std::atomic<std::int32_t> held_number;

  // Of how many ticks one comes: 1 but for a thread whose handler takes too long. By the handler; and what
  // that takes usually, and the CPU clock when it was over last.
  std::atomic<std::uint32_t> tick_stride;
  std::uint64_t usual_cost_ns, tick_end_cpu_ns;

  // Watcher only.
  std::uint64_t last_cpu_ns, last_look_ns;
  bool signalled;  // once for this block
  WatchState watch;
  bool blocks_sample_signal;  // it blocks kSampleSignal, past our functions; counted

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
  std::atomic<std::uint64_t> period_ns;
  Tick tick;           // what threads get, unless it cannot be had for one
  bool watch_blocked;  // the watcher signals threads that do not run
  bool walk_native_frames;
  bool only_regions;  // a thread outside all regions counts as paused
  bool check_paths;   // compare each remembered call path with a walk (tests)
  bool attached;      // from outside, while it ran (lifecycle/attached.cpp); false again after that has ended
  std::atomic<std::uint32_t> paused;  // pauses that the program has begun and not ended
  std::atomic<std::uint32_t> pauses;  // that it has begun
  PauseClock pause_clock;
  std::atomic<std::uint64_t> resumed_ns;  // when the last pause ended (CLOCK_MONOTONIC)
  // Whether a window of recording is open, and the clock of recorded time (wire::RecordedClock). Without
  // windows, recording is never off. lifecycle/windows.cpp switches.
  std::atomic<std::uint32_t> record_phase;
  std::atomic<std::uint64_t> record_off_ns, record_missed_ns[2];
  std::uint32_t counter_count, set_count;  // all; those of the event set
  CounterKind counter_kinds[wire::kMaxCounters];
  // The same without PAPI, for threads that it cannot be attached to; kPapi: there is nothing like it.
  CounterKind equivalent_kinds[wire::kMaxCounters];
  bool counts_mpi;             // wire::SegmentHeader::counts_mpi_sites
  bool uses_events;            // signals of performance events come
  bool samples_event;          // --sample-on: besides the ticks, or instead of them (Tick::kTaskClock)
  bool event_in_ns;            // what is sampled on counts time
  std::uint64_t event_period;  // of a Tick::kTaskClock, after its first; 0: the kernel chooses
  // Of the thread's event set, set_count values: PAPI_read, or read_event_group. 0 on success.
  int (*read_event_set)(int event_set, long long* values);

  // Opens the event of a thread whose CounterState says migrations_due. Call on that thread.
  void (*open_due_event)(CounterState& counters);

  // libc's clock_gettime, which uses the vdso. Null: the system call. It is not called by name: another
  // preload may interpose it with other times, and take locks.
  int (*read_clock)(clockid_t clock, timespec* time);

  // glibc's __abort_msg; null: it has none.
  const AbortMessage* const* abort_message;

  // The program's own use of kSampleSignal: called for signals that are not ours.
  void (*foreign_signal)(int signal, siginfo_t* info, void* context);

  // Code that is part of the measurement, see agent_api.h. [0] is the agent itself.
  static constexpr std::uint32_t kMaxOwnRanges = 16;
  std::uintptr_t own_start[kMaxOwnRanges], own_end[kMaxOwnRanges];
  std::atomic<std::uint32_t> own_ranges;
};

extern ProcessState g_process;

// Where the thread is recorded; null: nowhere. A process that was attached to may be let go, and attached to
// again: what its threads know of an earlier segment, which may be gone, does not count.
inline wire::ThreadSlot* slot_of(const ThreadContext& context) noexcept {
  return context.generation == g_process.generation ? context.slot : nullptr;
}

// Part of the measurement.
inline bool is_own_code(std::uint64_t pc) noexcept {
  const std::uint32_t ranges = g_process.own_ranges.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < ranges; ++i)
    if (pc >= g_process.own_start[i] && pc < g_process.own_end[i]) return true;
  return false;
}

// Sample handlers that are running, and whether handlers are to do nothing any more (lifecycle/seccomp.cpp).
// On a cache line of its own, since the state above is read often.
struct alignas(64) HandlerState {
  std::atomic<std::uint32_t> running, ended;
};
extern HandlerState g_handlers;

inline bool recording_has_ended() noexcept { return g_handlers.ended.load(std::memory_order_relaxed) != 0; }

// Recording is turned off from outside: nobody samples, and MPI calls only take their numbers.
inline bool recording_is_off() noexcept {
  return wire::is_off_phase(g_process.record_phase.load(std::memory_order_relaxed));
}
inline wire::RecordedClock recorded_clock() noexcept {
  return wire::read_recorded_clock(g_process.record_phase, g_process.record_off_ns,
                                   g_process.record_missed_ns);
}

// Whether what began then is within the present window; without --standby all is.
inline bool began_in_this_window(const wire::SegmentHeader* segment, std::uint64_t time_ns) noexcept {
  return segment->outside_windows != wire::OutsideWindows::kNothing ||
         time_ns >= segment->window_begin_ns.load(std::memory_order_relaxed);
}

// By the program: the thread is in a pause, or outside all regions with --only-regions.
inline bool has_paused(const ThreadContext& context) noexcept {
  if (g_process.paused.load(std::memory_order_relaxed) != 0) return true;
  return g_process.only_regions && (context.regions == nullptr || context.regions->depth == 0);
}

// Whether the thread may have been in a pause at any time.
inline bool may_have_paused() noexcept {
  return g_process.only_regions || g_process.pauses.load(std::memory_order_relaxed) != 0;
}
// How long it was, by that time of recorded_clock(). On the thread itself.
inline std::uint64_t paused_until(const ThreadContext& context, std::uint64_t recorded_ns) noexcept {
  const std::uint64_t paused_ns = g_process.pause_clock.at(recorded_ns);
  return g_process.only_regions && context.regions != nullptr
             ? paused_ns + context.regions->outside.at(recorded_ns, paused_ns)
             : paused_ns;
}

// False while what the thread does is not to be recorded: time, MPI calls, file operations. Call on the
// thread itself.
inline bool is_recording(const ThreadContext& context) noexcept {
  return !recording_is_off() && !has_paused(context);
}

inline std::uint64_t tick_period_ns() noexcept { return g_process.period_ns.load(std::memory_order_relaxed); }

// True if the kernel sent it because of an event behind a file descriptor (F_SETSIG).
inline bool is_of_descriptor(const siginfo_t& info) noexcept {
  return info.si_code >= POLL_IN && info.si_code <= POLL_HUP;
}

// True if the agent sent this kSampleSignal. Signals of a timer or of the watcher carry the address of a
// thread's record.
inline bool is_own(const siginfo_t& info) noexcept {
  if (is_of_descriptor(info)) return g_process.uses_events;
  const auto* const record = static_cast<const ThreadRecord*>(info.si_value.sival_ptr);
  return (info.si_code == SI_TIMER || info.si_code == SI_QUEUE) && record >= g_process.records &&
         record < g_process.records + g_process.record_count;
}

inline std::uint64_t as_ns(const timespec& time) noexcept {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}
inline timespec as_timespec(std::uint64_t ns) noexcept {
  return {static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
}

// Async-signal-safe.
inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec time;
  const auto libc = g_process.read_clock;
  const long result = libc != nullptr ? libc(clock, &time) : raw_syscall(SYS_clock_gettime, clock, &time);
  return result == 0 ? as_ns(time) : 0;
}
inline std::uint64_t monotonic_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

// Async-signal-safe.
inline void count_drop(wire::SegmentHeader* segment, wire::DropReason reason,
                       std::uint64_t count = 1) noexcept {
  if (segment != nullptr)
    segment->drops[static_cast<std::uint32_t>(reason)].fetch_add(count, std::memory_order_relaxed);
}

}  // namespace clusterprof::agent
