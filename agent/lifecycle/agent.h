// SPDX-License-Identifier: BSD-3-Clause
// The parts of the agent outside signal handlers, and how they use each other. Nothing here may
// print, fail the program or throw. Unless said otherwise: any thread, not from a handler.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdint>

#include "agent/sigsafe/process_state.h"
#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

struct perf_event_attr;

namespace clusterprof::agent {

// --- options.cpp ---

// --sample-on.
struct SampleOn {
  char name[wire::kCounterNameBytes];  // of the event; empty: there is none
  bool resolved;                       // `event` is valid
  wire::SampleEvent event;
  char reason[wire::kCounterNameBytes];  // why it is not sampled on
};

struct Options {
  bool record;  // false: this process is not to be recorded
  char socket[108];
  std::int32_t rank, world_size;  // -1 unknown
  std::uint32_t rate_hz;
  bool cpu_clock, no_python, no_native, no_children, only_regions, check_paths;
  char events[1024];  // comma separated; empty: the default set
  SampleOn sample_on;
  char preload[4096];  // our entries of LD_PRELOAD
};

// From the environment; once, at start.
extern Options g_options;
void read_options() noexcept;

// Removes our traces from the environment, so that what the program executes runs without us. In
// place: the environment's strings and array stay where the program finds them.
void hide_from_children() noexcept;

// --- segment.cpp ---

// Makes the segment and hands it to the collector. Null when the process cannot be recorded.
wire::SegmentHeader* make_segment() noexcept;
void unmap_segment(wire::SegmentHeader* segment) noexcept;

// Sends `memory_file` to the collector and keeps the connection open until the process ends.
// Returns false when there is no collector of our own user.
bool greet_collector(int memory_file, std::uint64_t segment_bytes) noexcept;
void close_inherited_connection() noexcept;  // in the child of a fork

// --- memory.cpp ---

// New memory, from the kernel itself; of `file` and shared, or private. Null when there is none.
void* map_memory(std::uint64_t bytes, int file = -1) noexcept;
void unmap_memory(void* memory, std::uint64_t bytes) noexcept;

// --- usage.cpp ---

// Async-signal-safe.
void refresh_usage(wire::SegmentHeader* segment) noexcept;

// Reads a small file; returns the number of bytes, terminated by a NUL that is not counted.
// Async-signal-safe.
std::uint32_t read_small_file(const char* path, char* buffer, std::uint32_t capacity) noexcept;

// For how long a thread was ready and had no processor, by the text of its schedstat. False where the kernel
// does not account for that.
bool parse_run_delay(const char* schedstat, std::uint64_t& run_delay_ns) noexcept;

// --- threads.cpp ---

bool prepare_records(const wire::SegmentHeader* segment) noexcept;  // memory for g_process.records
void register_this_thread() noexcept;
void unregister_this_thread() noexcept;
void attach_existing_threads() noexcept;  // those made before the agent started, but for this one

// In the child of a fork: forgets all threads; the calling one keeps its memory for itself.
void forget_threads() noexcept;

// For the watcher, while it holds the record: a thread that ended without telling.
void bury_thread(ThreadRecord& record) noexcept;
void refresh_name(ThreadRecord& record) noexcept;

// The path of a file below /proc/self/task/TID; name: "/comm" and the like, at most 15 characters.
void task_file(std::int32_t tid, const char* name, char (&path)[64]) noexcept;
// And of what is behind a descriptor of that thread.
void descriptor_file(std::int32_t tid, std::uint32_t descriptor, char (&path)[64]) noexcept;

// pthread_create of libc: the thread is not registered.
int create_unrecorded_thread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                             void* argument) noexcept;

// Takes the calling thread's record from the watcher, which may be looking at it; and gives it back. Also
// takes it over from code of the same thread that the program has jumped out of. False when the watcher does
// not let go of it, or has buried the thread.
bool hold_record(ThreadRecord& record) noexcept;
void leave_record(ThreadRecord& record) noexcept;

// --- ticks.cpp: what samples a thread while it runs ---

// What threads are to have (ProcessState::tick). Once, at start.
Tick choose_tick() noexcept;

// From any thread. Counts a failure.
void start_ticks(ThreadRecord& record) noexcept;
void arm_timer(const ThreadRecord& record) noexcept;
void stop_ticks(ThreadRecord& record) noexcept;
void forget_ticks(ThreadRecord& record) noexcept;  // in the child of a fork

// Opens an event of the thread (0: the calling one) out of the way of the program's descriptors, of which it
// leaves the program nearly all. A negative error number on failure. The event of a descriptor that is gone
// is closed as -1. `group`: the descriptor of the event that it is counted together with; -1: by itself.
int open_high_event(perf_event_attr& event, std::int32_t tid, int group = -1) noexcept;
void close_high_event(int descriptor) noexcept;

// From the watcher, whose table of descriptors is another one: the events' are left to the next thread that
// starts or stops its ticks.
void abandon_ticks(ThreadRecord& record) noexcept;

// From the watcher, for a thread that runs and is not signalled: the program may have closed the descriptor
// of its event.
void replace_lost_event(ThreadRecord& record) noexcept;

// Around an exec of the calling thread: performance events end too late for a signal not to outlive the
// program.
void pause_events(ThreadRecord& record) noexcept;
void resume_events(ThreadRecord& record) noexcept;
// Where the program jumps out of the exec, nothing else would start the event again: a timer, whose signals
// do not outlive the program, wakes the handler.
void resume_when_left(ThreadRecord& record) noexcept;

// Of the calling thread, some signal having been lost. In handlers.
void revive_event(ThreadRecord& record) noexcept;

// --- exec.cpp ---

void watch_exec() noexcept;

// --- regions.cpp ---

// A new segment has no regions yet. `parents`: in the child of a fork, the segment of its parent; the calling
// thread is in the regions of keep_regions() again, from now on.
void start_regions(wire::SegmentHeader* segment, const wire::SegmentHeader* parents) noexcept;
void keep_regions() noexcept;  // in the child of a fork, before forget_threads()

// --- transfers.cpp ---

void watch_transfers() noexcept;

// A pipe, a socket or a terminal: a transfer that a signal of ours has ended in the middle can go on.
bool is_stream(const struct stat& file) noexcept;

// --- file_io.cpp, file_calls.cpp, stdio_calls.cpp ---

void watch_file_calls() noexcept;
void watch_stdio_calls() noexcept;
void reset_file_io_after_fork() noexcept;  // in the child, whose segment knows no files

// A thread has these signals blocked, or may have: where faults are among them, call paths of file operations
// are left out. Async-signal-safe.
void note_signal_mask(std::uint64_t mask) noexcept;

// Whether the calling thread may ask for its call path here.
bool may_walk_stacks() noexcept;

// --- counters.cpp ---

// Finds out which events can be counted, and opens PAPI where that takes it; describe_counters tells the
// collector. The calling thread has to be the next one that starts its counters.
void open_counters() noexcept;
// The same where PAPI cannot be used.
void open_counters_without_papi(const char* reason) noexcept;
void describe_counters(wire::SegmentHeader* segment) noexcept;
void start_counters(CounterState& counters) noexcept;  // the calling thread's
void stop_counters(CounterState& counters) noexcept;
void attach_counters(CounterState& counters, std::int32_t tid) noexcept;  // of a thread that is there already
void abandon_counters(bool close_library) noexcept;                       // in the child of a fork

// What to tell the user when the kernel refuses a performance event with this error number.
void describe_event_error(int error, char (&reason)[wire::kCounterNameBytes]) noexcept;

// --- watcher.cpp ---

void start_watcher() noexcept;

// While one lives there is no watcher: for what the program may do, or see, only as long as it has one
// thread. In a child of vfork, which has our memory but no watcher, it does nothing.
class WatcherAway {
 public:
  WatcherAway() noexcept;
  ~WatcherAway();
  WatcherAway(const WatcherAway&) = delete;
  WatcherAway& operator=(const WatcherAway&) = delete;

 private:
  bool locked_ = false, comes_back_ = false;
};

// For the rest of the process: its main thread ends, and libc lets the last thread of the others end the
// process. The watcher must not be that one.
void dismiss_watcher() noexcept;

// No tick of the watcher is in progress while this is held. Waits a bounded time: false means that
// the watcher is stuck behind a lock of the loader.
bool pause_watcher() noexcept;
void resume_watcher() noexcept;
void reset_watcher_after_fork() noexcept;

// --- signals.cpp, fault_handler.cpp ---

// Puts our handlers for SIGSEGV, SIGBUS and kSampleSignal in place; what the program has installed so
// far is remembered as its own.
void take_signals() noexcept;

// For kSampleSignal when it was not sent by us (ProcessState::foreign_signal). In a handler.
void forward_foreign_signal(int signal, siginfo_t* info, void* context) noexcept;

// Blocks kSampleSignal for the calling thread; returns the mask before.
std::uint64_t block_sample_signal() noexcept;
std::uint64_t block_all_signals() noexcept;
void restore_signals(std::uint64_t mask) noexcept;

// Blocks kSampleSignal for the calling thread around calls that the kernel undoes when a signal comes, and
// begins anew: when one takes longer than a period, it would never end. The program's signals come as ever,
// and it does not notice. `number`: of the system call, which a sample that has waited shows.
// Async-signal-safe.
struct HeldSignal {
  std::uint64_t lifts;  // what was not blocked before
  bool held_before;
  std::int32_t number_before;
};
// `others`: signals that are to wait as well.
HeldSignal hold_sample_signal(std::int32_t number, std::uint64_t others = 0) noexcept;
void release_sample_signal(const HeldSignal& held) noexcept;
bool holds_sample_signal() noexcept;

class SampleSignalHeld {
 public:
  explicit SampleSignalHeld(std::int32_t number) noexcept : held_(hold_sample_signal(number)) {}
  ~SampleSignalHeld() { release_sample_signal(held_); }
  SampleSignalHeld(const SampleSignalHeld&) = delete;
  SampleSignalHeld& operator=(const SampleSignalHeld&) = delete;

 private:
  const HeldSignal held_;
};

// The program may block kSampleSignal: recorded threads do not, but the program is told so. Of the calling
// thread: takes the signal out of what it blocks in earnest, and remembers.
std::uint64_t without_program_block(std::uint64_t mask) noexcept;
bool believes_sample_signal_blocked() noexcept;
bool blocks_sample_signal_in_earnest() noexcept;  // and is not sampled
void set_believed_block(bool blocked) noexcept;
void reset_signals_after_fork() noexcept;
void watch_signals() noexcept;

// For good: no handler of ours is left, what waits for one is dropped, and the program has its signals to
// itself. All other threads' ticks have stopped.
void give_signals_back() noexcept;

// What the program ignores, the program that it executes ignores too, but not where the kernel has a handler
// of ours. Around an exec that is made below `frame` on the stack; false: nothing to undo when it fails.
bool ignore_for_exec(const void* frame) noexcept;
void handle_again() noexcept;

// While one lives, pthread_cancel waits: nothing of ours may be left in the middle, with locks held.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  // With asynchronous cancellation the thread may end here.
  ~CancellationOff() noexcept(false) {
    if (before_ == PTHREAD_CANCEL_ENABLE) pthread_setcancelstate(before_, nullptr);
  }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DISABLE;
};

// --- seccomp.cpp ---

// The program is about to call prctl(PR_SET_SECCOMP) or seccomp(2) with these arguments. Where our calls
// would kill it from then on, nothing of ours goes on in this process.
void before_filter_by_prctl(long mode, long program) noexcept;
void before_filter(long operation, long program) noexcept;

// --- exit.cpp ---

void watch_exit() noexcept;

// The calling thread's last sample: where it dies, or ends the process. context: a ucontext_t. Only the first
// call of the process does it.
void sample_last(void* context) noexcept;

// The process ends with this status, or by this signal. Only the first call counts.
void record_end(std::uint32_t exit_flags, int status, std::uint32_t fatal_signal) noexcept;
void reset_end() noexcept;  // in the child of a fork

// Of a process whose recording has ended, and of the child of one: makes no system call.
void keep_segment_for_end(wire::SegmentHeader* segment) noexcept;

// --- fork.cpp ---

void watch_fork() noexcept;

// The first file that a thread opens through stdio after a fork: CPython 3.12 and later read there whether
// they have several threads, and warn about it when there is one that they do not know of.
bool asks_for_threads_after_fork(const char* path) noexcept;

// --- start.cpp ---

// Starts the agent if this process is to be recorded; does nothing the second time. Interposed
// functions call it, since other libraries' constructors run before ours.
void ensure_started() noexcept;
const void* path_table_memory() noexcept;  // in use, of path_table_bytes()

// The segment and everything that hangs on it, for a new process (start and fork).
// `parents`: in the child of a fork, the segment of its parent, else null. The child makes no call of the
// loader, some of whose locks another thread of the parent may have held, unless the parent had `one_thread`.
bool open_process(const wire::SegmentHeader* parents, bool one_thread) noexcept;

}  // namespace clusterprof::agent
