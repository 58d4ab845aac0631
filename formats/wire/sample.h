// SPDX-License-Identifier: BSD-3-Clause
// The sample record: one merged Python + native call path of one thread at one instant.
#pragma once

#include <cstdint>

#include "formats/wire/ring.h"

namespace clusterprof::wire {

// Why the sample was taken.
enum class Trigger : std::uint8_t {
  kCpuTimer = 0,   // the thread's CPU clock passed a period
  kWallTimer = 1,  // the wall clock passed a period (rates of 500 Hz and above)
  kBlocked = 2,    // the thread does not run: the watcher saw it, or the wall clock's timer found it waiting
  kThreadEnd = 3,  // last record of a thread; has no frames
  kStop = 4,       // written by the thread itself: recording begins (kPaused) or ends here. Not a sample: the time
                   // before it belongs to the sample before, if recording had begun then
  kEvent = 5,      // the event of --sample-on occurred often enough. Tells where counters grew; the time is left
                   // to the next sample
};

enum SampleFlags : std::uint32_t {
  kInSyscall = 1u << 0,         // the interrupted pc follows a `syscall` instruction
  kNativeTruncated = 1u << 1,   // the native walk ended before the thread's first frame
  kPythonTruncated = 1u << 2,   // more Python frames than fit, or an unreadable one
  kMergeFailed = 1u << 3,       // Python and native could not be aligned; Python chain kept
  kHasPython = 1u << 4,         // at least one Python frame
  kWaitingForGil = 1u << 5,     // inside the interpreter's take_gil as far as can be told
  kFinalizing = 1u << 6,        // the interpreter is shutting down
  kCollectingGarbage = 1u << 7, // inside the interpreter's cyclic garbage collection, or what it calls
  kPaused = 1u << 8,            // recording was paused: no frames, and the time is nobody's
  // What is behind the descriptor that the interrupted system call is about, where that is known.
  kOnFile = 1u << 9,            // a regular file, a directory or a disk
  kOnSocket = 1u << 10,
  kOnPipe = 1u << 11,           // a pipe, a terminal, an event descriptor and the like
  kGaveWay = 1u << 13,          // of its own accord, since the record before: it waited for something
  kUsageKnown = 1u << 14,       // kGaveWay, preemptions, system_ns and page_faults are told
  kMemoryOperand = 1u << 12,    // the instruction at pc, or one just behind it, reads or writes data_address
  kOnThread = 1u << 15,         // the interrupted system call waits for the end of a thread of the process
  kOmpActivityBits = 7u << 16,  // OmpActivity
  kAtMutex = 1u << 19,          // the interrupted futex call waits for the mutex at data_address, which mutex_holder has
  kAtWord = 1u << 20,           // it waits for another thread to wake it: a condition, a semaphore and the like at data_address
  kAtSpinLock = 1u << 21,       // it runs in pthread_spin_lock's loop: another thread has the lock at data_address
};
inline constexpr std::uint32_t kOmpActivityShift = 16;

// Followed by counter_count values, then by the first frame_words - shared_words words of the
// frames; the others are the last shared_words ones of the previous sample of this thread. The first
// sample of a thread shares none. Then come task_name_words(task_name_bytes) words with the name of the
// asyncio task that runs, and await_words words of the Python frames that await it, the innermost first.
//
// Counters are absolute values since the thread's start, in the order of
// SegmentHeader::counter_names; of a thread that lacks some, the first ones. With SegmentHeader::counts_mpi_sites
// they leave out what was counted inside MPI, which is in the MpiSiteCounters, and a sample inside MPI has none:
// what was counted before the call is in the next one outside.
//
// Frames, leaf first. A word whose top four bits are
//   0x0: a native frame; the word is its pc. The leaf's pc is exact; those of its callers are
//        return addresses (look up pc - 1).
//   0x8: a Python frame; the low 32 bits are the instruction index in code units
//        (16-bit units for all versions; -1 as 0xffffffff means "not started": use the first
//        line), and the NEXT word is the code id (see CodeEntry). kApproximateLine: the thread was behind that
//        instruction, in code that the interpreter's JIT has made.
//   0x9: a region the program named (see Region); the low 32 bits are its index. At the end, behind the
//        outermost frame, the innermost region first.
//   0xa: the thread works for an OpenMP region that another thread has begun; the low 32 bits are the index of
//        its OmpSite. Behind the outermost frame, before the named regions: the path goes on with that site's.
struct SampleRecord {
  // Type kSample. `detail` counts the ticks of the thread's timer that the sample stands for: 0 where no tick
  // asked for it, more than 1 where the kernel looked at the timer late (timer overruns).
  RecordHeader header;
  std::uint64_t time_ns;        // CLOCK_MONOTONIC
  std::uint64_t cpu_ns;         // CLOCK_THREAD_CPUTIME_ID of the thread
  std::uint32_t flags;          // SampleFlags
  std::int16_t syscall_nr;      // of the interrupted system call, -1 when unknown or none
  std::uint16_t preemptions;    // involuntary context switches since the record before; 65535: or more
  std::uint16_t mpi_op;         // 0: not inside MPI, else MPI function number + 1
  std::uint16_t frame_words;    // of the whole call path
  std::uint8_t counter_count;
  Trigger trigger;
  std::uint16_t shared_words;
  std::uint32_t module_epoch;   // SegmentHeader::module_epoch when the sample was taken
  std::uint32_t handler_ns;     // CPU time of this thread's previous sample
  // Since the thread's start, from getrusage(RUSAGE_THREAD) at this sample or at one at most 2.5 ms before;
  // both 0 (unknown) in the last record of a thread that ended without telling.
  std::uint64_t system_ns;      // CPU time in the kernel, as the kernel's accounting has it: it grows by
                                // ticks where the kernel samples it
  std::uint64_t page_faults;    // minor + major
  std::uint64_t data_address;   // with kMemoryOperand, kAtMutex, kAtWord or kAtSpinLock; else 0. With the first alone never on the thread's stack
  std::uint64_t run_delay_ns;   // ThreadSlot::run_delay_ns, so it may be as old as the watcher's last look
  std::uint64_t mpi_ns;         // time inside MPI since the thread's start, the call under way included
  std::int32_t mutex_holder;    // with kAtMutex: a thread of the process; else 0
  std::uint16_t task_frames;    // how many Python frames, counted from the leaf, are the task's; 0: none runs
  std::uint16_t await_words;    // at most kMaxAwaitWords
  std::uint8_t task_name_bytes; // of UTF-8, at most kTaskNameBytes; 0: it has no name that could be read
  std::uint8_t reserved[7];
};
static_assert(sizeof(SampleRecord) == 104);

inline constexpr std::uint64_t kFrameTagMask = 0xf000'0000'0000'0000ull;
inline constexpr std::uint64_t kPythonFrameTag = 0x8000'0000'0000'0000ull;
inline constexpr std::uint64_t kApproximateLine = 1ull << 32;  // of a Python frame's word
inline constexpr std::uint64_t kRegionFrameTag = 0x9000'0000'0000'0000ull;
inline constexpr std::uint64_t kOmpFrameTag = 0xa000'0000'0000'0000ull;
inline constexpr std::uint32_t kMaxFrameWords = 2048;
inline constexpr std::uint32_t kMaxAwaitWords = 256;
inline constexpr std::uint32_t kTaskNameBytes = 64;
constexpr std::uint32_t task_name_words(std::uint32_t bytes) { return (bytes + 7) / 8; }
inline constexpr std::uint32_t kMaxTaskWords = kMaxAwaitWords + task_name_words(kTaskNameBytes);
inline constexpr std::uint32_t kInstructionNotStarted = 0xffff'ffffu;

}  // namespace clusterprof::wire
