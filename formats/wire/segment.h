// SPDX-License-Identifier: BSD-3-Clause
// The shared memory of one process ("segment"): a memory file that the agent creates and sends to the node's
// collector. All sizes are fixed when it is created, so the memory that a process can use does not grow with
// time. Pages that are never touched cost nothing.
//
//   SegmentHeader
//   CodeSlot[code_slots]            hash table of Python code objects seen
//   code arena                      CodeEntry..., append only
//   module arena                    ModuleEntry..., append only
//   MpiSite[mpi_sites + 2 * mpi_ops]  hash table of MPI call sites; behind it the rows for the others, see
//                                   other_mpi_site
//   path arena                      frame words of call sites, names of files; append only. Those of MPI
//   calls
//                                   have room that the others cannot take
//   MpiPeer[mpi_peers]              hash table of communication partners
//   MpiSizeBins[mpi_ops]            message sizes per MPI function
//   MpiCommunicator[communicators]
//   ThreadSlot[thread_slots]
//   MpiEventRing[mpi_event_rings]   the thread of slot i writes to ring i; those beyond have none
//   MpiSiteCounters[...]            of the site with the same index
//   Region[regions]
//   IoFile[io_files]                hash table of files, but for the first
//   IoSite[io_sites]                hash table of I/O call sites
//   IoAmount[io_files][kIoOperations]  what found no room among the sites, by file
//   OmpSite[omp_sites]              hash table of OpenMP regions and constructs
//   OmpRow[omp_rows]                hash table of their sums by thread
//   MemorySite[memory_sites]        with --memory: hash table of call sites, but for the first rows
//   address[memory_blocks]          hash table of the recorded blocks that live
//   MemoryBlock[memory_blocks]      of the address with the same index
//   MemoryRing[memory_rings]        one, or none
//   LabelledMemory                  memory by labels that the program gives, as Kokkos does
//   generated arena                 GeneratedObject..., append only
//
// Everything is written by the process and read by the collector, except
// Ring::read_position, MemoryRing::read, ThreadSlot::state (ended -> free), SegmentHeader::turned_off_ns and
// SegmentHeader::window_wanted.
// The collector must not trust any value it reads: offsets and sizes are checked against
// segment_bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "formats/wire/labelled_memory.h"
#include "formats/wire/memory.h"
#include "formats/wire/mpi_event.h"
#include "formats/wire/openmp.h"
#include "formats/wire/ring.h"
#include "formats/wire/sample.h"

namespace clusterprof::wire {

inline constexpr std::uint64_t kSegmentMagic = 0x38'47'45'53'46'52'50'43ull;  // "CPRFSEG8"
inline constexpr std::uint32_t kWireMajor = 20;
inline constexpr std::uint32_t kWireMinor = 0;

// Why something that was measured was lost. Names: kDropReasonNames.
enum class DropReason : std::uint32_t {
  kRingFull = 0,
  kReentrant,      // the signal came while the agent itself ran on the thread
  kNoThreadSlot,   // a thread beyond thread_slots
  kCodeTableFull,  // Python code object that could not be described
  kPathArenaFull,  // MPI call counted without its call path
  // Or there is no memory for a request, whose bytes are missing.
  kMpiSiteTableFull,
  kMpiPeerTableFull,
  kCommunicatorTableFull,
  kModuleArenaFull,
  kFaultInWalk,       // a guarded read faulted; the rest of that walk was dropped
  kTimerFailed,       // a thread's timer could not be made
  kCounterFailed,     // PAPI could not count on a thread
  kMpiEventRingFull,  // or no ring, or no memory for a number: the event is missing in the analysis of
                      // waiting
  kSignalBlocked,     // a thread blocks the sampling signal by a way that our functions do not see
  kRegionTableFull,   // an instance of a region that counts as the region around it
  kRegionMismatch,    // the end of a region that was not the innermost one, or of none
  kIoFileTableFull,   // an operation on a file that is counted with others of its directory, or with all
                      // others
  kIoSiteTableFull,   // an operation on a file that is counted by file only: its call path found no room
  kThrottled,         // a tick that was left out because the thread's samples take too long
  kIoPathRoomFull,    // an operation on a file whose call path found no room in the path arena
  // A wait of a thread that already has kThreadLoops event loops.
  kEventLoopTableFull,
  kMpiErrorTableFull,     // a call that returned an error of which there is no row
  kOpenMpTableFull,       // an OpenMP region or construct that is not counted
  kMemorySiteTableFull,   // a recorded allocation that is counted with all others of its domain
  kMemoryPathRoomFull,    // a recorded allocation whose call path found no room in the path arena
  kMemoryBlockTableFull,  // a recorded block that counts as freed at once; a mapping that is not recorded
  kGeneratedArenaFull,    // generated code whose description was too large, or found no room
  kGeneratedTableFull,    // a description beyond those that the agent can know of at a time
  kGeneratedListsFull,    // a list of descriptions beyond the 8th
  kGeneratedListCut,      // a list that was not read to its end
  kGeneratedNotElf,       // a description that is no ELF file
  kGeneratedUnreadable,   // a description whose memory could not be read
  kMpiStretchRingFull,    // as kMpiEventRingFull, of an event that the level does not select: a stretch lacks
                          // it
  kTorchForwardLost,      // a backward operator of PyTorch whose forward one is not known any more
  kTorchOtherThread,      // a range of PyTorch that has ended on another thread than it began on
  kMemoryLabelTableFull,  // an allocation with a label that is counted with other labels of its memory space
  kCount
};
inline constexpr std::uint32_t kDropReasons = static_cast<std::uint32_t>(DropReason::kCount);
inline constexpr const char* kDropReasonNames[kDropReasons] = {"ring_full",
                                                               "reentrant",
                                                               "no_thread_slot",
                                                               "code_table_full",
                                                               "path_arena_full",
                                                               "mpi_site_table_full",
                                                               "mpi_peer_table_full",
                                                               "communicator_table_full",
                                                               "module_arena_full",
                                                               "fault_in_walk",
                                                               "timer_failed",
                                                               "counter_failed",
                                                               "mpi_event_ring_full",
                                                               "signal_blocked",
                                                               "region_table_full",
                                                               "region_mismatch",
                                                               "io_file_table_full",
                                                               "io_site_table_full",
                                                               "throttled",
                                                               "io_path_room_full",
                                                               "event_loop_table_full",
                                                               "mpi_error_table_full",
                                                               "openmp_table_full",
                                                               "memory_site_table_full",
                                                               "memory_path_room_full",
                                                               "memory_block_table_full",
                                                               "generated_arena_full",
                                                               "generated_table_full",
                                                               "generated_lists_full",
                                                               "generated_list_cut",
                                                               "generated_not_elf",
                                                               "generated_unreadable",
                                                               "mpi_stretch_ring_full",
                                                               "torch_forward_lost",
                                                               "torch_other_thread",
                                                               "memory_label_table_full"};

enum class MpiState : std::uint32_t { kNone = 0, kInitialised = 1, kFinalised = 2 };

enum class PythonState : std::uint32_t {
  kNone = 0,         // no interpreter seen in this process
  kActive = 1,       // frames are being walked
  kUnsupported = 2,  // a version or build we do not know; python_note says why
  kCheckFailed = 3,  // the self-check did not see the known call chain
  kDisabled = 4,     // --no-python
};

// Why no Python frames are read (kUnsupported, kCheckFailed), or what is missing although they are read
// (kActive).
enum class PythonNote : std::uint32_t {
  kNothing = 0,
  kVersionNotTold,
  kVersionNotSupported,
  kFreeThreaded,
  kWithoutOffsets,  // no valid _Py_DebugOffsets
  kOffsetsWrong,    // they make no sense
  kSymbolMissing,   // a function or type that the walk needs
  kOtherLayout,     // of objects
  kCodeNotFound,    // self-check: what should be code objects is none
  kFramesNotFound,  // self-check: the interpreter runs without frames where they should be
  kNativeMissing,   // the eval loop is not recognised: samples with Python frames have no native ones
  kGarbageUnknown,  // the garbage collector's state is not found
  kPypy,            // not CPython
};

// Why a program that this process executed, or a process that it spawned, runs without our preload objects.
enum class UnrecordedReason : std::uint32_t {
  kNotVisible = 0,    // they are not in the root directory that it has, as after chroot or in a container
  kOtherLibrary,      // its C library is not glibc, but musl, for example
  kOtherMachine,      // it is no program for x86-64
  kLibrariesMissing,  // libdl.so.2 or libpthread.so.0 is not where its loader looks
  kStaticProgram,     // it has no dynamic loader
  kPrivileges,        // set-user-ID and the like: the loader ignores LD_PRELOAD
  kOtherEnvironment,  // its environment was made without our LD_PRELOAD
  kNoMemory,          // its limits leave no room for the smallest segment
  kCount
};
inline constexpr std::uint32_t kUnrecordedReasons = static_cast<std::uint32_t>(UnrecordedReason::kCount);
inline constexpr const char* kUnrecordedReasonNames[kUnrecordedReasons] = {
    "not_visible",    "other_c_library", "other_architecture", "libraries_missing",
    "static_program", "privileges",      "other_environment",  "no_memory"};

inline constexpr std::uint32_t kMaxCounters = 16;
inline constexpr std::uint32_t kCounterNameBytes = 64;

// With --torch-ops: whether operators of PyTorch are regions.
enum class TorchOps : std::uint32_t {
  kNotAsked = 0,  // no --torch-ops
  kNoneSeen,      // no operator has run that comes by our function
  kActive,
  kOtherRelease,  // of libtorch: a function that is needed is not there
  kOtherLayout,   // of its objects: of no release that is known
  kNoMemory,
};

enum ExitFlags : std::uint32_t {
  kExitStatusKnown = 1u << 0,   // exit_status is valid (exit, _exit or return from main)
  kFatalSignalKnown = 1u << 1,  // fatal_signal is valid: the process is dying of it, whatever its exit status
  kExecuted = 1u << 2,          // it has become another program. Set by the collector, in what it keeps
};

// Whether a process has told what it has read and written. The kernel adds that to the account of the parent
// when the parent waits for the process.
enum HasIo : std::uint64_t {
  kIoNotTold = 0,  // /proc/self/io was not readable, or it is left to the parent's account
  kIoTold = 1,
  kIoOfItsOwn = 2,  // told, and the parent ignores SIGCHLD: the kernel adds it to nobody's
};

// What getrusage(RUSAGE_SELF) and /proc/self/io said last (process end, or the watcher's
// once-a-second refresh).
struct ProcessUsage {
  std::uint64_t user_ns, system_ns, max_rss_bytes;
  std::uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
  std::uint64_t read_bytes, write_bytes;               // rchar / wchar of /proc/self/io; see usage_has_io
  std::uint64_t usage_has_io;                          // HasIo
  std::uint64_t children_user_ns, children_system_ns;  // RUSAGE_CHILDREN: of those that were waited for
};

// What a process that fails leaves behind, for those who ask why it failed.
inline constexpr std::uint32_t kStderrTailBytes = 4096, kAbortMessageBytes = 1024;
struct LastWords {
  // The fault that came last, or the abort: a signal that the program's own instructions raised, whether the
  // program has a handler for it or not. The signal is stored last.
  std::atomic<std::uint32_t> fault_signal;   // 0: there was none
  std::atomic<std::int32_t> fault_code;      // si_code
  std::atomic<std::uint64_t> fault_address;  // si_addr
  std::atomic<std::uint64_t> fault_pc;
  std::atomic<std::uint32_t> stack_overflow;  // 1: it was the end of the thread's stack
  std::atomic<std::uint32_t> mpi_abort_called;
  std::atomic<std::int32_t> mpi_abort_code;
  std::atomic<std::uint32_t> abort_message_bytes;
  char abort_message[kAbortMessageBytes];  // glibc's: of assert(), of a damaged heap
  // The last bytes that were written to descriptor 2: byte n of all is at n modulo kStderrTailBytes.
  std::uint32_t keeps_stderr;  // 0: --no-stderr
  std::uint32_t reserved;
  std::atomic<std::uint64_t> stderr_bytes;
  char stderr_tail[kStderrTailBytes];
};

// Calls from one call site that have returned an error of one class, about messages with one other side and
// tag.
inline constexpr std::uint32_t kMpiErrors = 32, kMpiErrorNameBytes = 32, kMpiErrorTextBytes = 96;
struct MpiError {
  std::atomic<std::uint32_t> ready;  // 1 when all but the count is complete
  std::uint32_t site;                // index into the MpiSite table
  std::uint16_t op;                  // MPI function number
  std::uint16_t reserved;
  std::int32_t error_class;  // as the MPI library numbers them
  std::int32_t peer, tag;    // as in MpiCallUnderWay
  std::uint32_t message;     // number of the first such message, as MpiEvent::sequence; kNoSequence
  std::uint32_t padding;
  std::uint64_t channel;   // identity of the communicator, 0 not known or none
  std::uint64_t first_ns;  // CLOCK_MONOTONIC, when the first such call began
  std::atomic<std::uint64_t> count;
  char name[kMpiErrorNameBytes];  // of the class, "MPI_ERR_TRUNCATE"; empty: it is none of MPI's
  char text[kMpiErrorTextBytes];  // MPI_Error_string's, terminated
};
static_assert(sizeof(MpiError) == 184);

// Requests that a call site had started and that were not complete when MPI_Finalize was called.
inline constexpr std::uint32_t kOpenRequestRows = 64;  // the last one is for all that found no room
struct OpenRequests {
  std::uint64_t channel;   // as in MpiError
  std::uint64_t count;     // 0: not used
  std::uint32_t site;      // index into the MpiSite table; 0xffffffff in the row for the rest
  std::uint32_t kind;      // PendingKind; 0: something else
  std::int32_t peer, tag;  // as in MpiCallUnderWay
};
static_assert(sizeof(OpenRequests) == 32);

// What the events do not tell of all messages of the process.
enum MpiUnseen : std::uint32_t {
  kReceivesUnseen = 1u << 0,  // a receive may have taken a message, and has no event
  kSendsUnsure = 1u << 1,     // what a send has an event for may never have been sent
};

// How a process was made. The values are those of shard::ProcessOrigin.
enum class CreationKind : std::uint32_t {
  kUnknown = 0,
  kFork,        // a child of fork()
  kExec,        // a program that a child of vfork() executed
  kPosixSpawn,  // a program that posix_spawn() started
  kShell,       // the shell of system() or popen()
};

// The call path that made a process: frame words in the path arena of the process that made it. That segment
// is named by its pid and start_mono_ns.
struct Creation {
  std::int32_t pid;
  CreationKind kind;
  std::uint64_t start_mono_ns;
  std::uint64_t path_offset;
  std::uint32_t path_words;  // 0: the path is not known
  std::uint32_t request;     // kFork: of another process for this one, ForkRequest::pipe; 0: there was none
};
static_assert(sizeof(Creation) == 32);

// A request to a server that forks for it (agent/lifecycle/fork_requests.h).
struct ForkRequest {
  std::atomic<std::uint32_t> pipe;  // inode of the first pipe that goes with it; 0: none; stored last
  std::atomic<std::uint64_t> path;  // as in ShellCall
};
inline constexpr std::uint32_t kForkRequests = 128;

// A call of system() or popen().
struct ShellCall {
  std::atomic<std::uint64_t> start_mono_ns;  // 0: none; stored last
  std::atomic<std::uint64_t> end_mono_ns;    // until when its shell may start; 0: it has not returned
  std::atomic<std::uint64_t> path;  // its place in the path arena: offset << 16 | words; 0: not known
};
inline constexpr std::uint32_t kShellCalls = 16;
constexpr std::uint64_t shell_path(std::uint64_t offset, std::uint32_t words) noexcept {
  return words == 0 ? 0 : offset << 16 | words;
}
constexpr std::uint64_t shell_path_offset(std::uint64_t path) noexcept { return path >> 16; }
constexpr std::uint32_t shell_path_words(std::uint64_t path) noexcept {
  return static_cast<std::uint32_t>(path & 0xffff);
}

// A program that this process executes (`pid` is its own, or that of its child of vfork), or that it has
// spawned. If an exec fails, its row is cleared; so readers wait until a row is kLaunchSettlesNs old.
inline constexpr std::uint32_t kLaunchCommandBytes = 200;
struct Launch {
  std::atomic<std::uint64_t> number;  // how many there were, with this one; 0: none; stored last
  std::uint64_t time_ns;              // CLOCK_MONOTONIC
  std::uint64_t path;                 // that made the process, as in ShellCall; 0: not known
  std::int32_t pid;
  CreationKind kind;
  UnrecordedReason reason;  // kCount: it will be recorded, as far as can be seen
  std::uint32_t command_bytes;
  char command[kLaunchCommandBytes];  // as SegmentHeader::command
};
inline constexpr std::uint32_t kLaunches = 32;
inline constexpr std::uint64_t kLaunchSettlesNs = 100'000'000;

// The time between two samples is longer than the rate says, by 1/73. Otherwise a program whose iterations
// take a round number of milliseconds would be sampled at the same places of every iteration, and its profile
// would be wrong. rate_hz: at least 1.
constexpr std::uint64_t sampling_period_ns(std::uint32_t rate_hz) { return 74'000'000'000u / 73 / rate_hz; }

// What a process records outside of the windows that are opened from outside (docs/design/0019-standby.md).
enum class OutsideWindows : std::uint32_t {
  kAll = 0,  // there are no windows
  kNothing,  // --standby
  kLight,    // --mode light: fewer samples, and no MPI events
};

// Counts threads that never had a slot and have ended, by the function that they were started with.
struct UnrecordedThreads {
  std::atomic<std::uint64_t> start_function;  // ThreadSlot::start_function, set by compare-exchange; 0 free
  std::atomic<std::uint64_t> threads, cpu_ns;
};
inline constexpr std::uint32_t kUnrecordedStarts = 16;  // the last one is for all that found no room

// What is known of the process's use of OpenMP besides the tables.
inline constexpr std::uint32_t kOmpProcessorWords = 16;
struct OmpProcess {
  std::atomic<std::uint32_t> method;  // OmpMethod; stored after the run time's name
  std::atomic<std::uint32_t> flags;   // OmpFlags
  char runtime[kOmpRuntimeBytes];     // as it calls itself, or its file; terminated
  // The outermost region that the main thread is in: its site, since when (CLOCK_MONOTONIC, within some
  // microseconds; 0: it is in none), and ThreadSlot::mpi_time_ns then. The time is stored last.
  std::atomic<std::uint32_t> region_site;
  std::atomic<std::uint32_t> reserved;
  std::atomic<std::uint64_t> region_since_ns, region_mpi_ns;
  // Which processors threads of teams may run on, by number; those beyond are left out.
  std::atomic<std::uint64_t> processors[kOmpProcessorWords];
};

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t wire_major, wire_minor;
  std::uint64_t segment_bytes;

  // Layout: byte offsets from the segment's start.
  std::uint64_t code_slots_offset, code_arena_offset, module_arena_offset, mpi_sites_offset,
      path_arena_offset, mpi_peers_offset, mpi_sizes_offset, communicators_offset, thread_slots_offset,
      mpi_event_rings_offset, mpi_site_counters_offset, regions_offset, io_files_offset, io_sites_offset,
      io_amounts_offset, omp_sites_offset, omp_rows_offset;
  std::uint64_t memory_sites_offset, memory_addresses_offset, memory_blocks_offset, memory_rings_offset;
  std::uint64_t labelled_memory_offset, generated_arena_offset;
  std::uint32_t code_slots, mpi_sites, mpi_peers, mpi_ops, communicators, thread_slots, mpi_event_rings,
      regions, io_files, io_sites, omp_sites, omp_rows;     // counts
  std::uint32_t memory_sites, memory_blocks, memory_rings;  // counts
  std::uint64_t code_arena_bytes, module_arena_bytes, path_arena_bytes;
  std::uint64_t memory_path_bytes;  // of the path arena: for paths of allocations
  std::uint64_t generated_arena_bytes;

  // Identity. rank and world_size come from the launcher's environment; mpi_rank and
  // mpi_size from MPI itself (-1 until MPI_Init returned).
  std::int32_t pid, parent_pid, rank, world_size;
  // Of a process whose rank is that of a launcher below clusterprof, or that belongs to such a process: 1 +
  // the launcher's index in kLaunchers, and WorkerRank::launch. Otherwise 0.
  std::uint32_t launcher;
  std::uint32_t forked;  // 1: it has executed nothing since its parent had forked it
  std::uint64_t launch;
  std::atomic<std::int32_t> mpi_rank, mpi_size;
  std::uint64_t start_mono_ns;      // CLOCK_MONOTONIC when the agent started
  std::uint64_t start_realtime_ns;  // CLOCK_REALTIME at the same instant
  std::uint32_t rate_hz;            // sampling_period_ns(rate_hz) is between two samples
  std::uint32_t clock;              // 0 wall, 1 cpu
  std::uint32_t knows_run_delay;    // 1: the kernel tells how long threads wait for a processor
  std::uint32_t
      annotations_elsewhere;    // a bit for each of kAnnotationVariables (hello.h) that the user has set
  char command[1024];           // first bytes of /proc/self/cmdline: each argument ends with a NUL
  std::uint32_t command_bytes;  // that are valid

  // State, changing while the process runs.
  std::atomic<std::uint64_t> end_mono_ns;  // 0 while it runs
  std::atomic<std::uint32_t> exit_flags;   // ExitFlags
  std::atomic<std::int32_t> exit_status;
  std::atomic<std::uint32_t> fatal_signal;
  std::atomic<std::uint32_t> mpi_state;                     // MpiState
  std::atomic<std::uint32_t> torch_not_recorded;            // 1: its calls over gloo are left alone
  std::atomic<std::uint32_t> torch_ops;                     // TorchOps
  std::atomic<std::uint64_t> mpi_init_ns, mpi_finalize_ns;  // CLOCK_MONOTONIC at their ends / starts
  std::atomic<std::uint32_t> python_state;                  // PythonState
  std::atomic<std::uint32_t> python_version;                // PY_VERSION_HEX, 0 when unknown
  std::atomic<std::uint32_t> python_note;                   // PythonNote
  std::atomic<std::uint32_t> module_epoch;                  // grows when the set of modules changes
  std::atomic<std::uint64_t> module_arena_used, code_arena_used, path_arena_used, generated_arena_used;
  std::atomic<std::uint64_t> threads_seen;  // threads that ever had a slot or were refused one
  std::atomic<std::uint64_t> drops[kDropReasons];
  // On a cache line of their own: all threads add to them, and read what is around them.
  alignas(64) std::atomic<std::uint64_t> samples_taken;
  std::atomic<std::uint64_t> samples_truncated, merges_tried, merges_failed;
  std::atomic<std::uint64_t> handler_ns;  // CPU time of handlers, walks and wrappers, all threads
  // With CLUSTERPROF_CHECK_PATHS: how many remembered call paths were used, and how many of them a walk found
  // to be wrong.
  std::atomic<std::uint64_t> paths_checked, paths_wrong;
  // Where the kernel has put the program's arguments (startstack in /proc/PID/stat). It is elsewhere in the
  // next program that the process executes. Complete before the segment is sent; 0: not known.
  std::uint64_t initial_stack;
  alignas(64) std::uint32_t counter_count;
  char counter_names[kMaxCounters][kCounterNameBytes];
  std::uint32_t unavailable_count;  // counters that were asked for and cannot be had
  char unavailable_names[kMaxCounters][kCounterNameBytes];
  char unavailable_reasons[kMaxCounters][kCounterNameBytes];
  std::uint32_t counts_mpi_sites;      // 1: MPI calls read the counters, see MpiSiteCounters
  std::uint32_t counters_multiplexed;  // 1: they took turns, and the values are estimates
  ProcessUsage usage;
  // Time in which recording of the main thread was paused: the sum of the pauses that are over, and the
  // beginning of the present one (CLOCK_MONOTONIC; 0: not paused).
  std::atomic<std::uint64_t> paused_ns, paused_since_ns;
  // See event_is_selected(). Raised by the collector to stay within its budget, and by a wrapper whose ring
  // is full. Never lowered.
  std::atomic<std::uint32_t> mpi_event_level;
  // EventStretches, stored by the collector. A wrapper that sees a level that the collector has raised also
  // sees those that go with it.
  std::atomic<std::uint64_t> stretch_offset_ns, stretch_period_ns, stretch_length_ns;
  std::atomic<std::uint64_t> mpi_operations;  // that would have an event at level 0
  ClockMeasurement clock_at_init, clock_at_finalize;
  char mpi_library[128];  // first line of MPI_Get_library_version, may be empty
  // Since when the site has recording turned off (CLOCK_MONOTONIC), stored by the collector. 0: it has not.
  std::atomic<std::uint64_t> turned_off_ns;
  // Windows of recording. The collector stores in window_wanted which one it wants (window_word). The agent
  // waits on that word (futex), and copies it to window_done when it has opened or closed the window. Times
  // are of CLOCK_MONOTONIC, and those of the latest window; 0: there was none.
  OutsideWindows outside_windows;  // complete before the segment is sent
  std::atomic<std::uint32_t> window_wanted, window_done;
  std::atomic<std::uint64_t> window_begin_ns, window_end_ns;
  // Whether this process is recorded now, and its clock of recorded time; see RecordedClock.
  std::atomic<std::uint32_t> record_phase;
  std::atomic<std::uint64_t> record_off_ns, record_missed_ns[2];
  std::atomic<std::uint32_t> mpi_events_off;  // 1: no MPI events are written now
  UnrecordedThreads unrecorded[kUnrecordedStarts];
  std::atomic<std::uint64_t> unrecorded_programs[kUnrecordedReasons];
  Creation creation;  // of this process; complete before the segment is sent
  // How many of the rows below there have been. They are here because everybody reads them: the rows are on
  // pages that most processes never touch, and to read such a page would make the kernel allocate it.
  std::atomic<std::uint64_t> shell_calls_made, launches_made, fork_requests_made;
  std::atomic<std::uint64_t> has_labelled_memory;  // 1: LabelledMemory is in use
  std::atomic<std::uint32_t> mpi_unseen;           // MpiUnseen
  std::atomic<std::uint32_t> open_requests_ready;  // 1: open_requests is complete
  MemoryState memory;
  OmpProcess openmp;
  // Each process writes to its beginning, which is on the page of what is above.
  LastWords last_words;
  // The latest calls of system() and popen(), call n at n modulo kShellCalls: libc starts their shells
  // without telling us, so these know their parent only.
  ShellCall shell_calls[kShellCalls];
  // The latest programs that this process started and that will not be recorded, and all that it executed
  // itself. Number n is at n modulo kLaunches.
  Launch launches[kLaunches];
  // The latest requests to a fork server, request n at n modulo kForkRequests.
  ForkRequest fork_requests[kForkRequests];
  MpiError mpi_errors[kMpiErrors];
  OpenRequests open_requests[kOpenRequestRows];
};
static_assert(offsetof(SegmentHeader, last_words) + offsetof(LastWords, stderr_tail) <= 2 * 4096,
              "a process that does nothing touches two pages of it");

// What is wanted: the number of the request, and whether a window is to be open.
constexpr std::uint32_t window_word(std::uint32_t number, bool open) noexcept {
  return 2 * number + (open ? 1 : 0);
}
constexpr bool wants_open(std::uint32_t window_word) noexcept { return (window_word & 1) != 0; }

constexpr bool is_off_phase(std::uint32_t phase) noexcept { return (phase & 1) != 0; }

// A clock that advances while a process is recorded. The phase grows whenever recording goes on or off, and
// is odd while it is off; without OutsideWindows::kNothing it is always 0. record_missed_ns is what passed
// unrecorded before: two values that take turns, so that the one that is read is not being written.
struct RecordedClock {
  std::uint32_t phase;
  std::uint64_t off_ns, missed_ns;

  [[nodiscard]] bool is_off() const noexcept { return is_off_phase(phase); }
  // What was recorded by then. The time must not be before the beginning of the present phase.
  [[nodiscard]] std::uint64_t at(std::uint64_t time_ns) const noexcept {
    const std::uint64_t until_ns = is_off() ? off_ns : time_ns;
    return until_ns > missed_ns ? until_ns - missed_ns : 0;
  }
};
constexpr std::uint32_t missed_place(std::uint32_t phase) noexcept { return phase >> 1 & 1; }

inline RecordedClock read_recorded_clock(const std::atomic<std::uint32_t>& phase,
                                         const std::atomic<std::uint64_t>& off_ns,
                                         const std::atomic<std::uint64_t> (&missed_ns)[2]) noexcept {
  RecordedClock clock = {};
  constexpr int kTries = 4;  // it changes once in a second at most
  for (int i = 0; i < kTries; ++i) {
    clock.phase = phase.load(std::memory_order_acquire);
    clock.off_ns = off_ns.load(std::memory_order_relaxed);
    clock.missed_ns = missed_ns[missed_place(clock.phase)].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (phase.load(std::memory_order_relaxed) == clock.phase) break;
  }
  return clock;
}
inline RecordedClock recorded_clock_of(const SegmentHeader& header) noexcept {
  return read_recorded_clock(header.record_phase, header.record_off_ns, header.record_missed_ns);
}

// --- Python code objects -------------------------------------------------------------------

// Hash table. `key` is the code id, 0 = free, set by compare-exchange from any thread, in a signal handler or
// not, in one of the first kCodeProbes slots that table_place(key, ...) names (table_place.h). `entry_offset`
// is relative to the code arena, plus one; it becomes nonzero (release) when the CodeEntry is complete, or
// when there will be none: kNoCodeEntry. A slot whose code object could not be read keeps 0.
inline constexpr std::uint32_t kCodeProbes = 128;
inline constexpr std::uint64_t kNoCodeEntry = ~std::uint64_t{0};
struct CodeSlot {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> entry_offset;
};

// Line table formats differ per Python minor version; python_version of the header tells.
// Followed by filename_bytes, name_bytes (qualified name from 3.11 on) as UTF-8 without
// terminator, then line_table_bytes of co_lnotab / co_linetable as they are in memory;
// the whole entry is padded to 8 bytes.
struct CodeEntry {
  std::uint64_t code_id;
  std::uint32_t first_line;
  std::uint32_t filename_bytes, name_bytes, line_table_bytes;
};

// --- modules -------------------------------------------------------------------------------

// One mapped object file. Followed by path_bytes of path, padded to 8 bytes.
// Written outside signal handlers, under the agent's lock.
struct ModuleEntry {
  std::uint32_t entry_bytes;  // whole entry
  std::uint32_t epoch;        // module_epoch from which on it was there
  std::uint64_t load_bias;    // dlpi_addr: runtime address = load_bias + ELF address
  std::uint64_t start, end;   // runtime address range of its segments
  std::uint32_t path_bytes;
  std::uint32_t build_id_bytes;  // at most 32
  std::uint8_t build_id[32];
};

// An object file in memory by which a compiler describes code that it has made in the process, as it is for
// debuggers (docs/design/0033-generated-code.md): copied by the agent. Followed by object_bytes of it, padded
// to 8 bytes. Written outside signal handlers, by one thread at a time.
struct GeneratedObject {
  std::uint64_t entry_bytes;  // whole entry
  std::uint64_t object_bytes;
  std::uint32_t epoch;  // module_epoch when it was seen
  std::uint32_t reserved;
};

// --- MPI -----------------------------------------------------------------------------------

inline constexpr std::uint32_t kNoPath = 0xffff'ffffu;

// One MPI function called from one call path on one communicator, by the main thread or by others.
// Statistics are plain adds of the calling thread, or atomic ones under MPI_THREAD_MULTIPLE.
struct MpiSite {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of (path, function, communicator)
  std::atomic<std::uint32_t> ready;  // 1 when the identity below is complete
  std::uint32_t path_words;          // frame words (see SampleRecord) in the path arena,
  std::uint64_t path_offset;         //   at this byte offset; leaf = caller of the MPI function.
                                     //   path_words 0: the path was dropped
  std::uint16_t op;                  // MPI function number
  std::uint8_t helper_thread;        // 1: called by threads other than the main one
  std::uint8_t other_sites;          // 1: stands for all call sites that found no room; it has no path
  std::uint32_t communicator;        // index into the communicator table, kNoPath when none
  std::uint64_t count, time_ns, min_ns, max_ns, sent_bytes, recv_bytes;
  std::uint64_t reserved[2];
};
static_assert(sizeof(MpiSite) == 96);

// The rows for calls whose call site finds no room in the hash table. Each MPI function has one row for the
// main thread and one for all other threads.
constexpr std::uint32_t other_mpi_site(std::uint32_t mpi_sites, std::uint32_t op,
                                       bool helper_thread) noexcept {
  return mpi_sites + 2 * op + (helper_thread ? 1 : 0);
}
constexpr std::uint32_t all_mpi_sites(std::uint32_t mpi_sites, std::uint32_t mpi_ops) noexcept {
  return mpi_sites + 2 * mpi_ops;
}

// Traffic recorded by this process, by world rank of source and destination (-1: unknown). What it has sent
// to a member of a communicator with MpiCommunicator::number is kept by the communicator and the member's
// number.
inline constexpr std::uint32_t kToMember = 1u << 31;
struct MpiPeer {
  // 0 = free; ((src + 2) << 32 | (dst + 2)), or (kToMember | row of the communicator) << 32 | (number + 2)
  std::atomic<std::uint64_t> key;
  std::uint64_t messages, bytes;
  std::uint64_t reserved;
};
static_assert(sizeof(MpiPeer) == 32);

// bins[b] counts messages with size in (2^(b-2), 2^(b-1)] bytes; bins[0] those of size 0,
// bins[1] those of size 1.
inline constexpr std::uint32_t kSizeBins = 48;
struct MpiSizeBins {
  std::uint64_t bins[kSizeBins];
};

struct MpiCommunicator {
  std::atomic<std::uint32_t> ready;
  std::uint32_t size;
  std::uint64_t identity;  // equal on all members; 1 = MPI_COMM_WORLD, 2 = MPI_COMM_SELF, 3 = further ones
  char name[48];
  // What this process has begun on the communicator `collectives_of`, which may have taken over the entry:
  // the number of its collective operations, and the last one's MPI function number. Nonblocking ones count
  // from their start, others from their end.
  std::atomic<std::uint64_t> collectives_of, collectives;
  std::atomic<std::uint64_t> agreed;  // of the last one, see agreed_word(); stored before `collectives`
  // This process's number in it plus 1, where members of messages are named by their numbers, since this
  // process does not know their world ranks (kEventPeerInGroup). Otherwise 0.
  std::int32_t number;
  std::uint32_t reserved;
};
static_assert(sizeof(MpiCommunicator) == 96);

inline constexpr std::uint32_t kCollectiveOpBits = 16;
constexpr std::uint64_t collectives_word(std::uint32_t count, std::uint16_t op) {
  return std::uint64_t{count} << kCollectiveOpBits | op;
}
constexpr std::uint32_t collectives_count(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> kCollectiveOpBits);
}
constexpr std::uint16_t collectives_op(std::uint64_t word) { return static_cast<std::uint16_t>(word); }

// What the standard wants to be equal on all members of a collective operation, MPI_Bcast's count times the
// size of its datatype, for example: bytes plus one. 0: there is no such thing, or it is not known.
constexpr std::uint64_t agreed_of_bytes(std::uint64_t bytes) { return bytes + 1; }
// With the last digits of the number of operations, since the two words are not read at one time.
inline constexpr std::uint32_t kAgreedBits = 48;
constexpr std::uint64_t agreed_word(std::uint32_t count, std::uint64_t agreed) {
  return agreed >> kAgreedBits != 0 ? 0 : std::uint64_t{count} << kAgreedBits | agreed;
}
constexpr std::uint64_t agreed_of_word(std::uint64_t word, std::uint32_t count) {
  const std::uint64_t agreed = word & ((std::uint64_t{1} << kAgreedBits) - 1);
  return agreed_word(count, agreed) == word ? agreed : 0;
}

// What was counted between enter and exit of the calls from a site, in the order of
// SegmentHeader::counter_names. Plain adds of the calling thread, or atomic ones under MPI_THREAD_MULTIPLE.
struct MpiSiteCounters {
  std::uint64_t values[kMaxCounters];
};

// --- regions -------------------------------------------------------------------------------

inline constexpr std::uint32_t kNoRegion = 0xffff'ffffu;
inline constexpr std::uint32_t kRegionNameBytes = 96;
inline constexpr std::uint32_t kRegionDomainBytes = 32;
// Stands for all regions of a domain inside the same one for which the table had no room of their own.
inline constexpr char kOtherRegionsName[] = "[other regions]";
inline constexpr std::uint32_t kMaxRegionDepth = 32;  // deeper ones are counted, but no words of samples

// A region of the program's making inside another one. Times are of instances that ended, of all threads;
// atomic adds.
struct Region {
  std::atomic<std::uint32_t>
      ready;                        // 1 when parent, name and domain are complete, 0 free, else being written
  std::uint32_t parent;             // index; kNoRegion: none
  char name[kRegionNameBytes];      // terminated; a longer one is cut
  char domain[kRegionDomainBytes];  // likewise: who names it ("NVTX", "NCCL"); empty: the program, by
                                    // clusterprof.h
  std::atomic<std::uint64_t> count, time_ns, min_ns, max_ns;
  std::atomic<std::int64_t> max_n;  // the number that the program gave to the instance of max_ns, else -1
  // Of a backward operator of PyTorch: the call path of its forward one, in the path arena. 0 words: none.
  std::uint64_t forward_offset;
  std::uint32_t forward_words, reserved;
};
static_assert(sizeof(Region) == 192);

// --- file input and output -----------------------------------------------------------------

// The first one stands for all files beyond the table. What is no regular file, directory or disk is not
// here. A path that ends in "/*" stands for files below that directory that are not told apart: all that a
// library of Python's is made of, and those for which the table had no room of their own; "/*.py" for
// modules.
struct IoFile {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of device and path
  std::atomic<std::uint32_t> ready;  // 1 when the rest is complete
  std::uint32_t path_bytes;          // of path, not terminated, in the path arena at this byte offset;
  std::uint64_t path_offset;         //   0 bytes: it was not known
  std::uint64_t device;              // st_dev
  std::uint64_t file_system;         // statfs f_type; 0 not known
};
static_assert(sizeof(IoFile) == 40);

enum class IoOperation : std::uint8_t {
  kOpen = 0,  // and creat; failed ones too
  kClose,
  kRead,  // every kind; stdio's as the program calls it
  kWrite,
  kSync,  // fsync, fdatasync, sync_file_range, msync, fflush
  kSeek,
  kMetadata,  // stat, unlink, rename, truncate, mkdir...
  kMap,       // mmap of a file; bytes: its length
  kCount
};
inline constexpr std::uint32_t kIoOperations = static_cast<std::uint32_t>(IoOperation::kCount);
inline constexpr const char* kIoOperationNames[kIoOperations] = {"open", "close", "read",     "write",
                                                                 "sync", "seek",  "metadata", "map"};

// One kind of operation on one file from one call path. Calls made inside MPI-IO or stdio by their own code
// count once, as what the program called; MPI-IO's own files are those of its system calls. What Python's
// import machinery does itself counts for the outermost import, what is done inside an MPI call for the
// caller of that. Statistics are atomic adds.
struct IoSite {
  std::atomic<std::uint64_t> key;    // 0 = free; hash of (path, file, operation, MPI function)
  std::atomic<std::uint32_t> ready;  // 1 when the identity below is complete
  std::uint32_t path_words;          // frame words (see SampleRecord) in the path arena,
  std::uint64_t path_offset;         //   at this byte offset; leaf = caller of the function.
                                     //   path_words 0: the path was dropped
  std::uint32_t file;                // index into the file table
  IoOperation operation;
  std::uint8_t reserved;
  std::uint16_t mpi_op;  // MPI function number + 1 that the thread was in, or 0
  std::atomic<std::uint64_t> count, failed, bytes, time_ns, max_ns;  // bytes: that were transferred
};
static_assert(sizeof(IoSite) == 72);

// The operations of one kind on one file that found no room among the sites. Atomic adds.
struct IoAmount {
  std::atomic<std::uint64_t> count, failed, bytes, time_ns, max_ns;
};
static_assert(sizeof(IoAmount) == 40);

// --- threads -------------------------------------------------------------------------------

enum class ThreadState : std::uint32_t {
  kFree = 0,  // may be claimed by a new thread
  kLive = 1,
  kEnded = 2,  // the collector drains it, then sets kFree
};

inline constexpr std::uint32_t kNoSequence = 0xffff'ffffu;
inline constexpr std::int32_t kNoPeer = -1, kAnyPeer = -2;
inline constexpr std::int32_t kAnyTag = -1, kNoTag = INT32_MIN;

// What a request is about that a call waits for.
enum class PendingKind : std::uint32_t { kNone = 0, kSend = 1, kReceive = 2, kCollective = 3 };
inline constexpr std::uint32_t kMaxPending = 8, kPendingKindBits = 2;
constexpr PendingKind pending_kind(std::uint32_t kinds, std::uint32_t i) {
  return static_cast<PendingKind>(kinds >> (i * kPendingKindBits) & ((1u << kPendingKindBits) - 1));
}

enum CallState : std::uint16_t {
  kCallDescribed = 0,
  kCallPaused = 1,  // recording was paused when it began, so it counts for nothing
  // It began while recording was off. Nothing is known but op, recorded_before_ns, and in enter_ns when
  // recording went off.
  kCallUndescribed = 2,
};

// The MPI call that a thread is in, written by the thread when it enters the call: what is known of a call
// that never returns. `changes` is a sequence lock: it grows by one when the thread enters a call, after the
// rest was written, and by one when it leaves. What was read is good where `changes` was the same odd number
// before and after.
struct MpiCallUnderWay {
  std::atomic<std::uint64_t> changes;
  std::atomic<std::uint64_t> enter_ns;     // CLOCK_MONOTONIC
  std::atomic<std::uint64_t> channel;      // identity of the communicator, 0 not known or none
  std::atomic<std::uint64_t> path_offset;  // of the call's path in the path arena, as in MpiSite
  std::atomic<std::uint32_t> path_words;
  std::atomic<std::uint32_t> communicator;  // index into the communicator table, kNoPath when none
  std::atomic<std::uint32_t> sequence;      // number of the collective call on the communicator, kNoSequence
  std::atomic<std::int32_t> peer;           // world rank of the other side, kAnyPeer, kNoPeer
  std::atomic<std::int32_t> tag;            // of the message, kAnyTag, kNoTag
  std::atomic<std::int32_t> root;           // world rank, kNoPeer
  std::atomic<std::uint16_t> op;            // MPI function number
  std::atomic<std::uint16_t> state;         // CallState
  std::atomic<std::uint64_t> recorded_before_ns;  // RecordedClock when the call began
  // Of a call that waits for requests: how many that have events were not complete when it began, and what
  // the first of these are about, those that are about the same once: a PendingKind for each,
  // kPendingKindBits wide.
  std::atomic<std::uint32_t> requests;
  std::atomic<std::uint32_t> pending_kinds;
  std::array<std::atomic<std::int32_t>, kMaxPending> pending_peers;  // world ranks, kAnyPeer, kNoPeer
  // Requests of the process that were not complete when the call began, whether or not it waits for them.
  // Only of calls on a communicator, or for requests.
  std::atomic<std::uint32_t> open_requests;
  std::atomic<std::uint64_t> agreed;  // of a collective operation, see agreed_of_bytes()
};

// --- event loops ---------------------------------------------------------------------------

// A turn of an event loop is the time from the return of a wait for events (epoll_wait and its variants) to
// the thread's next wait on the same descriptor. A turn of kBlockedTurnNs or more is blocked: whoever waits
// for the loop notices, and samples of 100 Hz show what the loop was in. asyncio's debug mode complains from
// 100 ms on.
inline constexpr std::uint64_t kBlockedTurnNs = 50'000'000;
inline constexpr std::uint32_t kThreadLoops = 4;
// A thread that has waited on a descriptor less often has no loop there: it waits for a connection, or for a
// child, now and then.
inline constexpr std::uint64_t kFewestTurns = 16;
// Upper bounds of the lengths of turns that are counted together, in ns; there is one more bin for the rest.
inline constexpr std::array<std::uint64_t, 7> kTurnBounds = {
    100'000, 1'000'000, 10'000'000, 50'000'000, 100'000'000, 1'000'000'000, 10'000'000'000};
inline constexpr std::uint32_t kTurnBins = kTurnBounds.size() + 1;
constexpr std::uint32_t turn_bin(std::uint64_t ns) noexcept {
  std::uint32_t bin = 0;
  while (bin < kTurnBounds.size() && ns >= kTurnBounds[bin]) ++bin;
  return bin;
}
// The wait after a turn found something ready within this time: it had become ready during the turn. Waking a
// thread up takes less than a tenth of it.
inline constexpr std::uint64_t kAtOnceNs = 1'000'000;

// Written by its thread only. Times are of CLOCK_MONOTONIC.
struct EventLoop {
  std::atomic<std::uint32_t> descriptor;  // plus one; 0: there is no loop. Stored last
  std::atomic<std::uint32_t> reserved;
  std::atomic<std::uint64_t> turn_began_ns;            // 0: it waits, or does not run
  std::atomic<std::uint64_t> wait_began_ns;            // 0: it does not wait
  std::atomic<std::uint64_t> turns, busy_ns, idle_ns;  // idle: in waits that have returned
  std::atomic<std::uint64_t> blocked, blocked_ns, longest_ns, longest_began_ns;
  std::array<std::atomic<std::uint64_t>, kTurnBins> lengths;
};

// Whether somebody waited for the loop while it was blocked, as the wait after the turn shows.
enum class Awaited : std::uint32_t {
  kNotKnown = 0,  // that wait has not returned
  kNo,            // nothing was ready; timers of the loop may have been due
  kYes,
};

struct BlockedTurn {
  std::atomic<std::uint64_t> begin_ns, end_ns;
  std::atomic<std::uint32_t> descriptor;  // plus one
  std::atomic<std::uint32_t> awaited;     // Awaited
};
inline constexpr std::uint32_t kBlockedTurns = 64;  // more than fit between two looks of the collector

struct ThreadLoops {
  std::array<EventLoop, kThreadLoops> loops;
  std::atomic<std::uint64_t> blocked_turns;  // number n is at n modulo kBlockedTurns
  std::array<BlockedTurn, kBlockedTurns> blocked;
};

// Of the name that Python's threading has for a thread: bytes of UTF-8, a longer one is cut.
inline constexpr std::uint32_t kThreadNameBytes = 64;

struct ThreadSlot {
  std::atomic<std::uint32_t> state;  // ThreadState
  std::int32_t tid;
  std::uint64_t start_time_ns, start_cpu_ns;  // CLOCK_MONOTONIC, thread CPU clock
  std::atomic<std::uint32_t> mpi_op;          // MPI function number + 1 the thread is in, or 0
  std::uint32_t is_main;                      // 1: the thread that runs main()
  // Time inside wrapped MPI calls, outermost call only, measured at enter and exit.
  std::atomic<std::uint64_t> mpi_time_ns;
  MpiCallUnderWay mpi_call;
  // How long the thread was ready and had no processor since its start, waits that are over, as the watcher
  // last read it. Stays 0 without SegmentHeader::knows_run_delay.
  std::atomic<std::uint64_t> run_delay_ns;
  std::uint64_t start_function;  // what pthread_create was given; 0 not known
  // When the latest window of recording began and ended for this thread, and its CPU clock then; the second
  // is valid once the first is there. Only with OutsideWindows::kNothing.
  std::atomic<std::uint64_t> window_begin_ns, window_begin_cpu_ns, window_end_ns, window_end_cpu_ns;
  char name[16];            // the kernel's, when the agent last asked for it
  char inherited_name[16];  // the kernel's when the thread began: that of the thread that made it
  // Written by the thread itself: the size is 0 while the words change.
  std::atomic<std::uint32_t> python_name_bytes;
  std::array<std::atomic<std::uint64_t>, kThreadNameBytes / 8> python_name;
  ThreadLoops event_loops;
  Ring ring;
};

}  // namespace clusterprof::wire
