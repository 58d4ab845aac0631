// SPDX-License-Identifier: BSD-3-Clause
// ShardData: a shard (one node) or a merged profile (all nodes) in memory, as plain tables that refer to each
// other by index. The collector fills one, formats/shard writes and reads it, the aggregator unites several
// into one, and report/ explains it. FORMATS.md describes the same tables in files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/shard/note.hpp"

namespace clusterprof::shard {

// Content hash that names a call path everywhere (XXH3, 128 bits).
struct PathId {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const PathId&, const PathId&) = default;
  friend auto operator<=>(const PathId&, const PathId&) = default;
};

// kRegion: a part of the run that the program named. Regions are the outermost frames of a path.
enum class FrameKind : std::uint8_t { kPython = 0, kNative = 1, kMpi = 2, kKernel = 3, kRegion = 4 };
inline constexpr std::uint8_t kFrameKinds = 5;

// What a thread was doing; docs/metrics.md defines these. kRunnable: ready to run but without a processor,
// outside MPI.
enum class Category : std::uint8_t { kPython = 0, kNative, kSystem, kMpi, kIo, kIdle, kRunnable };
inline constexpr std::size_t kCategories = 7;
inline constexpr std::array<const char*, kCategories> kCategoryNames = {"python", "native", "system",  "mpi",
                                                                        "io",     "idle",   "runnable"};

// Frames that stand for what a thread was doing and not for code. No function has these names.
inline constexpr std::string_view kGilWaitName = "waiting for the GIL";  // kernel, below its system call
inline constexpr std::string_view kPageFaultName = "page fault";         // kernel
// Kernel, below the path that was running; only in event_gaps and in what is computed from them.
inline constexpr std::string_view kRunnableName = "waiting for a processor";
inline constexpr std::string_view kGarbageName = "garbage collection";  // native, of the interpreter
// Native, in no object file: callers that were left out because there are too many call paths.
inline constexpr std::string_view kCallersLeftOutName = "[callers left out]";
// Native, in no object file: all call sites of an MPI function for which the table had no room.
inline constexpr std::string_view kOtherCallSitesName = "[other call sites]";
// A region that stands for those of its domain that have little time, or found no room in a table.
inline constexpr std::string_view kOtherRegionsName = "[other regions]";
// Kernel, in place of the frames of an OpenMP run time: what a thread of a region, or of its pool, waits for.
inline constexpr std::string_view kOmpBarrierName = "waiting at an OpenMP barrier";
inline constexpr std::string_view kOmpTasksName = "waiting for OpenMP tasks";
inline constexpr std::string_view kOmpLockName = "waiting for an OpenMP lock";
inline constexpr std::string_view kOmpCriticalName = "waiting for an OpenMP critical section";
inline constexpr std::string_view kOmpOrderedName = "waiting for an ordered OpenMP iteration";
inline constexpr std::string_view kOmpIdleName = "waiting for the next OpenMP region";
// There are also native frames in no object file below which the paths of a library's own threads are:
// "[OpenMP threads]", "[libwork.so threads]" and the like (base/thread_pools.hpp).

// Kernel, below a system call such as read: what kind of descriptor it was called with.
inline constexpr std::string_view kOnFileName = "of a file";
inline constexpr std::string_view kOnSocketName = "of a socket";
inline constexpr std::string_view kOnPipeName = "of a pipe or terminal";
inline constexpr std::string_view kOnThreadName = "of a thread that is joined";

using StringIndex = std::uint32_t;  // into ShardData::strings; 0 is the empty string
inline constexpr std::uint32_t kNone = 0xffff'ffffu;

// No job has more ranks. A file that says more is damaged; readers rely on this when they size tables.
inline constexpr std::uint32_t kMaxWorldSize = 1u << 24;

// A place in the program: a source line of a function. Two frames are the same if all fields are equal.
struct Frame {
  FrameKind kind = FrameKind::kNative;
  bool inlined = false;             // the compiler put this function into its caller
  StringIndex name = 0;             // qualified Python name, demangled C++ name, MPI function,
                                    //   system call; "module+0x12ab" when there is no symbol
  StringIndex file = 0;             // as the compiler or interpreter knew it; 0 unknown
  StringIndex module = 0;           // path of the object file for native frames
  std::uint32_t line = 0;           // line executing (leaf) or calling (inner nodes); 0 unknown
  std::uint32_t function_line = 0;  // where the function starts; 0 unknown
  bool line_approximate = false;    // executing at or behind `line`, in code of the interpreter's JIT
  friend bool operator==(const Frame&, const Frame&) = default;
};

// Limits for the frames of a call path and the regions among them. A sample has at most 2048 words, and each
// call in compiled code stands for as many frames as were inlined there.
inline constexpr std::uint32_t kMaxPathDepth = 65536, kMaxRegionDepth = 256;

// A node of the call path tree. paths[0] is the root: no frame, its own parent.
// A parent always comes before its children.
struct Path {
  PathId id;
  std::uint32_t parent = 0;
  std::uint32_t frame = kNone;
  friend bool operator==(const Path&, const Path&) = default;
};

// No node, rank or run starts before 1933 or ends after 2189, so the difference of two times always fits.
inline constexpr std::int64_t kEarliest_utc_ns = -(std::int64_t{1} << 60);
inline constexpr std::int64_t kLatest_utc_ns = std::int64_t{3} << 61;

// The control group of the job that came nearest to its limit, as the kernel counts. 0: not known.
struct GroupMemory {
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = 0;      // at the last look
  std::uint64_t max_used_bytes = 0;  // by the kernel's own count, or at a look
  std::uint64_t limit_hits = 0;      // how often it was at its limit
  // Parts of what was used, at the look at which that was the most.
  std::uint64_t anon_bytes = 0, file_bytes = 0, shared_bytes = 0, kernel_bytes = 0, swap_bytes = 0;
  friend bool operator==(const GroupMemory&, const GroupMemory&) = default;
};

struct Node {
  std::string name;
  std::int64_t start_utc_ns = 0;  // first process of the job on this node
  std::uint64_t elapsed_ns = 0;   // until the last one ended
  std::uint64_t cpu_ns = 0;       // CPU time of all its recorded processes
  std::uint64_t collector_cpu_ns = 0;
  std::uint64_t collector_max_rss_bytes = 0;
  // 0 or empty: not known.
  std::uint32_t cpus = 0, numa_nodes = 0;  // logical processors that are on
  std::uint64_t memory_bytes = 0;
  std::uint64_t cache_bytes = 0;  // of one instance of the largest cache
  std::string cpu_model;
  // Empty in the last shard of the node's collector. Before that: when these data are of, within what time
  // they are to be written again (0: no promise), and the collector's mark (base/process_mark).
  std::int64_t as_of_utc_ns = 0;
  std::uint64_t next_within_ns = 0;
  std::string collector;
  GroupMemory group;
  std::uint64_t requested_memory_bytes = 0;  // by the job, of this node; 0: not known
  // With --memory: the most that the call paths of its ranks held at one time, and when. 0: nothing.
  std::uint64_t held_peak_bytes = 0;
  std::int64_t held_peak_utc_ns = 0;
  friend bool operator==(const Node&, const Node&) = default;
};

enum RankFlags : std::uint32_t {
  kExitStatusKnown = 1u << 0,
  kExitSignalKnown = 1u << 1,
  kLost = 1u << 2,          // killed by a signal, left MPI open, or nobody saw its end
  kUsageKnown = 1u << 3,    // max_rss_bytes and the fault and switch counts are valid
  kIoKnown = 1u << 4,       // read_bytes, write_bytes are valid
  kUsedMpi = 1u << 5,       // MPI_Init was seen
  kWaitKnown = 1u << 6,     // mpi_wait_ns is valid
  kMpiUnwatched = 1u << 7,  // calls would not have been seen: --no-mpi, or no agent in the process
  kFaultsApart = 1u << 8,   // the time in page faults is told apart
  kGarbageApart = 1u << 9,  // so is Python's garbage collection
  // A process may have run Python whose frames were not read, so the time of Python code counts as native.
  kPythonUnread = 1u << 10,
  kSpawned = 1u << 11,  // of a world that MPI_Comm_spawn made
  // Its file operations were watched: if io_calls has none, there were none.
  kFilesKnown = 1u << 12,
  // The kernel told how long its threads waited for a processor, so category runnable and mpi_runnable_ns are
  // known.
  kRunDelayKnown = 1u << 13,
  kStillRan = 1u << 14,  // when the shard was written: kLost, unless a later shard has its end
  // Receives of it may have taken messages without an event that says so / a send that has an event may never
  // have happened.
  kReceivesUnseen = 1u << 15,
  kSendsUnsure = 1u << 16,
};

// One rank: its main process (the one that initialised MPI, otherwise the first), with the sums over the
// helper processes that it started.
struct Rank {
  std::int32_t rank = 0;
  std::uint32_t node = 0;  // index into nodes
  std::int32_t pid = 0;
  std::uint32_t flags = 0;  // RankFlags
  std::int64_t start_utc_ns = 0;
  std::uint64_t elapsed_ns = 0;  // of the main process
  std::uint64_t cpu_ns = 0;      // user + system, all processes and threads of the rank
  std::uint64_t user_ns = 0, system_ns = 0;
  std::uint64_t samples = 0;
  std::uint32_t threads = 0, processes = 0;
  // Wall time of the main thread by category. Shards have what samples say. Profiles have corrected times
  // that add up to the recorded time (aggregator/corrected_time.hpp), and what samples said in
  // raw_main_thread_ns.
  std::array<std::uint64_t, kCategories> main_thread_ns{}, raw_main_thread_ns{};
  std::uint64_t mpi_ns = 0;  // main thread inside MPI, measured at enter and exit
  // When MPI_Init returned and MPI_Finalize was entered, since start_utc_ns; 0: not seen.
  std::uint64_t mpi_init_end_ns = 0, mpi_finalize_begin_ns = 0;
  // Threads of the main process, other than the main thread, that called MPI: how many, how long they lived,
  // and how long they were inside MPI.
  std::uint32_t mpi_helper_threads = 0;
  std::uint64_t mpi_helper_elapsed_ns = 0, mpi_helper_ns = 0;
  std::uint64_t mpi_wait_ns = 0;      // the part of mpi_ns that was waiting for other ranks
  std::uint64_t mpi_runnable_ns = 0;  // the part of mpi_ns that was waiting for a processor; sampled
  std::uint64_t max_rss_bytes = 0, read_bytes = 0, write_bytes = 0;
  std::uint64_t minor_faults = 0, major_faults = 0, voluntary_switches = 0, involuntary_switches = 0;
  std::int32_t exit_status = 0, exit_signal = 0;
  std::uint64_t handler_ns = 0;                                      // what sampling cost the rank
  std::uint64_t truncated = 0, merges_tried = 0, merges_failed = 0;  // samples
  std::uint32_t python_version = 0;                                  // PY_VERSION_HEX, 0 none
  // Samples of running threads, and the running time between them: their ratio is the sampling rate that was
  // reached. Both 0: not known.
  std::uint64_t running_samples = 0, running_ns = 0;
  std::uint32_t event_level = 0;     // of its mpi_events, see wire::event_is_selected
  std::uint64_t mpi_operations = 0;  // those that would have an event at level 0
  std::uint64_t paused_ns = 0;       // main thread; in elapsed_ns but in no category
  std::uint64_t standby_ns = 0;      // the part of paused_ns outside of windows of recording, with --standby
  StringIndex affinity = 0;          // processors its main process may run on, "0-3,8"; 0 not known
  StringIndex numa_nodes = 0;        // those processors' memory nodes, "0-1"; 0 not known
  // For a lost rank: where its main thread was last seen, one line per frame, the outermost first. 0: not
  // known.
  StringIndex last_call_path = 0;
  std::uint32_t restart = 0;  // how often its launcher had started the rank before, in this run
  StringIndex command = 0;    // that it was started with (base/command_text.hpp); 0 not known
  // Threads that ended before their first sample, and their CPU time, which is charged to the functions that
  // they started with.
  std::uint64_t unsampled_threads = 0, unsampled_cpu_ns = 0;
  friend bool operator==(const Rank&, const Rank&) = default;
};
inline constexpr StringIndex Rank::*kRankTexts[] = {&Rank::affinity, &Rank::numa_nodes, &Rank::last_call_path,
                                                    &Rank::command};

// Exclusive time of one rank on one call path: the path's last frame was the innermost. In shards, wall_ns is
// what samples say. In profiles it is corrected: calls that are timed have their measured time, and the main
// thread's rows of a category add up to Rank::main_thread_ns.
struct Value {
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path = 0;  // index into paths
  Category category = Category::kNative;
  bool main_thread = true;
  std::uint64_t wall_ns = 0, cpu_ns = 0;
  std::uint64_t samples = 0;
  friend bool operator==(const Value&, const Value&) = default;
};

// One MPI call site of one rank. The path's last frame is the MPI function. time_ns includes calls that have
// not returned, up to the last look at them; the other numbers are only of calls that returned.
struct MpiCall {
  std::uint32_t rank = 0, path = 0;
  std::uint32_t communicator = kNone;  // index into communicators
  std::uint64_t count = 0, time_ns = 0, min_ns = 0, max_ns = 0;
  std::uint64_t sent_bytes = 0, recv_bytes = 0;
  bool main_thread = true;       // the main thread made the calls; false: other threads did
  std::uint64_t unfinished = 0;  // calls under way
  friend bool operator==(const MpiCall&, const MpiCall&) = default;
};

// An MPI call that had not returned when its thread was last looked at.
struct CallUnderWay {
  // Special values of peer, root and tag.
  static constexpr std::int32_t kNoRank = -1, kAnyRank = -2, kAnyTag = -1, kNoTag = INT32_MIN;
  std::uint32_t rank = 0;  // index into ranks
  std::int32_t tid = 0;
  bool main_thread = true;
  std::uint32_t path = 0;              // the last frame is the MPI function
  std::uint32_t communicator = kNone;  // index into communicators
  std::uint32_t sequence = kNone;  // number of the collective call on the communicator; kNone: not collective
  std::int32_t peer = kNoRank;     // world rank of the other side, kAnyRank
  std::int32_t tag = kNoTag;
  std::int32_t root = kNoRank;  // world rank
  std::uint64_t enter_ns = 0;   // the node's monotonic clock
  std::uint64_t lasted_ns = 0;  // until the last look
  std::uint32_t requests = 0;  // recorded requests that it waits for and that were not complete when it began
  std::uint32_t open_requests = 0;  // requests that were not complete then, whether or not it waits for them
  // Of a collective operation, what the standard wants to be equal on all members: bytes.
  static constexpr std::uint64_t kNoBytes = UINT64_MAX;  // there is no such thing, or it is not known
  std::uint64_t agreed_bytes = kNoBytes;
  friend bool operator==(const CallUnderWay&, const CallUnderWay&) = default;
};

// A request that a call under way waits for. Only the first ones that were not complete when the call began
// are listed, and equal ones once. The numbers are those of wire::PendingKind.
enum class PendingKind : std::uint8_t { kSend = 1, kReceive = 2, kCollective = 3 };
struct PendingRequest {
  std::uint32_t rank = 0;      // index into ranks
  std::int32_t tid = 0;        // with enter_ns, of the call under way
  std::uint64_t enter_ns = 0;  // of the call
  PendingKind kind = PendingKind::kSend;
  std::int32_t peer = CallUnderWay::kNoRank;  // world rank of the other side, kAnyRank, kNoRank
  friend bool operator==(const PendingRequest&, const PendingRequest&) = default;
};

// Calls of one call site that have returned an error of one class, about messages with one other side and
// tag. peer and tag as in CallUnderWay.
struct MpiError {
  std::uint32_t rank = 0, path = 0;    // path: the last frame is the MPI function
  std::uint32_t communicator = kNone;  // index into communicators
  std::int32_t error_class = 0;        // as the MPI library numbers them
  std::int32_t peer = CallUnderWay::kNoRank, tag = CallUnderWay::kNoTag;
  std::uint32_t message =
      kNone;  // number of the first one's message, as MpiEvent::sequence; kNone: not known
  std::uint64_t count = 0;
  std::uint64_t first_ns = 0;  // when the first such call began, since the rank's start
  std::string name;            // of the class, "MPI_ERR_TRUNCATE"; empty: it is the program's own
  std::string text;            // the MPI library's
  friend bool operator==(const MpiError&, const MpiError&) = default;
};

// Requests that one call site had started and that were not complete when MPI_Finalize was called.
struct OpenRequests {
  static constexpr std::uint8_t kOther = 0;  // kind: neither of PendingKind
  std::uint32_t rank = 0, path = 0;          // path: of the call; 0: of all that found no room
  std::uint32_t communicator = kNone;        // index into communicators
  std::uint8_t kind = kOther;                // PendingKind
  std::int32_t peer = CallUnderWay::kNoRank, tag = CallUnderWay::kNoTag;  // as in CallUnderWay
  std::uint64_t count = 0;
  friend bool operator==(const OpenRequests&, const OpenRequests&) = default;
};

// Messages that one call site has sent to one rank with one tag, and that nobody has received. Only in
// profiles.
struct UnmatchedMessages {
  std::uint32_t rank = 0, path = 0;    // of the sender
  std::uint32_t communicator = kNone;  // index into communicators
  std::uint32_t receiver = 0;          // index into ranks
  std::int32_t tag = 0;
  std::uint64_t count = 0;
  friend bool operator==(const UnmatchedMessages&, const UnmatchedMessages&) = default;
};
inline constexpr std::size_t kMaxUnmatchedRows = 4096;  // those with the most messages

// How many collective operations a rank has begun on a communicator that it belongs to. A blocking one counts
// from its end: the number of the call under way is the count.
struct CollectiveCount {
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path = 0;  // the function of the last one, alone; 0: there was none, or it is not known
  std::uint32_t communicator = 0;  // index into communicators
  std::uint32_t count = 0;
  std::uint64_t agreed_bytes = CallUnderWay::kNoBytes;  // of the last one, as there
  friend bool operator==(const CollectiveCount&, const CollectiveCount&) = default;
};

// One message or collective operation as one rank saw it; wire::MpiEvent describes the fields. Only shards
// have events: the merge analyses them and stores what it finds (WaitState and the tables after it).
struct MpiEvent {
  std::uint32_t rank = 0;    // index into ranks
  std::uint32_t thread = 0;  // number among the rank's threads that have events, in order of their first one
  std::uint32_t path = 0;    // call site of the call; the last frame is the MPI function
  std::uint32_t communicator = kNone;  // index into communicators
  StringIndex op = 0;                  // the operation, "MPI_Ibcast"
  std::uint8_t kind = 0, flags = 0;    // wire::MpiEventKind, wire::MpiEventFlags
  std::int32_t peer = 0, tag = 0;      // world rank
  std::uint32_t sequence = 0;
  std::uint64_t enter_ns = 0, exit_ns = 0, start_ns = 0;  // the node's monotonic clock
  std::uint64_t mpi_ns = 0, bytes = 0;
  std::uint64_t paused_ns = 0, resumed_ns = 0;
  friend bool operator==(const MpiEvent&, const MpiEvent&) = default;
};

// What a thread did outside MPI between two of its events, by samples; exclusive, like Value. Each interval
// has only the call paths with the most time. If the path ends in an MPI function, the time is that of calls
// without events (MPI_Get, MPI_Win_lock), from the call site with the most time.
struct EventGap {
  std::uint32_t event = 0;  // index into mpi_events: the one at whose enter_ns the interval ends
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;  // of it, on a processor; 0 of calls without events, and below kRunnableName
  friend bool operator==(const EventGap&, const EventGap&) = default;
};

// A stretch of time in which a rank whose mpi_events are a sample has all of them besides, and for each
// thread the one that follows.
struct EventStretch {
  std::uint32_t rank = 0;                  // index into ranks
  std::uint64_t shared_begin_ns = 0;       // the same on all ranks that have this stretch
  std::uint64_t begin_ns = 0, end_ns = 0;  // the node's monotonic clock
  bool complete = false;                   // else some may be missing: they found no room, or were damaged
  friend bool operator==(const EventStretch&, const EventStretch&) = default;
};

// A comparison of the clock of a rank's node with another node's (wire::ClockMeasurement).
struct ClockOffset {
  std::uint32_t rank = 0;           // index into ranks
  std::int32_t reference_rank = 0;  // world rank
  std::uint64_t local_ns = 0;       // the node's monotonic clock
  std::int64_t offset_ns = 0;       // reference minus local
  std::uint64_t error_ns = 0;
  friend bool operator==(const ClockOffset&, const ClockOffset&) = default;
};

// --- the analysis of waiting; only in profiles ---

enum class WaitKind : std::uint8_t {
  kLateSender = 0,
  kLateReceiver,
  kWaitAtBarrier,
  kWaitAtNxN,
  kLateBroadcast,
  kEarlyReduce,
  kEarlyScan,
};
inline constexpr std::size_t kWaitKinds = 7;
inline constexpr std::array<const char*, kWaitKinds> kWaitKindNames = {
    "late_sender",    "late_receiver", "wait_at_barrier", "wait_at_nxn",
    "late_broadcast", "early_reduce",  "early_scan"};

// Time that one rank waited, at one call site, for another rank that was doing one thing.
struct WaitState {
  std::uint32_t rank = 0;  // index into ranks: who waited
  std::uint32_t path = 0;  // where; the last frame is the MPI function
  WaitKind kind = WaitKind::kLateSender;
  std::uint32_t cause_rank = kNone;  // index into ranks: who was late
  std::uint32_t cause_path = 0;      // what that rank did instead; 0 not known
  std::uint64_t wait_ns = 0, count = 0;
  friend bool operator==(const WaitState&, const WaitState&) = default;
};

// All waiting that one rank caused by being on one call path, directly or through ranks that had to wait for
// it and were late themselves.
struct RootCause {
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path = 0;  // 0 not known
  std::uint64_t wait_ns = 0;
  std::uint32_t waiting_ranks = 0;  // how many
  friend bool operator==(const RootCause&, const RootCause&) = default;
};

// Time that the critical path spends on a call path. The critical path is the chain of dependent work that
// ends with the last rank to finish.
struct CriticalTime {
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path = 0;  // 0 not known
  std::uint64_t wall_ns = 0;
  friend bool operator==(const CriticalTime&, const CriticalTime&) = default;
};

// One of the parts of equal length that the run is divided into. Sums over the ranks.
struct TimeWindow {
  std::uint64_t begin_ns = 0, end_ns = 0;  // since the first rank's start
  double useful_mean_ns = 0, useful_max_ns = 0;
  std::uint64_t wait_ns = 0;
  // Time in which every rank was in MPI_Init, MPI_Finalize or the like. Efficiencies leave it out.
  std::uint64_t startup_ns = 0;
  friend bool operator==(const TimeWindow&, const TimeWindow&) = default;
};

// Value of WaitAnalysis::clock_error_ns if the clocks of some nodes could not be compared.
inline constexpr std::uint64_t kClocksApart = INT64_MAX;

// How the analysis of waiting went.
struct WaitAnalysis {
  bool done = false;              // false: no rank had events; all else is 0
  std::uint64_t ideal_ns = 0;     // elapsed time on an ideal network; 0 not known
  std::uint32_t event_level = 0;  // > 0: about one in 2^level operations was analysed, and the result scaled
  std::uint64_t operations = 0, events = 0;  // MPI operations of all ranks; events analysed
  std::uint64_t messages = 0, unmatched_messages = 0;
  std::uint64_t collectives = 0, unmatched_collectives = 0;  // instances
  std::uint64_t unreceived_messages = 0;                     // that are known to have been received by nobody
  std::uint64_t clock_error_ns = 0;                          // shorter waits between nodes are not counted
  std::uint64_t clock_violations = 0;                        // messages received before they were sent
  std::uint64_t worst_violation_ns = 0;
  friend bool operator==(const WaitAnalysis&, const WaitAnalysis&) = default;
};

struct Communicator {
  std::uint64_t identity = 0;
  std::uint32_t size = 0;
  std::string name;
  friend bool operator==(const Communicator&, const Communicator&) = default;
};

// Bytes addressed from one world rank to another.
struct MatrixCell {
  std::int32_t source = 0, destination = 0;
  std::uint64_t messages = 0, bytes = 0;
  friend bool operator==(const MatrixCell&, const MatrixCell&) = default;
};

// The number of a rank in a communicator whose members do not know each other's ranks in the run: a group of
// torch.distributed. Messages and roots have such numbers there (wire::kEventPeerInGroup). Members belong
// together if their launcher had started them as often before (Rank::restart).
struct GroupNumber {
  std::uint32_t rank = 0;          // index into ranks
  std::uint32_t communicator = 0;  // index into communicators
  std::int32_t number = 0;
  friend bool operator==(const GroupNumber&, const GroupNumber&) = default;
};

// What a rank has addressed to a member of such a communicator. The merge makes it a MatrixCell where it
// finds the member's rank.
struct GroupMessages {
  std::uint32_t rank = 0;          // index into ranks
  std::uint32_t communicator = 0;  // index into communicators
  std::int32_t destination = 0;    // the member's number
  std::uint64_t messages = 0, bytes = 0;
  friend bool operator==(const GroupMessages&, const GroupMessages&) = default;
};

// Messages of one MPI function with at most le_bytes, and more than the next smaller le_bytes.
struct MpiSize {
  StringIndex op = 0;
  std::uint64_t le_bytes = 0;
  std::uint64_t count = 0;
  friend bool operator==(const MpiSize&, const MpiSize&) = default;
};

struct CounterValue {                   // total of one rank
  std::uint32_t rank = 0, counter = 0;  // counter: index into counters
  std::uint64_t value = 0;
  friend bool operator==(const CounterValue&, const CounterValue&) = default;
};
struct PathCounter {  // exclusive, like Value
  std::uint32_t rank = 0, path = 0, counter = 0;
  std::uint64_t value = 0;
  friend bool operator==(const PathCounter&, const PathCounter&) = default;
};
struct UnavailableCounter {
  std::string name, reason;
  friend bool operator==(const UnavailableCounter&, const UnavailableCounter&) = default;
};

// What a run was made with, beside its command: that of its first process.
enum class SettingKind : std::uint8_t { kCommit = 0, kModule, kCompiler, kVariable };
inline constexpr std::size_t kSettingKinds = 4;
struct Setting {
  SettingKind kind = SettingKind::kVariable;
  std::string name;   // kCommit: the folder of the repository; kModule: without its version; kCompiler: empty
  std::string value;  // kCommit: 40 or 64 hexadecimal digits; kModule: the version
  friend bool operator==(const Setting&, const Setting&) = default;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};
inline constexpr std::size_t kMaxSettings = 256;  // of a node

// The main thread's time in MPI over time, as the calls measured it. Series "mpi_ns" has what samples say.
inline constexpr std::string_view kMeasuredMpiSeries = "mpi_measured_ns";
// The part of it in which the main thread waited for a processor.
inline constexpr std::string_view kMpiRunnableSeries = "mpi_runnable_ns";

// One quantity over time, of ranks or of nodes.
enum class SeriesKind : std::uint8_t {
  kSum = 0,      // an amount: when two bins are joined, the sum
  kMaximum = 1,  // a level: when two bins are joined, the larger one
};
struct Series {
  StringIndex name = 0;  // "python_ns", "rss_bytes", a counter's name; no two have the same name and kind
  SeriesKind kind = SeriesKind::kSum;
  friend bool operator==(const Series&, const Series&) = default;
};

// The bins of all series: bin b starts at origin_utc_ns + b * bin_ns. All ranks and nodes have the same bins.
// bin_ns is kFirstBin_ns times a power of two and origin_utc_ns a multiple of bin_ns, so bins of different
// shards can be joined.
struct TimeAxis {
  static constexpr std::uint64_t kFirstBin_ns = 1'000'000;
  static constexpr std::uint32_t kMaxBins = 1024;
  // All times are between 1970 and 2109: kMaxBins of the widest bins cover this.
  static constexpr std::uint64_t kWidestBin_ns = kFirstBin_ns << 32;
  static constexpr std::uint64_t kEnd_utc_ns = kMaxBins * kWidestBin_ns;
  std::uint64_t bin_ns = 0;  // 0: there are no series
  std::int64_t origin_utc_ns = 0;
  friend bool operator==(const TimeAxis&, const TimeAxis&) = default;
};

// Both series tables have no rows with value 0.
struct RankSeries {
  std::uint32_t rank = 0, series = 0, bin = 0;  // indices into ranks, series; bin < TimeAxis::kMaxBins
  std::uint64_t value = 0;
  friend bool operator==(const RankSeries&, const RankSeries&) = default;
};
struct NodeSeries {
  std::uint32_t node = 0, series = 0, bin = 0;
  std::uint64_t value = 0;
  friend bool operator==(const NodeSeries&, const NodeSeries&) = default;
};

// Wall time of a call path over the time of the run, in bins of ShardData::path_axis. Exclusive like Value,
// and summed over all ranks and threads of the shard or profile. Only a node's largest paths have rows
// (path_times.hpp); the time of another path is added to the nearest path above it that has rows, or to the
// root. All rows add up to Value::wall_ns. There are no rows in which both times are 0.
struct PathSeries {
  std::uint32_t path = 0, bin = 0;  // path: index into paths; bin < kMaxPathBins
  std::uint64_t wall_ns = 0;        // in shards as sampled, in profiles corrected like Value::wall_ns
  std::uint64_t raw_wall_ns = 0;    // profiles only: as sampled
  friend bool operator==(const PathSeries&, const PathSeries&) = default;
};
inline constexpr std::uint32_t kMaxPathBins = 64;

// The values of wire::IoOperation.
enum class IoOperation : std::uint8_t { kOpen = 0, kClose, kRead, kWrite, kSync, kSeek, kMetadata, kMap };
inline constexpr std::size_t kIoOperations = 8;
inline constexpr std::array<const char*, kIoOperations> kIoOperationNames = {
    "open", "close", "read", "write", "sync", "seek", "metadata", "map"};

struct IoFile {
  std::string path;         // absolute; empty: all files for which the table had no room
  std::string file_system;  // type and mount point on the node, "ext4 /home"; empty: not known
  friend bool operator==(const IoFile&, const IoFile&) = default;
};

// Operations of one kind on one file by one call path. The path's last frame is the caller.
struct IoCall {
  std::uint32_t rank = 0, path = 0;
  std::uint32_t file = 0;  // index into io_files
  IoOperation operation = IoOperation::kOpen;
  std::uint64_t count = 0, failed = 0, bytes = 0, time_ns = 0, max_ns = 0;
  friend bool operator==(const IoCall&, const IoCall&) = default;
};

// Which data a rank used on a call path, by samples of running native code.
struct DataAccess {
  std::uint32_t rank = 0, path = 0;
  std::uint64_t samples = 0;   // whose instruction was looked at
  std::uint64_t accesses = 0;  // samples whose instruction has a memory operand outside the stack
  // Which 256 KiB blocks the operands were in: bit h(block) of 256, where h is a hash. The bits of several
  // rows joined by "or" tell how many different blocks there were (linear counting).
  static constexpr std::uint64_t kBlockBytes = 1u << 18;
  std::array<std::uint64_t, 4> blocks{};
  friend bool operator==(const DataAccess&, const DataAccess&) = default;
};

// The values of wire::MemoryDomain: who manages the memory.
enum class MemoryDomain : std::uint8_t { kNative = 0, kPython, kMapping, kMpi, kFile };
inline constexpr std::size_t kMemoryDomains = 5;
inline constexpr std::array<const char*, kMemoryDomains> kMemoryDomainNames = {"native", "python", "mmap",
                                                                               "mpi", "file"};

// With --memory: memory of one domain that a rank allocated on one call path, whose last frame called the
// function that allocates. Sums of samples, each of which stands for a number of bytes and calls. What is
// held, live or at a peak, is not known of domain kFile's peaks: the kernel can drop the pages of files.
struct MemorySite {
  static constexpr std::size_t kAges = 8;
  static constexpr std::uint64_t kVarianceUnit = 256;  // bytes squared
  std::uint32_t rank = 0, path = 0;
  MemoryDomain domain = MemoryDomain::kNative;
  std::uint64_t alloc_bytes = 0, alloc_count = 0;
  std::uint64_t variance = 0;                    // of alloc_bytes, in kVarianceUnit
  std::uint64_t soon_bytes = 0, soon_count = 0;  // of them: freed within wire::kFreedSoonNs
  std::uint64_t copy_bytes = 0, copy_count = 0;  // moved by memcpy and the like
  std::uint64_t live_end_bytes = 0;              // held when its processes began to end, or now
  std::uint64_t rank_peak_bytes = 0,
                node_peak_bytes = 0;  // held when the rank and when the node held the most
  // live_end_bytes by when it was allocated: eighths of the time of its process. May be less in all.
  std::array<std::uint64_t, kAges> live_by_age{};
  friend bool operator==(const MemorySite&, const MemorySite&) = default;
};

// With --memory: a rank as a whole, and what the kernel says beside it. A rank has at most one row.
struct MemoryRank {
  std::uint32_t rank = 0;                     // index into ranks
  std::uint64_t interval_bytes = 0;           // of sampling, in the end
  std::uint64_t peak_bytes = 0, peak_ns = 0;  // peak_ns: since the rank's start
  std::uint64_t live_end_bytes = 0;
  std::uint64_t untracked_bytes = 0;  // allocated, but not known how long they lived
  std::uint64_t static_bytes = 0;     // of object files, that may be written: nobody allocates them
  // Anonymous memory of its processes in RAM, and what lived then: when that was the most, and the means over
  // time.
  std::uint64_t max_anon_bytes = 0, live_at_max_anon_bytes = 0, mean_anon_bytes = 0, mean_live_bytes = 0;
  // Of its processes together, when their share was the largest. 0: not known. PSS: pages that n processes
  // have count for 1/n. near, far: on the memory nodes of its processors, and on others.
  std::uint64_t pss_bytes = 0, private_dirty_bytes = 0, huge_bytes = 0, swap_bytes = 0;
  std::uint64_t near_bytes = 0, far_bytes = 0;
  friend bool operator==(const MemoryRank&, const MemoryRank&) = default;
};

// With --memory: what a call path held over the time of the run, in bins of ShardData::path_axis, of all
// ranks together: KiB times ms. As for PathSeries, only a node's largest paths have rows, and the amount of
// another one is added to the nearest path above it that has rows.
struct MemorySeries {
  std::uint32_t path = 0, bin = 0;
  std::uint64_t kib_ms = 0;
  friend bool operator==(const MemorySeries&, const MemorySeries&) = default;
};
// Memory that the program names by space and label, as Kokkos does with its views; whether or not with
// --memory. Counted exactly. If several processes of the rank have it, amounts are sums, and the peak is that
// of the process with the largest one.
struct MemorySpace {
  std::uint32_t rank = 0;       // index into ranks
  std::uint32_t processes = 0;  // that allocated in it
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0;
  std::uint64_t live_end_bytes = 0;  // not freed in the end, or by now
  std::uint64_t peak_bytes = 0;
  std::int64_t peak_utc_ns = 0;  // 0: there was no peak
  // Freed, but not seen to be allocated.
  std::uint64_t unknown_frees = 0, unknown_bytes = 0;
  std::string name;  // "Host"
  friend bool operator==(const MemorySpace&, const MemorySpace&) = default;
};
struct MemoryLabel {
  std::uint32_t rank = 0;  // index into ranks
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0, live_end_bytes = 0;
  std::uint64_t peak_bytes = 0;        // its own
  std::uint64_t space_peak_bytes = 0;  // held at the peak of its space
  std::string space, name;
  friend bool operator==(const MemoryLabel&, const MemoryLabel&) = default;
};
struct MemoryCopies {      // from one space to another one, or within one
  std::uint32_t rank = 0;  // index into ranks
  std::uint64_t count = 0, bytes = 0;
  std::string to, from;
  friend bool operator==(const MemoryCopies&, const MemoryCopies&) = default;
};
// Of a rank those that held most; fewer in a large job. The others are one of their space.
inline constexpr std::size_t kMaxLabelRows = 1056;
inline constexpr std::string_view kOtherLabelsName = "(other labels)", kOtherSpacesName = "(other spaces)";
// Series of ranks and nodes: what they held, at most.
inline constexpr std::string_view kHeldSeries = "memory_held_bytes";

// A region of a rank; it is the last frame of `path`. Counts instances that have ended, of all threads.
struct RegionTime {
  std::uint32_t rank = 0, path = 0;
  std::uint64_t count = 0, time_ns = 0, min_ns = 0, max_ns = 0;
  std::int64_t max_n = -1;  // the number that the program gave to the longest instance; -1: none
  friend bool operator==(const RegionTime&, const RegionTime&) = default;
};

// Waiting for a mutex that another thread of the rank had, as samples of blocked threads saw it.
struct MutexWait {
  std::uint32_t rank = 0;         // index into ranks
  std::uint32_t path = 0;         // where threads waited; 0: of all that found no room
  std::uint32_t holder_path = 0;  // where the one that had it was last seen; 0: not known
  std::uint64_t mutex = 0;        // its address; 0: several
  std::uint64_t wait_ns = 0, samples = 0;
  std::uint64_t longest_ns = 0;  // of one wait
  std::string name;  // of the variable that it is, or is in: "lock", "Queue::all+0x28"; empty: none
  friend bool operator==(const MutexWait&, const MutexWait&) = default;
};
inline constexpr std::size_t kMaxMutexRows =
    1024;  // of a rank: those with the most time; fewer in a large job

// The values of wire::OmpMethod.
enum class OmpMethod : std::uint8_t { kUnused = 0, kOmpt, kGomp, kOtherTool };
inline constexpr std::size_t kOmpMethods = 4;
inline constexpr std::array<const char*, kOmpMethods> kOmpMethodNames = {"none", "ompt", "gomp",
                                                                         "other_tool"};
constexpr const char* omp_method_name(OmpMethod method) {
  return kOmpMethodNames[static_cast<std::size_t>(method)];
}

// The values of wire::OmpConstruct.
enum class OmpKind : std::uint8_t {
  kParallel = 0,
  kTeams,
  kLoop,
  kSections,
  kSingle,
  kBarrier,
  kImplicitBarrier,
  kReduction,
  kTask,
  kTaskwait,
  kTaskgroup,
  kLock,
  kCritical,
  kAtomic,
  kOrdered
};
inline constexpr std::size_t kOmpKinds = 15;
inline constexpr std::array<const char*, kOmpKinds> kOmpKindNames = {
    "parallel", "teams",    "loop",      "sections", "single",   "barrier", "implicit_barrier", "reduction",
    "task",     "taskwait", "taskgroup", "lock",     "critical", "atomic",  "ordered"};
constexpr const char* omp_kind_name(OmpKind kind) { return kOmpKindNames[static_cast<std::size_t>(kind)]; }

// A rank that has used OpenMP.
struct OmpRank {
  static constexpr std::uint8_t kOtherRuntime =
      1;                   // flags: another run time is used as well, and not recorded
  std::uint32_t rank = 0;  // index into ranks
  OmpMethod method = OmpMethod::kUnused;
  std::uint8_t flags = 0;
  std::uint32_t processors = 0;  // that the threads of its regions may run on; 0 not known
  std::string runtime;           // as it calls itself, or the name of its file
  friend bool operator==(const OmpRank&, const OmpRank&) = default;
};

// A parallel region of a rank: the call path that begins it, and the number of threads in the team. Times are
// of instances that have ended, but for time_ns and mpi_ns, which have those under way as well.
struct OmpRegion {
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path =
      0;  // the last frame is the caller, at the line of the region; 0: of all that found no room
  std::uint32_t threads = 0;  // got
  std::uint8_t level = 0;     // how many regions there are around it
  std::uint8_t main = 1;      // 1: the rank's main thread has begun it, and there is none around it
  OmpKind kind = OmpKind::kParallel;
  std::uint32_t asked = 0;  // the most threads that were asked for; 0 not known
  std::uint64_t count = 0, unfinished = 0;
  std::uint64_t time_ns = 0;     // elapsed
  std::uint64_t mpi_ns = 0;      // of that, in MPI: of the thread that has begun it
  std::uint64_t longest_ns = 0;  // of each instance the work of the thread that had most
  // Of the threads of its teams, as in OmpThread.
  std::uint64_t threads_ns = 0, wait_ns = 0, inner_wait_ns = 0, schedule_ns = 0;
  friend bool operator==(const OmpRegion&, const OmpRegion&) = default;
};

// What the threads with one number spent in a region. What is neither waiting nor in schedule_ns is work. Not
// of all regions of a rank that has many.
struct OmpThread {
  std::uint32_t rank = 0, path = 0, threads = 0;
  std::uint8_t level = 0, main = 1;  // these five as in OmpRegion
  std::uint32_t number = 0;
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0;        // from where the thread began until all were done
  std::uint64_t wait_ns = 0;        // of that, at the end of the region
  std::uint64_t inner_wait_ns = 0;  // of that, in constructs
  std::uint64_t schedule_ns = 0;    // before that: from the beginning of the region until the thread began
  friend bool operator==(const OmpThread&, const OmpThread&) = default;
};

// How loops are shared out: bits, the values of wire::OmpSchedules.
inline constexpr std::size_t kOmpSchedules = 5;
inline constexpr std::array<const char*, kOmpSchedules> kOmpScheduleNames = {"static", "dynamic", "guided",
                                                                             "runtime", "handed_out"};
inline constexpr std::uint8_t kOmpStatic = 1, kOmpDynamic = 2, kOmpGuided = 4, kOmpRuntime = 8,
                              kOmpHandedOut = 16;
inline std::vector<std::string> omp_schedule_names(std::uint8_t schedules) {
  std::vector<std::string> names;
  for (std::size_t bit = 0; bit < kOmpSchedules; ++bit)
    if ((schedules >> bit & 1) != 0) names.emplace_back(kOmpScheduleNames[bit]);
  return names;
}

// A construct in a region: sums over the threads of its teams.
struct OmpConstruct {
  std::uint32_t rank = 0, region_path = 0, threads = 0;
  std::uint8_t level = 0, main = 1;  // these five as in OmpRegion
  std::uint32_t path = 0;            // below region_path: the last frame is where it is
  OmpKind kind = OmpKind::kBarrier;
  std::uint64_t count = 0;
  std::uint64_t time_ns = 0, wait_ns = 0;    // of time_ns, waiting
  std::uint64_t schedule_ns = 0;             // of time_ns, asking for the next part; estimated
  std::uint64_t chunks = 0, iterations = 0;  // of loops whose parts the run time hands out; 0 not known
  std::uint64_t longest_ns = 0;              // time_ns without wait_ns of the thread that has most
  std::uint32_t used = 0;                    // threads that have been in it
  std::uint8_t schedules = 0;                // of loops: kOmpStatic and so on; 0 not known
  friend bool operator==(const OmpConstruct&, const OmpConstruct&) = default;
};
inline constexpr std::uint32_t kMaxOmpThreads = 1u << 16;  // of a team: more is damage
// Of a rank the regions with the most time; fewer in a large job. The others are one, without a path, for
// each number of threads, level and main.
inline constexpr std::size_t kMaxOmpRegions = 256, kMaxOmpRows = 4096;  // rows of threads, and of constructs

// How a process was made, as its parent's agent saw it.
enum class ProcessOrigin : std::uint8_t {
  kUnknown = 0,  // not known
  kFork,
  kExec,  // a program that a child of vfork() executed
  kPosixSpawn,
  kShell,    // the shell of system() or popen()
  kRank,     // by the launcher: the rank's own process
  kRequest,  // forked by a server that another process, whose path it is, had asked
};
inline constexpr std::size_t kProcessOrigins = 7;
inline constexpr std::array<const char*, kProcessOrigins> kProcessOriginNames = {
    "unknown", "fork", "exec", "posix_spawn", "shell", "rank", "request"};

// Why a process is not recorded, but known.
enum class Unrecorded : std::uint8_t {
  kNo = 0,  // it is recorded
  // In the order of wire::UnrecordedReason.
  kNotVisible,
  kOtherLibrary,
  kOtherMachine,
  kLibrariesMissing,
  kStaticProgram,
  kPrivileges,
  kOtherEnvironment,
  kNoMemory,
  kEndedEarly,  // it ended before it began to record
  kSilent,      // it was to record, and nothing came from it
};
inline constexpr std::size_t kUnrecordedKinds = 11;
inline constexpr std::array<const char*, kUnrecordedKinds> kUnrecordedNames = {"",
                                                                               "not_visible",
                                                                               "other_c_library",
                                                                               "other_architecture",
                                                                               "libraries_missing",
                                                                               "static_program",
                                                                               "privileges",
                                                                               "other_environment",
                                                                               "no_memory",
                                                                               "ended_early",
                                                                               "silent"};
constexpr const char* unrecorded_name(Unrecorded which) {
  return kUnrecordedNames[static_cast<std::size_t>(which)];
}

// A process of a rank; or several that have ended, were made on the same call path in the same way
// and executed the same command, when the rank has had more than kMaxProcessRows.
struct Process {
  static constexpr std::uint8_t kExitStatusKnown = 1, kExitSignalKnown = 2, kRuns = 4;  // flags
  std::uint32_t rank = 0;                                                               // index into ranks
  std::uint32_t path = 0;                // the call path of its parent that made it; 0: not known
  std::int32_t pid = 0, parent_pid = 0;  // of several: of the first
  ProcessOrigin origin = ProcessOrigin::kUnknown;
  Unrecorded unrecorded = Unrecorded::kNo;
  std::uint8_t flags = 0;
  std::int32_t exit_status = 0, exit_signal = 0;
  std::uint32_t count = 1;
  std::int64_t start_utc_ns = 0;
  std::uint64_t elapsed_ns = 0;  // of several: from the first start to the last end
  std::uint64_t cpu_ns = 0;      // of several: the sum
  std::uint64_t cpu_min_ns = 0, cpu_max_ns = 0;
  // Of its children that it waited for, recorded or not, as the kernel says.
  std::uint64_t children_cpu_ns = 0;
  // Where its threads spent the most time, other than idle, and how much of it. 0: no sample says so.
  std::uint32_t top_path = 0;
  std::uint64_t top_ns = 0;
  std::string command;  // base/command_text.hpp, without secrets, at most its first KiB
  friend bool operator==(const Process&, const Process&) = default;
};
inline constexpr std::size_t kMaxProcessRows = 1024;  // in a large job fewer

// An event loop of a thread: it waits for events on one descriptor again and again (epoll_wait and the like).
// A turn is the time from the return of one wait to the next; one of kBlockedTurnNs or more is blocked.
struct EventLoop {
  static constexpr std::uint64_t kBlockedTurnNs = 50'000'000;
  static constexpr std::size_t kBins = 8;
  static constexpr std::array<const char*, kBins> kBinNames = {
      "turns_below_100us", "turns_below_1ms", "turns_below_10ms", "turns_below_50ms",
      "turns_below_100ms", "turns_below_1s",  "turns_below_10s",  "turns_longer"};
  std::uint32_t rank = 0;  // index into ranks
  std::uint32_t path = 0;  // where the thread waits for events; 0: no sample says
  std::int32_t pid = 0, tid = 0;
  std::uint8_t main_thread = 0;                       // of its process
  std::uint32_t number = 0;                           // of the thread's loops
  std::int64_t start_utc_ns = 0;                      // of the thread
  std::uint64_t turns = 0, idle_ns = 0, busy_ns = 0;  // idle: in the waits; busy: in the turns
  std::uint64_t blocked = 0, blocked_ns = 0, longest_ns = 0;
  std::int64_t longest_utc_ns = 0;  // when the longest blocked turn began; 0: there is none
  std::array<std::uint64_t, kBins> lengths{};
  std::string thread;  // its name
  friend bool operator==(const EventLoop&, const EventLoop&) = default;
};

// Of a blocked turn, the time on one call path. The turn's parts are together, the largest first, and their
// sum is its length. Only the longest turns of a loop are there.
struct LoopBlock {
  static constexpr std::uint8_t kAwaited = 1,  // flags: something was ready as soon as the turn was over
      kOpen = 2;                               // the turn had not ended
  std::uint32_t rank = 0;                      // index into ranks
  std::uint32_t path = 0;                      // 0: not known
  std::int32_t pid = 0, tid = 0;
  std::uint32_t number = 0;
  std::int64_t start_utc_ns = 0;  // these four as in EventLoop
  std::int64_t begin_utc_ns = 0;
  std::uint64_t turn_ns = 0, wall_ns = 0;  // of the turn; of this part
  std::uint8_t flags = 0;
  friend bool operator==(const LoopBlock&, const LoopBlock&) = default;
};

// Time of asyncio's tasks of one name (empty: of those without a name of their own) on one call path: the
// task's frames are below those of the coroutines and tasks that await it. This time is in `values`, too, on
// the paths of the threads.
struct TaskTime {
  std::uint32_t rank = 0;       // index into ranks
  std::uint32_t path = 0;       // 0: of further ones
  std::uint32_t task_path = 0;  // of the task's outermost coroutine: `path` or above it
  std::uint64_t wall_ns = 0, cpu_ns = 0, samples = 0;
  std::string name;
  friend bool operator==(const TaskTime&, const TaskTime&) = default;
};
inline constexpr std::size_t kMaxTaskRows = 4096;  // of a rank; in a large job fewer

// What a thread is for. kMain: of each process. kHelper: of the MPI library, of what it communicates with, or
// of a device's run time.
enum class ThreadKind : std::uint8_t { kMain = 0, kPython, kOpenMp, kNative, kHelper };
inline constexpr std::size_t kThreadKinds = 5;
inline constexpr std::array<const char*, kThreadKinds> kThreadKindNames = {"main", "python", "openmp",
                                                                           "native", "helper"};
constexpr const char* thread_kind_name(ThreadKind which) {
  return kThreadKindNames[static_cast<std::size_t>(which)];
}

// A recorded thread of a rank; or several that have ended and are alike in kind, path and name (but for
// numbers in it), when the rank has had more than kMaxThreadRows.
struct Thread {
  static constexpr std::uint8_t kRuns = 1;  // flags
  std::uint32_t rank = 0;                   // index into ranks
  std::uint32_t path = 0;                   // the function that it was started with, alone; 0: not known
  std::uint32_t top_path =
      0;  // where it ran or was in file or socket I/O for the most time; 0: no sample says so
  std::uint32_t last_path = 0;    // where it was seen last; 0: never
  std::int32_t pid = 0, tid = 0;  // of several: of the first
  ThreadKind kind = ThreadKind::kNative;
  std::uint8_t flags = 0;
  std::uint32_t count = 1;
  std::int64_t start_utc_ns = 0;
  std::uint64_t elapsed_ns = 0;  // of several: from the first start to the last end
  std::uint64_t cpu_ns = 0;      // of several: the sum
  std::uint64_t cpu_min_ns = 0, cpu_max_ns = 0;
  // Since when it had not moved when it was last looked at: it was blocked and did not wake up, or it ran at
  // instructions as close together as those of an empty loop. And its CPU time since then. Of several: the
  // shortest and the most of those that run.
  std::uint64_t unmoved_ns = 0, unmoved_cpu_ns = 0;
  Category last_category = Category::kNative;  // of last_path
  std::string name;                            // empty: it has none
  friend bool operator==(const Thread&, const Thread&) = default;
};
inline constexpr std::size_t kMaxThreadRows = 256;  // in a large job fewer

// How a span of a thread ends.
enum class SpanEnd : std::uint8_t {
  kEnd = 0,  // so does the thread, or its process
  kCreate,   // it makes another one
  kJoin,     // it has waited for the end of another one
};
inline constexpr std::size_t kSpanEnds = 3;
inline constexpr std::array<const char*, kSpanEnds> kSpanEndNames = {"end", "create", "join"};

// A part of the life of a thread of a rank's main process, until it made or joined another one or ended. The
// spans of a thread follow each other. A rank with more than kMaxThreadSpans has none, nor has one whose main
// process had not ended.
struct ThreadSpan {
  std::uint32_t rank = 0;       // index into ranks
  std::uint32_t thread = 0;     // number among the threads of the process; 0: the main thread
  std::uint32_t number = 0;     // among the thread's spans
  std::uint32_t other = kNone;  // the thread that it made or joined; kNone: not known
  SpanEnd how = SpanEnd::kEnd;
  // On the node's monotonic clock, as events are: when it began, when the thread called what makes or joins
  // the other one, and when that returned.
  std::uint64_t begin_ns = 0, call_ns = 0, end_ns = 0;
  std::uint32_t mpi_thread = kNone;  // the thread's number in mpi_events; kNone: it has none there
  friend bool operator==(const ThreadSpan&, const ThreadSpan&) = default;
};
// What a thread did outside MPI from begin_ns to call_ns of a span, by samples; exclusive, like Value. Only
// the call paths with the most time.
struct SpanTime {
  std::uint32_t rank = 0, thread = 0, number = 0;  // the row of thread_spans that has the same
  std::uint32_t path = 0;
  std::uint64_t wall_ns = 0;
  friend bool operator==(const SpanTime&, const SpanTime&) = default;
};
inline constexpr std::size_t kMaxThreadSpans = 4096;  // in a large job fewer
inline constexpr std::size_t kMaxSpanTimes = 32768;  // of a rank, beyond 8 of each span; in a large job fewer

// A window of recording of a rank that was opened from outside: with --standby nothing was recorded outside
// of these, with --mode light there are MPI events only inside. Since the rank's start; of a rank in order,
// and not overlapping.
struct RecordingWindow {
  std::uint32_t rank = 0;  // index into ranks
  std::uint64_t begin_ns = 0, end_ns = 0;
  friend bool operator==(const RecordingWindow&, const RecordingWindow&) = default;
};

// What the main process of a rank that has failed left behind; only such ranks have a row, at most one.
struct Failure {
  static constexpr std::uint8_t kFault = 1, kStackOverflow = 2, kCalledAbort = 4, kHasStderr = 8,
                                kNoAddress = 16;  // flags
  std::uint32_t rank = 0;                         // index into ranks
  std::uint8_t flags = 0;       // kHasStderr: it has written to descriptor 2, and that was seen and kept
  std::int32_t signal = 0;      // kFault: of the last fault
  std::uint64_t address = 0;    // kFault: that was accessed; kNoAddress: the kernel does not tell
  std::string instruction;      // kFault: "solver+0x11d3", an address in an object file; empty: not known
  std::int32_t abort_code = 0;  // kCalledAbort: of MPI_Abort
  std::string message;          // glibc's before it aborted: of assert(), of a damaged heap
  std::string stderr_tail;      // the last of what it wrote to descriptor 2, without secrets
  friend bool operator==(const Failure&, const Failure&) = default;
};
inline constexpr std::size_t kMaxFailureRows =
    64;  // of a node: the ranks that failed by themselves, and first

// Samples of a rank whose handler took at most le_ns, and more than the next smaller le_ns.
struct HandlerCost {
  std::uint32_t rank = 0;
  std::uint64_t le_ns = 0;
  std::uint64_t count = 0;
  friend bool operator==(const HandlerCost&, const HandlerCost&) = default;
};

struct Drop {
  std::uint32_t rank = 0;
  std::string reason;  // wire::kDropReasonNames or one of the collector's own
  std::uint64_t count = 0;
  friend bool operator==(const Drop&, const Drop&) = default;
};

struct Run {
  std::string id;
  std::vector<std::string> command;
  std::vector<std::string> own;  // absolute paths: the program's directory, and what --own names
  std::int64_t start_utc_ns = 0;
  std::uint32_t world_size = 0;  // ranks that the job was started with; 0: not known
  std::uint32_t rate_hz = 0;
  std::string clock;                  // "wall" or "cpu"
  std::string sample_on;              // samples were taken when this event overflowed; empty: by the clock
  std::string launcher;               // name in formats/wire/launchers.h; empty: none, or not known
  bool only_regions = false;          // --only-regions
  bool standby = false;               // --standby
  bool counters_multiplexed = false;  // the counters took turns: their values are estimates
  std::string version;                // of clusterprof
  std::string mpi_library;            // empty without MPI
  bool complete = false;              // shard: all its ranks have ended; profile: no rank is missing
  std::vector<Note> notes;            // what was not recorded, and why; as unite() leaves them
  friend bool operator==(const Run&, const Run&) = default;
};

// Copied, moved, compared and destroyed in shard_data.cpp only: inline, it would take 3 s more to compile
// every source that does so.
struct ShardData {
  ShardData();
  ShardData(const ShardData&);
  ShardData(ShardData&&) noexcept;
  ShardData& operator=(const ShardData&);
  ShardData& operator=(ShardData&&) noexcept;
  ~ShardData();
  bool operator==(const ShardData&) const;

  Run run;
  std::vector<std::string> strings{std::string()};
  std::vector<Frame> frames;
  std::vector<Path> paths{Path{}};
  std::vector<Node> nodes;
  std::vector<Rank> ranks;
  std::vector<Value> values;
  std::vector<MpiCall> mpi_calls;
  std::vector<CallUnderWay> calls_under_way;     // by rank, then tid
  std::vector<PendingRequest> pending_requests;  // by rank, then tid
  std::vector<CollectiveCount> collective_counts;
  std::vector<MpiError> mpi_errors;         // by rank, then path
  std::vector<OpenRequests> open_requests;  // by rank, then path
  std::vector<Communicator> communicators;
  std::vector<GroupNumber> group_numbers;     // by rank
  std::vector<GroupMessages> group_messages;  // by rank
  std::vector<MatrixCell> matrix;
  std::vector<MpiSize> mpi_sizes;
  std::vector<std::string> counters;
  std::vector<CounterValue> counter_values;
  std::vector<PathCounter> path_counters;
  std::vector<UnavailableCounter> unavailable_counters;
  std::vector<Setting> settings;  // ascending
  std::vector<Drop> drops;
  std::vector<HandlerCost> handler_costs;
  std::vector<Process> processes;        // by rank, then start_utc_ns, then pid
  std::vector<EventLoop> event_loops;    // by rank, pid, tid, start_utc_ns, number
  std::vector<LoopBlock> loop_blocks;    // by the same, then begin_utc_ns, then the largest wall_ns first
  std::vector<TaskTime> task_times;      // by rank, path, task_path, name
  std::vector<Thread> threads;           // by rank, then start_utc_ns, then tid
  std::vector<ThreadSpan> thread_spans;  // by rank, thread, number
  std::vector<SpanTime> span_times;      // by the same, then path
  std::vector<RecordingWindow> recording_windows;  // by rank, then begin_ns
  std::vector<Failure> failures;                   // by rank
  TimeAxis time_axis;
  std::vector<Series> series;
  std::vector<RankSeries> rank_series;  // by rank, series, bin
  std::vector<NodeSeries> node_series;  // by node, series, bin
  TimeAxis
      path_axis;  // of path_series and memory_series; the rules of time_axis hold; bin_ns 0: there are none
  std::vector<PathSeries> path_series;  // by path, bin
  std::vector<IoFile> io_files;
  std::vector<IoCall> io_calls;
  std::vector<DataAccess> data_accesses;
  std::vector<RegionTime> region_times;
  std::vector<MutexWait> mutex_waits;         // by rank, path, holder_path, mutex
  std::vector<OmpRank> omp_ranks;             // by rank
  std::vector<OmpRegion> omp_regions;         // by rank, path, threads, level, main, kind
  std::vector<OmpThread> omp_threads;         // by the same, then number
  std::vector<OmpConstruct> omp_constructs;   // by rank, region_path, threads, level, main, path, kind
  std::vector<MemoryRank> memory_ranks;       // by rank
  std::vector<MemorySite> memory_sites;       // by rank, path, domain
  std::vector<MemorySeries> memory_series;    // by path, bin
  std::vector<MemorySpace> memory_spaces;     // by rank, name
  std::vector<MemoryLabel> memory_labels;     // by rank, space, name
  std::vector<MemoryCopies> memory_copies;    // by rank, to, from
  std::vector<MpiEvent> mpi_events;           // by rank, then thread, then exit_ns
  std::vector<EventGap> event_gaps;           // by event
  std::vector<EventStretch> event_stretches;  // by rank, then shared_begin_ns
  std::vector<ClockOffset> clock_offsets;
  WaitAnalysis wait_analysis;
  std::vector<WaitState> wait_states;
  std::vector<RootCause> root_causes;
  std::vector<CriticalTime> critical_times;
  std::vector<TimeWindow> time_windows;
  std::vector<UnmatchedMessages> unmatched_messages;  // by rank, path, communicator, receiver, tag
};

// Adds strings, frames and call paths to a ShardData without duplicates. Not thread-safe. `data` must outlive
// this, and nobody else may change these three tables.
class PathInterner {
 public:
  explicit PathInterner(ShardData& data);

  StringIndex string(std::string_view text);
  std::uint32_t frame(const Frame& frame);
  // The child of `parent` (an index into paths) with this frame.
  std::uint32_t path(std::uint32_t parent, std::uint32_t frame);

 private:
  struct FrameHash {
    std::size_t operator()(const Frame& frame) const noexcept;
  };
  struct ChildHash {
    std::size_t operator()(std::uint64_t key) const noexcept;
  };
  ShardData& data_;
  std::unordered_map<std::string, StringIndex> strings_;
  std::unordered_map<Frame, std::uint32_t, FrameHash> frames_;
  std::unordered_map<std::uint64_t, std::uint32_t, ChildHash> children_;  // parent << 32 | frame
};

// XXH3-128 of the parent's id and the frame's content (kind, inlined, name, file, the module's base name,
// line, function line; strings with their lengths). The same call path has the same id on all nodes.
PathId path_id(const PathId& parent, const Frame& frame, const std::vector<std::string>& strings);

}  // namespace clusterprof::shard
