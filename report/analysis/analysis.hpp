// SPDX-License-Identifier: BSD-3-Clause
// The numbers of a report. Definitions, formulas and errors: docs/metrics.md.
//
// Times are seconds. An empty optional is "not measured" (null in JSON), never 0. Names are as
// the profile has them: renderers must make them safe to print.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/profile/gains.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/failure.hpp"
#include "report/analysis/finding.hpp"
#include "report/analysis/hang.hpp"

namespace clusterprof::report {

using Seconds = std::optional<double>;
using CategorySeconds = std::array<double, shard::kCategories>;
using OptionalCategorySeconds = std::array<Seconds, shard::kCategories>;
using ActivitySeconds = std::array<double, kActivities>;
using OptionalActivitySeconds = std::array<Seconds, kActivities>;

// Thresholds of findings, as shares (0..1) of all ranks' elapsed time unless said otherwise.
namespace thresholds {
inline constexpr double kImbalance = 0.05;  // (max - mean useful) / run elapsed
inline constexpr double kMpi = 0.15;        // time in MPI
inline constexpr double kIo = 0.10;         // in file and socket calls; of a rank's own time: in one call
inline constexpr double kSmallIo = 0.05;    // in reads or writes of less than kSmallIoBytes on average
inline constexpr double kSmallIoBytes = 4096;
inline constexpr std::uint64_t kManyCalls = 100;  // as few reads or writes are no pattern
inline constexpr double kMemory = 0.10;           // computing on more data than the largest cache holds
inline constexpr double kPageFaults = 0.05;       // in page faults and calls that map and unmap memory
inline constexpr double kIdle = 0.10;             // blocked otherwise
inline constexpr double kInput = 0.10;            // main threads that wait for data of their own workers
inline constexpr double kWorkersBusy = 0.60;      // of their time; less busy workers are not the bottleneck
// Computing near the wait, of the wait; with less, results are only collected.
inline constexpr double kConsumed = 0.05;
inline constexpr double kSystem = 0.10;  // in other system calls
inline constexpr double kPython = 0.30;  // running bytecode
// Imports: from kImports of the ranks' time on, but only where a rank spends as much as kImports_s on them,
// since every Python program spends a second or two. From kMostlyImports on programs as short as that, too.
inline constexpr double kImports = 0.10, kImports_s = 5;
inline constexpr double kMostlyImports = 0.50, kMostlyImports_s = 1;
inline constexpr double kGarbage = 0.10;        // in Python's garbage collection
inline constexpr double kGil = 0.10;            // waiting for the GIL; of the time of all threads
inline constexpr double kMostlyPython = 0.50;   // severity "medium" for kPython from here, else "low"
inline constexpr double kBlame = 0.50;          // part of an excess a line must hold to be named
inline constexpr double kHigh = 0.25;           // severity "high" from here
inline constexpr double kMedium = 0.10;         // "medium" from here, "low" below
inline constexpr double kBottleneck = 0.05;     // smallest share listed for the run
inline constexpr double kDropped = 0.01;        // of the samples
inline constexpr double kRecordingCost = 0.10;  // of the ranks' CPU time
inline constexpr double kRecordingCost_s = 0.1;
inline constexpr double kMinLost = 10;        // fewer are chance, whatever their share
inline constexpr double kTruncated = 0.10;    // of the samples
inline constexpr double kMergeFailed = 0.01;  // of the merges tried
inline constexpr double kDelay = 0.02;        // waiting that goes back to one rank in one function
// How much less time than the others a rank has in a collective operation that is only sampled before it is
// said to be late; in standard deviations of the sampling error. By chance alone, the least of a million
// equal ranks lies 5 below the mean.
inline constexpr double kSamplingErrors = 6;
inline constexpr double kExplained = 0.50;  // part of a loss the delays must hold to explain it
inline constexpr double kNetwork = 0.10;    // lost to serialization or transfer; of the run's elapsed time
inline constexpr double kUnmatched = 0.05;  // of the messages, or of the collective operations
inline constexpr double kGain = 0.001;      // smallest gain shown; of the run's elapsed time
// Nobody would notice that a run of a second which failed has become faster by less than this.
inline constexpr double kFailedAtOnce_s = 1, kNoticed_s = 0.1;
// A main thread that runs for less than this part of the time in which it waits for its child processes has
// no other task than to start them.
inline constexpr double kOnlyStarts = 0.10;
inline constexpr double kClockError_s = 50e-6;
// When a function is limited by memory: with hardware counters either of
inline constexpr double kMemoryBandwidth = 4e9;  // bytes per second of its CPU time
inline constexpr double kMissesPerKilo = 10;     // misses of the last cache per 1000 instructions
// and without, as far as the estimate of its data is certain and
inline constexpr double kMemoryOperands = 0.20;    // of its samples are at an access to memory
inline constexpr std::uint64_t kMinAccesses = 20;  // are known
// Processors that are shared.
inline constexpr double kBusy = 0.90;  // of the time of the processors that a group of ranks may use
inline constexpr double kWaitingForProcessor = 0.05;  // ready without a processor, in MPI or not
inline constexpr double kSwitchedOut_per_s = 20;      // involuntary context switches of a rank
inline constexpr double kMemoryFull = 0.90;           // of a node's memory
inline constexpr double kMajorFaults_per_s = 10;      // of a rank
// An event loop that was blocked while others waited for it: part of the loop's time, and in all. Less is no
// more than one slow answer.
inline constexpr double kLoopBlocked = 0.05, kLoopBlocked_s = 0.5;
// OpenMP: what threads lose, each for itself.
inline constexpr double kOpenMpLoss = 0.05;
inline constexpr double kOpenMpUsed = 0.10;  // in regions; with less, OpenMP does not matter
// A region is too small if it is shorter than this and its threads wait, or begin late, for longer than they
// work: starting a team and waiting for it takes microseconds, and more with more threads.
inline constexpr double kSmallRegion_s = 100e-6;
// Threads of one team whose work rises with their numbers: the last has so many times the first one's.
inline constexpr double kRisingWork = 1.3;
// A loop with fewer chunks per thread than this cannot balance their work.
inline constexpr double kFewChunks = 4;
// And with so many it can. The size of chunks that would make as many is said where iterations are known.
inline constexpr double kGoodChunks = 16;
// Memory that ranks hold, with --memory.
inline constexpr double kHeldBytes = 64u << 20;  // less is no matter
inline constexpr double kHeldImbalance = 0.30;   // (max - mean peak) / max
inline constexpr double kHeldGrowth = 0.10;      // of what ranks hold in the end, from the second half
inline constexpr double kFullWithin = 4;         // times as long as the run lasted
inline constexpr double kUnusedRequest = 0.50;   // of what the job asked for, used on no node
inline constexpr double kUnusedRequest_bytes = 1u << 30;
inline constexpr double kOfAllocator = 0.40;  // of anonymous memory, on average
inline constexpr double kOfAllocator_bytes = 256u << 20;
inline constexpr double kPythonNumbers = 0.10;  // of what ranks held at their peaks
// Of a float and the pointer to it in a list, up to an int of two digits with a pointer and a half.
inline constexpr double kNumberBytes = 20, kMostNumberBytes = 44;
inline constexpr double kChurn = 0.25;                  // of what was freed soon
inline constexpr double kChurnBlock_bytes = 32u << 10;  // smaller blocks cause no page faults
inline constexpr double kHotRegion = 0.05;              // share from which a region gets a verdict
inline constexpr std::size_t kMaxHotRegions = 16;
inline constexpr std::size_t kMaxDelays = 3;
inline constexpr std::size_t kMaxPassedOn = 2;
inline constexpr std::size_t kMaxFindings = 8;
inline constexpr double kCallTree = 0.002;  // of the time of the call tree: rows with less are left out
inline constexpr std::size_t kMaxCallTree = 1024;
inline constexpr std::size_t kMaxTasks = 1000;  // of the whole run: those with less time are left out
}  // namespace thresholds

inline constexpr std::size_t kMaxMissingListed = 65536;

// Causes and call sites named in one row of Analysis::waits; the others are summed up in its last entry.
inline constexpr std::size_t kMaxWaitParts = 16;

// What limits the program at an instant. MPI is later divided into imbalance and communication.
enum class Limit : std::uint8_t { kCompute = 0, kMemory, kIo, kPython, kIdle, kMpi, kRunnable };
inline constexpr std::size_t kLimits = 7;

// Seconds by what limited them. They do not overlap.
struct Limits {
  std::array<double, kLimits> time_s{};
  double kernel_s = 0;                        // of compute: system calls
  double page_fault_s = 0, mapping_s = 0;     // of memory; the rest of it: data that no cache holds
  std::array<double, kOffCpuKinds> idle_s{};  // of idle
  // Of a main thread's idle and io: while processes, or threads of its own, that it waited for worked; and
  // this time by what limited them.
  std::array<double, kOffCpuKinds> relayed_idle_s{};
  double relayed_io_s = 0;
  std::array<double, kLimits> workers_s{};
  double threads_s = 0;  // of workers_s: by threads
  // Of the rest of idle and io, and of what was relayed: while it waited in calls that take data which
  // threads or processes make. It is a class of the verdict where these are slow (FindingKind::kInputBound):
  // find_bottlenecks() sets it to 0 for other ranks, and adds it up for the run.
  std::array<double, kOffCpuKinds> input_idle_s{};
  double input_io_s = 0, input_relayed_s = 0;
  std::uint32_t input_path = 0;                    // of a rank: ShardData's path with most of it; 0 none
  std::array<std::uint32_t, kLimits> most_path{};  // ShardData's path of the place with most; 0 none
  std::array<double, kLimits> most_s{};
};

// A quantity computed from counts. docs/metrics.md, "Derived metrics".
struct Derived {
  const char* name;
  double value;
  const char* unit;
  const char* formula;
};

using CounterAmounts = std::vector<std::pair<std::uint32_t, std::uint64_t>>;  // index into Analysis::counters

// Distribution of a quantity over all ranks of the profile; a rank without it counts as 0.
struct RankSpread {
  double min_s = 0, mean_s = 0, max_s = 0;
  std::int32_t max_rank = -1;  // lowest rank that has the maximum; -1 without ranks
};

// How many nodes or ranges of ranks a note names; the others are only counted.
inline constexpr std::size_t kMaxNoteParts = 64;

// A fact about the recording with all the nodes or ranks that it is true of; shard::kNoteKinds says which
// fields it has. words/notes.hpp makes a sentence of it.
struct NoteRecord {
  shard::NoteCode code = shard::NoteCode::kMissingRanks;
  std::uint64_t number = 0;
  std::string text, detail;
  std::vector<std::string> nodes;  // the first kMaxNoteParts
  std::uint64_t node_count = 0;
  std::vector<shard::RankRange> ranks;  // the first kMaxNoteParts, ascending
  std::uint64_t rank_count = 0;
};

// The reason for timer ticks that were left out; the samples that were taken stand for their time.
inline constexpr std::string_view kThrottled = "throttled";

// A command and the ranks that ran it.
struct CommandRow {
  std::vector<std::string> words;
  std::vector<std::int32_t> ranks;  // ascending
};

// What is known of the end of a run or of what a node recorded of it. kLost: its collector ended without
// writing its last shard, or has written nothing for much longer than it should.
enum class RunState : std::uint8_t { kEnded, kRunning, kLost };
inline constexpr std::array<const char*, 3> kRunStateNames{"ended", "running", "lost"};
constexpr const char* name_of(RunState state) { return kRunStateNames[static_cast<std::size_t>(state)]; }

// A time in which ranks were recorded, or recorded in full, because somebody asked for it from outside.
struct RecordingWindow {
  double begin_s = 0, end_s = 0;  // since the first rank's start
  std::size_t ranks = 0;          // how many
};

struct RunInfo {
  std::string id;
  std::vector<std::string> command;  // of the lowest rank
  // Of all ranks whose command is known, by the lowest rank of each; several in an MPMD job.
  std::vector<CommandRow> commands;
  std::int64_t start_utc_ns = 0;  // 0 unknown
  double elapsed_s = 0;  // first start to last end over all ranks; with --standby, what of it was recorded
  double lasted_s = 0;   // first start to last end
  std::size_t nodes = 0, ranks = 0;
  std::size_t spawned_ranks = 0;  // of ranks: those of worlds that MPI_Comm_spawn made
  std::uint32_t world_size = 0;   // 0 unknown
  std::uint32_t rate_hz = 0;
  std::string clock;
  std::string region;          // all is of this region alone; empty: of the run
  std::string launcher;        // that has given the ranks; empty: none, or not known
  std::uint32_t restarts = 0;  // the most often that it has started a rank again
  std::string sample_on;       // the event at whose overflows samples were taken; empty: the clock
  bool only_regions = false;
  bool standby = false;  // nothing was recorded outside of the windows
  std::vector<RecordingWindow> windows;
  // Nobody has started recording yet.
  [[nodiscard]] bool was_never_recorded() const { return standby && windows.empty(); }
  [[nodiscard]] double windows_s() const {
    double sum_s = 0;
    for (const RecordingWindow& window : windows) sum_s += window.end_s - window.begin_s;
    return sum_s;
  }
  std::string version;
  std::string mpi_library;
  std::uint64_t samples = 0;
  std::map<std::string, std::uint64_t> dropped;  // by reason, only what is above 0
  bool complete = false;
  RunState state = RunState::kEnded;  // by find_run_state(), like the next one
  Seconds as_of_s;                    // of a run that is running: how old the oldest data of a node are
  std::int64_t snapshot_utc_ns = 0;   // of a snapshot of a run that was running: as of when; 0: it is none
  std::size_t missing = 0;            // ranks below world_size that are not in the profile
  std::vector<std::int32_t> missing_ranks;  // the first kMaxMissingListed of them
  std::vector<NoteRecord> notes;
  std::vector<shard::Setting> settings;  // ascending
  // Of the repository that the program is in; empty: not known.
  [[nodiscard]] std::string commit() const {
    const bool known = !settings.empty() && settings.front().kind == shard::SettingKind::kCommit;
    return known ? settings.front().value : std::string();
  }
};

struct NodeInfo {
  std::string name;
  std::vector<std::int32_t> ranks;
  double elapsed_s = 0, cpu_s = 0, collector_cpu_s = 0;
  std::uint64_t collector_max_rss_bytes = 0;
  std::uint32_t cpus = 0, numa_nodes = 0;           // 0 unknown, like the next two
  std::uint64_t memory_bytes = 0, cache_bytes = 0;  // cache: one instance of the largest
  std::string cpu_model;
  std::optional<double> busy;                      // share of all processors' time
  std::optional<std::uint64_t> memory_used_bytes;  // the most
  std::optional<std::uint64_t> received_bytes, sent_bytes, disk_read_bytes, disk_written_bytes;
  // As shard::Node has them; find_run_state() sets `state` and how old the data are, unless it has ended.
  std::int64_t as_of_utc_ns = 0;
  std::uint64_t next_within_ns = 0;
  std::string collector;
  RunState state = RunState::kEnded;
  Seconds as_of_s;
  shard::GroupMemory group;                  // limit_bytes 0: the job has none
  std::uint64_t requested_memory_bytes = 0;  // 0 unknown
};

struct RankInfo {
  std::int32_t rank = 0;
  std::uint32_t node = 0;  // index into Analysis::nodes
  std::int32_t pid = 0;
  std::uint32_t command = shard::kNone;  // index into RunInfo::commands; kNone: not known
  double elapsed_s = 0, paused_s = 0;    // with --standby, only of the windows of recording
  double recorded_s = 0;                 // elapsed without paused: what shares are of
  Seconds cpu_s, user_s, kernel_s;
  std::uint64_t samples = 0;
  std::uint32_t threads = 0, processes = 0;
  OptionalCategorySeconds category_s;  // of the main thread, by shard::Category
  OptionalActivitySeconds activity_s;  // of all threads, by Activity
  Seconds useful_s, mpi_wait_s, mpi_transfer_s;
  Seconds mpi_runnable_s;                // of the time in MPI: ready, without a processor
  Seconds startup_s;                     // of the time in MPI: MPI_Init, MPI_Finalize and those of sessions
  Seconds mpi_io_s;                      // of the time in MPI: calls that work on files
  std::uint32_t mpi_helper_threads = 0;  // threads other than the main one that have called MPI
  Seconds mpi_helper_elapsed_s, mpi_helper_s;  // their lives, and of that inside MPI; sums
  // As useful_s, but the mean over the threads that call MPI, weighted by how long they lived; empty: only
  // the main thread did.
  Seconds threads_useful_s;
  std::optional<std::uint64_t> max_rss_bytes, read_bytes, write_bytes;
  std::optional<std::uint64_t> minor_faults, major_faults, voluntary_switches, involuntary_switches;
  std::string affinity, numa;  // lists of processors and memory nodes; empty: not known
  Limits limits;               // of the main thread
  std::vector<Derived> derived;
  std::optional<std::int32_t> exit_status, exit_signal;
  bool lost = false;
  bool still_ran = false;  // when its shard was written; lost, too, unless the run is still running
  // Where the main thread of a failed rank was last seen, the outermost frame first.
  std::vector<SourceLocation> last_call_path;
  SourceLocation last_seen;   // its place: the innermost line of the user's, or what is known instead
  bool spawned = false;       // by MPI_Comm_spawn
  std::uint32_t restart = 0;  // how often its launcher had started it before
  double end_s = 0;           // since the first rank's start
  std::uint64_t unsampled_threads = 0;  // that ended before their first sample
  double unsampled_cpu_s = 0;           // of those threads
  double handler_s = 0;
};

struct Efficiency {  // shares; above 1 by measuring error only
  std::optional<double> parallel, load_balance, communication, serialization, transfer;
};

struct FunctionRow {
  std::uint32_t id = 0;  // CallPaths::function
  std::string name, file, module;
  std::uint32_t line = 0;  // where it starts; 0 unknown
  shard::FrameKind kind = shard::FrameKind::kNative;
  double self_s = 0, total_s = 0;
  double cpu_s = 0;              // of self_s, on a processor
  RankSpread spread;             // of total_s
  CategorySeconds category_s{};  // parts of self_s
  ActivitySeconds activity_s{};  // the same, finer
  // The same without the time in which helper threads were idle (Analysis::helper_idle_s).
  double active_self_s = 0, active_total_s = 0;
  double main_self_s = 0, main_total_s = 0;  // of the ranks' main threads alone
  RankSpread active_spread;
  CounterAmounts counters;           // of self
  Seconds working_set_bytes;         // an estimate, of the rank with most; empty: not known
  bool working_set_is_more = false;  // too much to be told: at least that
};

struct LineRow {
  std::uint32_t id = 0;  // CallPaths::line
  std::string file, function;
  std::uint32_t line = 0;
  double self_s = 0, total_s = 0;
  double cpu_s = 0;              // of self_s, on a processor
  double called_s = 0;           // of self_s, in functions that it calls: in libraries, MPI, the kernel
  double approximate_s = 0;      // of self_s, at this line or behind it: shard::Frame::line_approximate
  CategorySeconds category_s{};  // parts of self_s
  ActivitySeconds activity_s{};  // the same, finer
  ActivitySeconds active_activity_s{};  // parts of active_self_s
  double active_self_s = 0, active_total_s = 0;
  double main_self_s = 0, main_total_s = 0;  // of the ranks' main threads alone
  RankSpread active_spread;                  // of active_self_s
  CounterAmounts counters;                   // of self

  // Most of its time may be of lines behind it.
  [[nodiscard]] bool is_approximate() const { return 2 * approximate_s > self_s; }
};

// Marks a row of the call tree that stands for library code which calls library code: for a whole call of the
// library function that the row is named after, or for the import of a package.
enum class Fold : std::uint8_t { kNone = 0, kCalls, kImport };

// A function with its callers, from the outermost on: all call paths through the same functions are one row.
// Code of the interpreter, the C library and MPI between other functions is left out; its time counts for its
// caller.
struct CallTreeRow {
  std::uint32_t parent = shard::kNone;  // row of the caller; kNone: there is none
  Fold fold = Fold::kNone;
  std::string name, file, module;
  std::uint32_t line = 0;  // where it starts; 0 unknown
  shard::FrameKind kind = shard::FrameKind::kNative;
  double self_s = 0, total_s = 0;  // without the time in which helper threads were idle
  double main_total_s = 0;         // of the ranks' main threads alone
  CategorySeconds category_s{};    // parts of total_s
};

// A function whose data fits in no cache, with the ranks where that is so.
struct MemoryRow {
  std::uint32_t path = 0;  // ShardData's path of the place with most of the time
  double time_s = 0;       // of main threads
  // The evidence, of the rank with most of the time.
  std::int32_t rank = -1;
  double rank_time_s = 0;
  bool by_counters = false;
  double bandwidth = 0, misses_per_kilo = 0;  // by counters; bytes per second; 0 not known
  double working_set_bytes = 0;               // else
  bool working_set_is_more = false;
  std::uint64_t accesses = 0, cache_bytes = 0;
};

// Memory that one line has allocated in one domain, all ranks together. With --memory; docs/metrics.md, "Who
// holds memory".
struct MemoryLine {
  std::string file, function;  // empty: not known
  std::uint32_t line = 0;
  shard::FrameKind kind = shard::FrameKind::kNative;
  std::string called;  // as Place::called, of most of what it allocated
  shard::MemoryDomain domain = shard::MemoryDomain::kNative;  // not kFile: that is in kMapping
  std::uint64_t alloc_bytes = 0, alloc_count = 0;
  double error_bytes = 0;                        // standard error of alloc_bytes
  std::uint64_t soon_bytes = 0, soon_count = 0;  // of them: freed soon
  std::uint64_t copy_bytes = 0, copy_count = 0;
  std::uint64_t live_end_bytes = 0;
  std::uint64_t rank_peak_bytes = 0, node_peak_bytes = 0;  // held at the peaks of ranks and of nodes
  std::uint64_t file_bytes = 0;  // of mapped files, in the end; in none of the above
  std::int32_t max_rank = -1;    // most of rank_peak_bytes; of it:
  std::uint64_t max_rank_bytes = 0;
  bool leak = false;
  double leak_confidence = 0;     // 0 to 1
  double growth_bytes_per_s = 0;  // of a leak, of all ranks together
};

// What one line of one rank held.
struct HeldPart {
  std::uint32_t line = 0;  // index into HeldMemory::lines
  std::int32_t rank = -1;
  std::uint64_t bytes = 0;
};

struct HeldRank {
  std::int32_t rank = -1;
  std::uint32_t node = 0;  // index into Analysis::nodes
  std::uint64_t peak_bytes = 0, live_end_bytes = 0;
  Seconds peak_at_s;                  // since the run's start
  std::uint64_t untracked_bytes = 0;  // allocated, but not known how long it lived
  std::uint64_t static_bytes = 0;     // data of object files, which nobody allocates
  // Anonymous memory in RAM, and what lived then; empty: not looked at. So are the next ones.
  std::optional<std::uint64_t> max_anon_bytes, live_at_max_anon_bytes, mean_anon_bytes, mean_live_bytes;
  std::optional<std::uint64_t> pss_bytes, private_dirty_bytes, huge_bytes, swap_bytes, near_bytes, far_bytes;
};

struct HeldNode {
  std::uint32_t node = 0;  // index into Analysis::nodes
  std::uint64_t peak_bytes = 0;
  Seconds peak_at_s;                         // since the run's start
  std::vector<HeldPart> held;                // at the peak, the largest first; at most kMaxHeldParts
  double growth_bytes_per_s = 0;             // of its leaks
  std::uint32_t growth_line = shard::kNone;  // the one that grows most
};
inline constexpr std::size_t kMaxHeldParts = 64;

// A function with its callers, as in CallTreeRow.
struct MemoryTreeRow {
  std::uint32_t parent = shard::kNone;
  Fold fold = Fold::kNone;
  std::string name, file, module;
  std::uint32_t line = 0;
  shard::FrameKind kind = shard::FrameKind::kNative;
  // With what it calls: allocated, live at the end, held at the peaks of ranks, of nodes.
  std::uint64_t alloc_bytes = 0, live_end_bytes = 0, rank_peak_bytes = 0, node_peak_bytes = 0;
};

// What lines held over time, all ranks together.
struct HeldOverTime {
  double bin_s = 0, begin_s = 0;  // begin: of the first bin, since the run's start
  std::size_t bins = 0;
  struct Row {
    std::uint32_t line = 0;             // index into HeldMemory::lines, of one of its domains
    std::vector<std::uint64_t> values;  // mean bytes by bin; trailing 0 are left out
  };
  std::vector<Row> rows;  // the largest first
};

struct HeldMemory {
  std::uint64_t interval_bytes = 0;  // of sampling; the largest of all ranks
  std::vector<HeldRank> ranks;       // by rank
  std::vector<HeldNode> nodes;       // those with a peak
  std::vector<MemoryLine> lines;     // by node_peak_bytes, then rank_peak_bytes, live_end_bytes, alloc_bytes
  std::vector<MemoryTreeRow> tree;   // callers before what they call, then the largest first
  HeldOverTime over_time;
};

// Memory that the program names by space and label, as Kokkos does with its views. docs/metrics.md, "Memory
// by label".
struct MemoryLabelRow {
  std::string name;  // empty: it has none
  std::size_t ranks = 0;
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0, live_end_bytes = 0;  // of all ranks
  std::uint64_t peak_bytes = 0;        // the most that a rank held at one time
  std::uint64_t space_peak_bytes = 0;  // held when the space of the rank held the most, summed over ranks
  std::int32_t max_rank = -1;          // most of space_peak_bytes; of it:
  std::uint64_t max_rank_bytes = 0;
};
struct MemorySpaceRank {
  std::int32_t rank = -1;
  std::uint64_t peak_bytes = 0;
  double peak_at_s = 0;  // since the run's start
};
struct MemorySpaceRow {
  std::string name;
  std::uint64_t processes = 0;
  std::uint64_t allocations = 0, frees = 0, alloc_bytes = 0, live_end_bytes = 0;  // of all ranks
  std::uint64_t unknown_frees = 0, unknown_bytes = 0;  // freed, but not seen to be allocated
  std::uint64_t peaks_bytes = 0;                       // sum of the ranks' peaks
  std::uint32_t node = shard::kNone;  // index into Analysis::nodes: where that sum is the largest; of it:
  std::uint64_t node_peaks_bytes = 0;
  std::size_t rank_count = 0;          // that held anything
  std::vector<MemorySpaceRank> ranks;  // by peak_bytes, largest first; at most kMaxSpaceRanks
  std::vector<MemoryLabelRow> labels;  // by space_peak_bytes, largest first; at most kMaxMemoryLabels
};
struct MemoryCopiesRow {
  std::string to, from;  // spaces
  std::uint64_t count = 0, bytes = 0;
  std::int32_t max_rank = -1;  // most of the bytes; of them:
  std::uint64_t max_rank_bytes = 0;
};
struct LabelledMemory {
  std::vector<MemorySpaceRow> spaces;   // by peaks_bytes, largest first
  std::vector<MemoryCopiesRow> copies;  // by bytes, largest first
};
inline constexpr std::size_t kMaxSpaceRanks = 64, kMaxMemoryLabels = 2048;

struct IoFileRow {
  std::string path, file_system;  // empty: not known, or all that were too many
  std::size_t ranks = 0;
  std::uint64_t opens = 0, reads = 0, writes = 0, read_bytes = 0, written_bytes = 0;
  std::uint64_t meta_calls = 0;  // opens too
  double read_s = 0, write_s = 0, sync_s = 0, meta_s = 0;
};

// Sums over files: those of a directory, or of names that differ in their digits alone.
struct IoGroupRow {
  std::string path;  // of the directory, or with * for each run of digits
  std::string file_system;
  std::size_t files = 0;
  std::uint64_t opens = 0, reads = 0, writes = 0, read_bytes = 0, written_bytes = 0, meta_calls = 0;
  double read_s = 0, write_s = 0, sync_s = 0, meta_s = 0;
};

struct IoCallRow {
  shard::IoOperation operation = shard::IoOperation::kOpen;
  std::string path;            // of the data
  std::string file, function;  // of the caller; empty: not known
  std::string mpi;             // the MPI function that it was made in; empty: none
  std::string called;          // as Place::called
  shard::FrameKind kind = shard::FrameKind::kNative;
  std::uint32_t line = 0;
  bool of_kernel = false;      // on one of its own file systems
  bool in_background = false;  // that, or in MPI_Init or MPI_Finalize
  std::uint64_t count = 0, failed = 0, bytes = 0;
  double time_s = 0, max_s = 0;    // max: the longest call
  std::int32_t longest_rank = -1;  // which made it
  std::int32_t max_rank = -1;      // most of time_s; of it:
  double rank_time_s = 0;
  std::uint64_t rank_count = 0;
};

struct FileSystemRow {
  std::string name;  // empty: not known
  bool of_kernel = false;
  std::uint64_t calls = 0, read_bytes = 0, written_bytes = 0;
  double read_s = 0, write_s = 0, sync_s = 0, meta_s = 0;
};

// File operations that are known only by file: there was no room for their callers, or these were not known.
struct IoIncomplete {
  std::uint64_t operations = 0, bytes = 0;
  double time_s = 0;
};

// All tables by time, largest first. Behind the rest come rows that the program did not ask for itself: files
// of the kernel's own file systems, and MPI's file operations when it starts and ends.
struct FileIo {
  std::vector<IoFileRow> files;
  std::vector<IoCallRow> calls;
  std::vector<FileSystemRow> file_systems;
  std::vector<IoGroupRow> directories, patterns;  // of files outside the kernel's own file systems
  IoIncomplete by_file_only;
};

// Blocked time at one line.
struct OffCpuRow {
  OffCpu kind = OffCpu::kOther;
  std::string file, function;  // empty: not known
  std::string called;          // as Place::called
  shard::FrameKind frame_kind = shard::FrameKind::kNative;
  std::uint32_t line = 0;
  double time_s = 0, main_thread_s = 0;
  std::int32_t max_rank = -1;  // most of time_s
};

struct TimelineRow {
  std::int32_t rank = -1;                                                    // or
  std::uint32_t node = 0;                                                    // index into Analysis::nodes
  std::vector<std::pair<std::uint32_t, std::vector<std::uint64_t>>> values;  // by Timeline::series
};

struct Timeline {
  double bin_s = 0, begin_s = 0;  // begin: of the first bin, since the run's start
  std::size_t bins = 0;
  std::vector<std::string> series;
  std::vector<TimelineRow> ranks, nodes;  // trailing bins that are 0 are left out
};

// With what is in regions inside it.
struct RegionMemory {
  std::uint64_t alloc_bytes = 0, live_end_bytes = 0, rank_peak_bytes = 0, node_peak_bytes = 0, copy_bytes = 0;
};

// Of OpenMP's threads. docs/metrics.md, "OpenMP".
struct OpenMpEfficiency {  // shares
  std::optional<double> parallel, load_balance, scheduling, serialization;
};

struct RegionRow {
  std::vector<std::string> names;  // outermost first
  std::string domain;              // who names it: "NVTX", "NCCL"; empty: the program, by clusterprof.h
  bool is_of_library = false;      // the domain is a library's own, not the user's
  // Of a backward operator of PyTorch: the line that called its forward one; else empty.
  std::string forward_file;
  std::uint32_t forward_line = 0;
  std::uint64_t count = 0;  // instances that ended; of these the next four
  Seconds time_s, min_s, max_s;
  std::optional<std::int64_t> max_n;
  RankSpread spread;                // of time_s
  double sampled_s = 0, share = 0;  // share: of all ranks' recorded time
  CategorySeconds category_s{};     // parts of sampled_s
  Efficiency efficiency;
  Seconds mean_useful_s, max_useful_s, longest_s;  // over the ranks that were in it; longest: with MPI
  Seconds focus_s;  // longest_s without the MPI_Init and MPI_Finalize that every rank was in there
  std::optional<std::int32_t> slowest_rank;
  Limits limits;
  CounterAmounts counters, counters_outside_mpi;
  std::vector<Derived> derived;
  std::string bottleneck;              // the class with the largest share; empty: nothing is known
  std::optional<RegionMemory> memory;  // with --memory: of what was allocated in the region
  // Of the threads of OpenMP teams, also of those that have nothing to do while one works; all empty: there
  // were none. The product of its parallel one and that of MPI, if there is one.
  OpenMpEfficiency openmp;
  std::optional<double> hybrid_parallel;
};

struct MpiCallRow {
  std::string op;
  std::string file, function;  // of the caller; empty unknown
  std::uint32_t line = 0;
  std::uint64_t count = 0, sent_bytes = 0, recv_bytes = 0;  // of calls that returned
  std::uint64_t unfinished = 0;  // calls under way; in time_s up to the last look at them
  double time_s = 0;
  Seconds wait_s;      // of it, of the ranks that know it; empty also where waiting is not looked for
  Seconds transfer_s;  // the rest; empty also where a rank does not know it
  RankSpread spread;   // of time_s
};

// A rank that a call waits for; both empty: not known.
struct PendingPeer {
  std::optional<std::int32_t> rank;
  bool any = false;  // whoever sends
};
// One of the requests that a call waits for.
struct PendingRow {
  shard::PendingKind kind = shard::PendingKind::kSend;
  PendingPeer peer;
};

// An MPI call that a thread was in at the last look at it.
struct CallUnderWayRow {
  SourceLocation place;
  std::int32_t rank = -1, tid = 0;
  bool main_thread = true;
  bool ended = false;                     // its process did, inside the call
  double age_s = 0;                       // at the last look
  std::string communicator;               // its name; empty: not known
  std::uint32_t communicator_size = 0;    // 0: not known
  std::optional<std::uint32_t> sequence;  // number of the collective operation on the communicator
  PendingPeer peer;
  std::optional<std::int32_t> tag, root;
  bool any_tag = false;
  std::uint32_t requests = 0;           // that were not complete when it began
  std::vector<PendingRow> pending;      // the first of these
  std::vector<std::int32_t> waits_for;  // ranks, the first ones
  std::uint64_t waits_for_count = 0;    // of all
  std::uint32_t call_path = 0;          // index into Analysis::call_paths_under_way
};

// Calls of one line that have returned an error of one class to one rank, about messages with one other side
// and tag.
struct MpiErrorRow {
  SourceLocation place;
  std::int32_t rank = -1;
  std::string name;              // of the class, "MPI_ERR_TRUNCATE"; empty: it is the program's own
  std::int32_t error_class = 0;  // as the MPI library numbers them
  std::string text;              // the MPI library's
  PendingPeer peer;
  std::optional<std::int32_t> tag;
  bool any_tag = false;
  std::string communicator;              // its name; empty: not known
  std::optional<std::uint64_t> message;  // which of the messages of this sender, communicator and tag; from 1
  std::uint64_t count = 0;
  double first_s = 0;  // when the first of these calls began, since the start of the run
};

// Requests that one line had started on one rank and that were not complete at MPI_Finalize.
struct OpenRequestRow {
  SourceLocation place;  // without op: of all that found no room
  std::int32_t rank = -1;
  std::optional<shard::PendingKind> kind;  // empty: none of these
  PendingPeer peer;
  std::optional<std::int32_t> tag;
  bool any_tag = false;
  std::string communicator;
  std::uint64_t count = 0;
};

// Messages that nobody has received.
struct UnmatchedRow {
  SourceLocation place;  // of the sends
  std::int32_t rank = -1, receiver = -1, tag = 0;
  std::string communicator;
  std::uint64_t count = 0;
};

// Bytes that a collective operation moved. The communication matrix leaves them out because the operation
// addresses no single rank.
struct CollectiveRow {
  std::string op;
  std::uint64_t count = 0;  // calls of all ranks
  std::size_t ranks = 0, communicators = 0;
  std::uint64_t sent_bytes = 0, recv_bytes = 0;  // as the calls say: what they are given, and what they give
  std::uint64_t bytes = 0;                       // the larger of the two
};

struct MpiSizeRow {
  std::string op;
  std::uint64_t le_bytes = 0, count = 0;
};

struct NodeCell {  // of the communication matrix, by indices into Analysis::nodes; empty: rank not in the
                   // profile
  std::optional<std::uint32_t> source, destination;
  std::uint64_t messages = 0, bytes = 0;
};

// How the time in torch.distributed is known, and if only by samples, why.
enum class TorchSource : std::uint8_t {
  kNone = 0,       // there is none
  kCalls,          // its calls were recorded: what follows are samples
  kOtherLibtorch,  // calls over gloo are left alone: the libtorch is not one whose calls are recorded
  kNotWatched,     // recorded without calls of communication (--no-mpi)
  kNoGlooCall,     // no call over gloo was seen: another backend (NCCL), or code without libtorch
};
inline constexpr std::size_t kTorchSources = 5;
constexpr bool is_sampled(TorchSource source) { return source > TorchSource::kCalls; }

// kRendezvous: groups are made, whose ranks have to find each other.
enum class TorchKind : std::uint8_t { kCollective = 0, kPointToPoint, kWait, kRendezvous };
inline constexpr std::size_t kTorchKinds = 4;
inline constexpr std::array<const char*, kTorchKinds> kTorchKindNames = {"collective", "point_to_point",
                                                                         "wait", "rendezvous"};
constexpr const char* name_of(TorchKind kind) { return kTorchKindNames[static_cast<std::size_t>(kind)]; }

// One operation of torch.distributed at one line of the user's.
struct TorchRow {
  std::string op;
  TorchKind kind = TorchKind::kCollective;
  std::string file, function;  // of the caller; empty: not known
  std::uint32_t line = 0;
  double time_s = 0;
  RankSpread spread;  // of time_s
  // Of recorded calls.
  std::optional<std::uint64_t> count;
  Seconds wait_s;
  // Of samples. Blocked, without a processor and running add up to time_s.
  std::optional<std::uint64_t> samples;
  Seconds blocked_s, runnable_s, running_s;
  std::vector<shard::RankRange> ranks;  // that were seen in it, the first kMaxNoteParts ranges
  std::uint64_t rank_count = 0;
  std::int32_t min_rank = -1;  // the first with the least time; -1: not known
  // Ranks for which the others wait, judged by their times in it: ascending, the one with the least time, and
  // how much more the others have together.
  std::vector<std::int32_t> late_ranks;
  std::int32_t latest_rank = -1;
  double late_s = 0;
};

struct TorchTimes {
  TorchSource source = TorchSource::kNone;
  std::vector<TorchRow> rows;  // by time_s, largest first
  // Of all rows of rendezvous, or of all others.
  [[nodiscard]] double sum_s(bool of_rendezvous) const {
    double sum_s = 0;
    for (const TorchRow& row : rows)
      if ((row.kind == TorchKind::kRendezvous) == of_rendezvous) sum_s += row.time_s;
    return sum_s;
  }
};

using LocationIndex = std::uint32_t;  // into Analysis::places; 0: not known

struct WaitPart {
  std::optional<std::int32_t> rank;  // who caused it; empty: not known, or where it happened
  LocationIndex place = 0;           // what that rank did; where it happened
  double wait_s = 0;
  std::uint64_t count = 0;
  std::size_t rest = 0;  // above 0: the sum of so many others
};

struct WaitRow {  // one rank's waiting of one kind
  shard::WaitKind kind = shard::WaitKind::kLateSender;
  std::int32_t rank = 0;
  double wait_s = 0;
  std::uint64_t count = 0;
  std::vector<WaitPart> causes, where;  // largest first
};

// Waiting of one kind at one call site for one rank that was in one function.
struct DelayRow {
  shard::WaitKind kind = shard::WaitKind::kLateSender;
  LocationIndex site = 0;
  std::optional<std::int32_t> rank;  // who was late; empty: not known
  LocationIndex place = 0;           // the line of the function that took most
  double wait_s = 0;
  std::uint64_t count = 0;
  std::uint32_t waiting_ranks = 0;
  std::int32_t waiting_rank = -1;  // the first of them
};

struct RootCauseRow {
  std::int32_t rank = 0;
  LocationIndex place = 0;
  double wait_s = 0;
  double share = 0;  // of all ranks' elapsed time
  std::uint32_t waiting_ranks = 0;
  bool at_least = false;  // there may be more waiting_ranks
};

// How a process was made, as users of the interface that made it know it.
enum class ProcessHow : std::uint8_t {
  kUnknown = 0,
  kRank,
  kFork,
  kExec,
  kSpawn,       // of Python's multiprocessing
  kForkserver,  // likewise
  kSubprocess,  // of Python
  kPosixSpawn,
  kShell,  // system(), popen()
};
inline constexpr std::size_t kProcessHows = 9;
inline constexpr std::array<const char*, kProcessHows> kProcessHowNames = {
    "unknown", "rank", "fork", "exec", "spawn", "forkserver", "subprocess", "posix_spawn", "shell"};

// A process, or several that have ended and of which only sums are kept (`count`).
struct ProcessRow {
  std::int32_t rank = -1, pid = 0, parent_pid = 0;  // of several: of the first
  ProcessHow how = ProcessHow::kUnknown;
  std::uint32_t count = 1;
  std::uint32_t group = 0;           // index into Analysis::process_groups
  std::vector<std::string> command;  // empty: not known
  bool runs = false;                 // it had not ended at the last look at it
  shard::Unrecorded unrecorded = shard::Unrecorded::kNo;
  std::optional<std::int32_t> exit_status, exit_signal;
  double start_s = 0, elapsed_s = 0;  // since the run's start
  Seconds cpu_s;                      // empty: it was not recorded, and had ended before the first look at it
  double children_cpu_s = 0;
  SourceLocation created_by;  // empty: not known
  SourceLocation top;         // where it spent the most time, other than idle; empty: not known
  double top_s = 0;
};

// Processes of a rank that were made in the same way on the same call path and run the same program.
struct ProcessGroup {
  std::int32_t rank = -1;
  ProcessHow how = ProcessHow::kUnknown;
  shard::Unrecorded unrecorded = shard::Unrecorded::kNo;
  std::string program;  // "worker", "resource tracker", or of the command: "python3 train.py"
  std::uint32_t count = 0;
  // Of those whose CPU time is known; the number of these.
  double cpu_s = 0, cpu_min_s = 0, cpu_mean_s = 0, cpu_max_s = 0;
  std::uint32_t measured = 0;
  double start_s = 0, end_s = 0;  // the first start and the last end, since the run's start
  SourceLocation created_by;
  std::uint32_t creation_path = 0;  // index into Analysis::creation_paths
  SourceLocation top;               // of the processes' own ones, the one with the largest sum
  double top_s = 0;
};

enum class LoopKind : std::uint8_t { kEpoll = 0, kAsyncio, kUvloop };
inline constexpr std::array<const char*, 3> kLoopKindNames{"epoll", "asyncio", "uvloop"};
constexpr const char* name_of(LoopKind kind) { return kLoopKindNames[static_cast<std::size_t>(kind)]; }

// The part of a loop's blocked turns that is due to one line.
struct LoopBlockRow {
  double time_s = 0, awaited_s = 0;  // awaited: of turns behind which something was ready at once
  std::uint64_t count = 0;           // turns of which it is the largest part
  double longest_s = 0;              // in one turn
  SourceLocation place;              // below the loop; empty: not known
  std::string task;  // the function that the loop ran: of a task, its coroutine; empty: not known
};

// An event loop of a thread. docs/metrics.md, "Event loops".
struct EventLoopRow {
  std::int32_t rank = -1, pid = 0, tid = 0;
  bool main_thread = false;  // of its process
  std::string thread;        // its name
  LoopKind kind = LoopKind::kEpoll;
  std::uint64_t turns = 0, blocked = 0;
  double idle_s = 0, busy_s = 0, blocked_s = 0, awaited_s = 0;
  double longest_s = 0;
  Seconds longest_at_s;  // when the longest blocked turn began, since the run's start
  std::array<std::uint64_t, shard::EventLoop::kBins> lengths{};  // of the turns
  std::vector<LoopBlockRow> blocks;                              // the largest first
};

// Where a thread was while others waited for a mutex that it had.
struct MutexHolderRow {
  SourceLocation place;
  double wait_s = 0;  // of the others
};

// A line at which threads waited for mutexes of others, all threads. docs/metrics.md, "Mutexes".
struct MutexRow {
  SourceLocation place;
  double wait_s = 0;
  std::uint64_t samples = 0, mutexes = 0;  // how many different ones, as far as known
  RankSpread spread;                       // of wait_s
  std::vector<MutexHolderRow> holders;     // by wait_s, largest first; those that are known
};

// What a thread waits for until another one lets it go on. docs/metrics.md, "Mutexes".
enum class LockKind : std::uint8_t {
  kMutex,
  kRwLock,
  kCondition,
  kSemaphore,
  kBarrier,
  kPython,
  kFutex,
  kSeveral,
  kSpinlock
};
inline constexpr std::array<const char*, 9> kLockKindNames = {
    "mutex", "rwlock", "condition", "semaphore", "barrier", "python_lock", "futex", "several", "spinlock"};

// A mutex or another lock, or those of all ranks that are one variable. docs/metrics.md, "Mutexes".
struct LockRow {
  LockKind kind = LockKind::kMutex;
  std::string name;                  // of the variable; empty: it is none that is known
  std::optional<std::int32_t> rank;  // whose it is, of a mutex without a name
  std::uint64_t address = 0;         // likewise; 0: of those that found no room
  std::uint64_t mutexes = 0, waits = 0;
  double wait_s = 0, longest_s = 0;   // longest: of one wait
  RankSpread spread;                  // of wait_s
  std::vector<MutexHolderRow> lines;  // where threads waited; wait_s: there
  // Where the thread was that had it, or that ended the wait, meanwhile.
  std::vector<MutexHolderRow> holders;
};
inline constexpr std::size_t kMaxLocks = 256;  // with most wait_s

// Constructs of one kind at one line, in one region. Sums over ranks and threads. docs/metrics.md, "OpenMP".
struct OpenMpConstructRow {
  shard::OmpKind kind = shard::OmpKind::kBarrier;
  SourceLocation place;
  std::uint64_t count = 0;
  double time_s = 0, wait_s = 0, schedule_s = 0;
  std::uint64_t chunks = 0, iterations = 0;  // 0: not known
  std::optional<double> imbalance;  // of the time without waiting: of the thread with most, by the mean
  std::uint8_t schedules = 0;       // of loops: shard::kOmpStatic and so on; 0 not known
};

// What the threads with one number did in a region, of all ranks.
struct OpenMpThreadRow {
  std::uint32_t number = 0;
  double work_s = 0, wait_s = 0;
};

// What the threads of one rank did in a region: as of OpenMpRegionRow.
struct OpenMpRegionRank {
  std::int32_t rank = -1;
  std::uint64_t count = 0;
  double time_s = 0, thread_s = 0, work_s = 0, wait_s = 0, serial_s = 0, schedule_s = 0;
  std::uint32_t threads = 0;
  std::optional<double> imbalance;
  OpenMpEfficiency efficiency;
  std::vector<OpenMpThreadRow> threads_of_team;
};

// A parallel construct: all regions that begin at one line.
struct OpenMpRegionRow {
  SourceLocation place;
  bool is_teams = false;
  std::uint32_t level = 0;  // how many regions there are around it, at least
  std::uint64_t count = 0, unfinished = 0;
  double time_s = 0;              // elapsed, summed over ranks
  double work_s = 0, wait_s = 0;  // of the threads; wait: at its end and in constructs
  double end_wait_s = 0;          // of wait_s, at its end
  double serial_s = 0;            // of wait_s, in constructs that let one thread through at a time
  double schedule_s = 0;          // until threads began, and for asking for parts of loops
  double thread_s = 0;            // that the threads had there: time_s times the threads of each team
  std::uint32_t threads = 0, threads_asked = 0;  // the most; asked 0: not known
  std::optional<double> imbalance;  // of each instance the work of the thread with most, by the mean
  // parallel: work_s by work_s, wait_s and schedule_s; the product of the others.
  OpenMpEfficiency efficiency;
  RankSpread spread;                             // of time_s
  RankSpread wait_spread;                        // of wait_s
  std::vector<OpenMpConstructRow> constructs;    // by wait_s, largest first
  std::vector<OpenMpThreadRow> threads_of_team;  // by number, of the first ones; empty: not known
  std::vector<OpenMpRegionRank> ranks;  // by rank; of many those whose threads did not work for longest
};
inline constexpr std::size_t kMaxOpenMpThreads = 256;  // that are listed of a region
inline constexpr std::size_t kMaxOpenMpRanks = 256;    // the same

// Where main threads were while no region was, but for MPI.
struct OpenMpSerialRow {
  SourceLocation place;
  double time_s = 0;
  double lost_s = 0;  // of the other threads, in that time
  double native_s =
      0;  // of time_s: native code that ran or was ready to. The rest is the interpreter, and waiting
};

struct OpenMpRank {
  std::int32_t rank = -1;
  shard::OmpMethod method = shard::OmpMethod::kUnused;
  std::string runtime;
  bool other_runtime = false;    // another one is used as well, and not recorded
  std::uint32_t threads = 0;     // of the largest team of the main thread that matters; 0: there was none
  std::uint32_t processors = 0;  // that they may run on; 0 not known
  double region_s = 0, serial_s = 0,
         mpi_s = 0;               // of the main thread: in regions; outside without MPI; in MPI outside
  double serial_native_s = 0;     // of serial_s, as OpenMpSerialRow::native_s
  double work_s = 0, wait_s = 0;  // of all threads, in regions of the main thread
};

// A part of the run: the same times and efficiencies as of all of it.
struct OpenMpWindow {
  double begin_s = 0, end_s = 0;
  double work_s = 0, imbalance_s = 0, schedule_s = 0, serialization_s = 0;
  OpenMpEfficiency efficiency;
  std::optional<double> hybrid_parallel, hybrid_mpi;  // mpi is also empty where it is not known of this part
};

struct OpenMp {
  OpenMpEfficiency efficiency;
  // Together with MPI: parallel is the product of the other two; mpi is empty without MPI.
  std::optional<double> hybrid_parallel, hybrid_mpi, hybrid_openmp;
  double work_s = 0, imbalance_s = 0, schedule_s = 0, serialization_s = 0;  // what these are of
  std::vector<OpenMpRegionRow> regions;                                     // by thread_s, largest first
  std::vector<OpenMpSerialRow> serial;                                      // by lost_s, largest first
  std::vector<OpenMpRank> ranks;                                            // by rank
  std::vector<OpenMpWindow> windows;  // by time, with those of Analysis::windows; empty: not recorded
};

// Time of asyncio's tasks of a rank that have one name and run one coroutine. docs/metrics.md, "Tasks".
struct TaskRow {
  std::int32_t rank = -1;
  std::string name;             // that the program has given them; empty: none
  std::string coroutine, file;  // the outermost one of the task; empty: of further ones
  std::uint32_t line = 0;       // where it starts; 0 unknown
  double time_s = 0, cpu_s = 0;
};

// Time that the import of a package takes, with what that imports in turn; of all threads, without MPI calls.
struct ImportRow {
  std::string package;         // the top-level one; empty: not known
  std::string file, function;  // of the program's import statement that causes most of it; empty: none
  std::uint32_t line = 0;
  bool is_direct = false;  // a statement of the user's own code imports it
  bool own = false;        // it is the user's own code
  double time_s = 0, self_s = 0;
  double main_thread_s = 0;  // of time_s
  std::uint32_t ranks = 0;   // that import it
  RankSpread spread;         // of time_s
};

// Of all imports, without the user's own modules' code.
struct ImportSum {
  double time_s = 0, main_thread_s = 0, main_thread_io_s = 0;  // io: category io, of main_thread_s
  RankSpread main_spread;
};

// A recorded thread, or several that have ended and of which only sums are kept (`count`).
struct ThreadRow {
  std::int32_t rank = -1, pid = 0, tid = 0;  // of several: of the first
  shard::ThreadKind kind = shard::ThreadKind::kNative;
  std::uint32_t count = 1;
  std::uint32_t group = 0;            // index into Analysis::thread_groups
  std::string name;                   // what it runs, where it has none; empty: not known
  bool runs = false;                  // it had not ended at the last look at it
  double start_s = 0, elapsed_s = 0;  // since the run's start
  double cpu_s = 0;
  SourceLocation top;  // where it ran, or was in I/O, for the most time; empty: not known
};

// Threads of a rank of one kind whose names differ in numbers only.
struct ThreadGroup {
  std::int32_t rank = -1;
  shard::ThreadKind kind = shard::ThreadKind::kNative;
  std::string name;  // of several: "loader-*"
  std::uint32_t count = 0;
  double cpu_s = 0, cpu_min_s = 0, cpu_mean_s = 0, cpu_max_s = 0;
  double start_s = 0, end_s = 0;  // the first start and the last end, since the run's start
  SourceLocation top;             // of the thread with the most CPU time
};

struct CriticalRow {
  LocationIndex place = 0;
  double time_s = 0;
  double share = 0;   // of the critical path
  double mean_s = 0;  // on the mean rank; in MPI without waiting
  std::int32_t max_rank = -1;
};

struct WindowRow {
  double begin_s = 0, end_s = 0;
  double parallel = 0, communication = 0, wait_s = 0;
  std::optional<double> load_balance;                      // empty: no rank did anything outside MPI
  std::optional<double> hybrid_parallel, openmp_parallel;  // as OpenMpWindow has them; empty: there is none
};

// How the waiting was analysed.
struct WaitQuality {
  std::uint32_t event_level = 0;
  std::uint64_t operations = 0, events = 0;
  std::uint64_t messages = 0, unmatched_messages = 0, collectives = 0, unmatched_collectives = 0;
  Seconds clock_error_s;  // empty: some nodes' clocks cannot be compared
  double worst_violation_s = 0;
  std::uint64_t clock_violations = 0;
  Seconds ideal_s;                        // elapsed time on an ideal network
  std::uint64_t unreceived_messages = 0;  // of the unmatched ones, those that are known to have no receive
};

struct CounterSpread {
  std::string name;
  double total = 0, min = 0, mean = 0, max = 0;  // over the ranks that counted it
  std::int32_t max_rank = -1;
};

struct RankCounters {
  std::int32_t rank = 0;
  std::vector<std::pair<std::string, std::uint64_t>> values;
};

struct Bottleneck {
  std::optional<std::int32_t> rank;  // empty: the run, or
  std::string region;                // a region by its full name
  std::string kind;                  // compute, memory, io, communication, imbalance, python, idle,
                                     // runnable, input
  double share = 0;
  Evidence evidence;
  LocationIndex place = 0;  // that has most of it
  LocationIndex cause = 0;  // what the rank did that made others wait; the function that memory limits
};

// How well the measurement went.
struct Quality {
  std::uint64_t truncated = 0, merges_tried = 0, merges_failed = 0;  // samples
  std::optional<double> merge_success;                               // share of the merges tried
  Seconds handler_median_s, handler_p99_s;                           // per sample
  std::optional<double> rate_reached_hz;                             // per second of running time
  std::uint64_t unsampled_threads = 0;                               // that ended before their first sample
  double unsampled_cpu_s = 0;                                        // of those threads
  // CPU time that the ranks' threads spent in our code: in sample handlers, in walks for call paths and in
  // the wrappers of MPI calls; and of the ranks' CPU time, where that is known.
  double recording_s = 0;
  std::optional<double> recording_share;
};

// The end of a run, since its start, in whole bins of the timeline.
struct EndOfRun {
  double begin_s = 0, end_s = 0;
  Seconds functions_begin_s;  // their bins are wider; empty: there are none
};

// Copied, moved and destroyed in analysis.cpp only: inline, it would take 7 s more to compile every source
// that does so.
struct Analysis {
  Analysis();
  Analysis(const Analysis&);
  Analysis(Analysis&&) noexcept;
  Analysis& operator=(const Analysis&);
  Analysis& operator=(Analysis&&) noexcept;
  ~Analysis();

  RunInfo run;
  std::optional<EndOfRun> last;  // all is of this alone (analyse_end()); empty: of the whole run
  Quality quality;
  std::vector<NodeInfo> nodes;
  std::vector<RankInfo> ranks;                              // by rank
  std::vector<ProcessRow> processes;                        // by rank, then start
  std::vector<ProcessGroup> process_groups;                 // by rank, then start
  std::vector<ThreadRow> threads;                           // by rank, then start
  std::vector<ThreadGroup> thread_groups;                   // by rank, then start
  std::vector<std::vector<SourceLocation>> creation_paths;  // outermost first; the first one is empty
  std::vector<EventLoopRow> event_loops;                    // by rank, then the most blocked one first
  std::vector<MutexRow> mutexes;                            // by wait_s, largest first
  std::vector<LockRow> locks;                               // by wait_s, largest first
  std::optional<OpenMp> openmp;                             // empty: no rank has used it
  std::vector<TaskRow> tasks;                               // by time_s, largest first
  std::vector<CallTreeRow> task_tree;                       // as call_tree: tasks below those that await them
  double tasks_s = 0;                                       // of all tasks
  OptionalCategorySeconds category_s;                       // sum over ranks
  OptionalActivitySeconds activity_s;                       // sum over ranks, all threads
  OptionalActivitySeconds active_activity_s;                // without idle helper threads
  std::map<std::string, double> native_modules;             // Activity::kNative by object file, all threads
  std::map<std::string, double> system_calls;  // time in system calls outside MPI, by name, all threads
  std::map<std::string, double> active_system_calls;  // without idle helper threads
  double rank_seconds = 0;                            // sum of the ranks' recorded times
  double recorded_s = 0;  // the run's elapsed time without what no rank that used MPI recorded
  double startup_s = 0;   // that every rank that used MPI was in MPI_Init or MPI_Finalize
  double focus_s = 0;     // recorded_s without startup_s: what efficiencies are of
  Limits limits;          // sum over ranks, main threads
  std::vector<MemoryRow> memory_functions;  // by time_s, largest first
  std::optional<HeldMemory> memory;         // empty: recorded without --memory
  LabelledMemory labelled_memory;
  std::optional<FileIo> io;                       // empty: not known
  std::optional<std::vector<OffCpuRow>> off_cpu;  // by time_s, largest first; empty: not known
  std::vector<ImportRow> imports;  // those of the program's own statements first, then by time_s
  ImportSum import_sum;
  std::optional<Timeline> timeline;
  std::vector<RegionRow> regions;  // by first appearance in the tree of regions, parents first
  bool counters_multiplexed = false;
  std::vector<Derived> derived;
  Seconds mean_useful_s, max_useful_s;
  std::optional<std::int32_t> slowest_rank;  // most useful time; empty without MPI
  Efficiency efficiency;
  // The same with threads_useful_s: parallel, load_balance, communication; empty where main threads alone
  // call MPI.
  Efficiency threads_efficiency;
  Seconds threads_mean_useful_s, threads_max_useful_s;
  std::optional<std::int32_t> threads_slowest_rank;  // has threads_max_useful_s
  std::vector<FunctionRow> functions;                // by self_s, largest first
  std::vector<LineRow> lines;                        // by self_s, largest first
  std::vector<CallTreeRow> call_tree;                // callers before what they call, then by total_s
  double sampled_s = 0;                              // sum of all threads' sampled time
  double without_function_s = 0;                     // of it, in no function: code that is not known
  double without_line_s = 0;  // of it, in no line: as well, and where no frame has a source line
  double helper_idle_s = 0;   // of it, threads other than the main ones, idle but not waiting for the GIL
  bool mpi_watched = false;   // a rank's MPI calls would have been seen, had there been any
  std::vector<MpiCallRow> mpi_calls;                              // by time_s, largest first
  std::optional<Hang> hang;                                       // who waits for whom at the end
  std::optional<Failure> failure;                                 // why the run failed
  std::vector<CallUnderWayRow> calls_under_way;                   // by rank
  std::vector<std::vector<SourceLocation>> call_paths_under_way;  // of these, the outermost frame first
  std::vector<MpiErrorRow> mpi_errors;                            // by first_s
  std::vector<OpenRequestRow> open_requests;                      // by rank
  std::vector<UnmatchedRow> unmatched_messages;                   // by count, largest first
  std::vector<shard::MatrixCell> matrix;                          // by source, then destination
  std::vector<NodeCell> node_matrix;       // by source, then destination; what is not known last
  std::vector<MpiSizeRow> mpi_sizes;       // by op, then size
  std::vector<CollectiveRow> collectives;  // by bytes, largest first
  // An estimate of what these operations would send from rank to rank with plain algorithms. By source, then
  // destination.
  std::vector<shard::MatrixCell> collective_matrix;
  std::vector<NodeCell> collective_node_matrix;
  TorchTimes torch;
  std::optional<WaitQuality> wait_quality;   // empty: waiting was not analysed, and the next tables are empty
  Seconds mpi_wait_s, mpi_transfer_s;        // sums over the ranks that know them
  std::vector<SourceLocation> places;        // the first one is empty
  std::vector<WaitRow> waits;                // by kind, then rank
  std::vector<DelayRow> delays;              // largest first
  std::vector<RootCauseRow> root_causes;     // by line; largest first
  std::vector<RootCauseRow> root_functions;  // the same by function, with the line that holds most
  std::vector<CriticalRow> critical_path;    // by line; largest first
  std::vector<CriticalRow> critical_functions;  // the same by function
  std::vector<WindowRow> windows;               // by time
  std::vector<std::string> counters;
  std::map<std::string, std::string> unavailable_counters;  // name: reason
  std::vector<RankCounters> rank_counters;
  std::vector<CounterSpread> counter_spreads;
  std::vector<Bottleneck> bottlenecks;  // the run's first, largest share first
  std::vector<Finding> findings;        // most severe first
  std::optional<profile::Gains> gains;  // empty: none were predicted when the run was merged
};

}  // namespace clusterprof::report
