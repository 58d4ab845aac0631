// SPDX-License-Identifier: BSD-3-Clause
// The most important results of a report, as data; report/words turns them into sentences. docs/metrics.md,
// "Findings", has a row for every kind, with its condition, gain and evidence.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "report/analysis/hang.hpp"
#include "report/analysis/source_location.hpp"

namespace clusterprof::report {

enum class FindingKind : std::uint8_t {
  kDeadlock = 0,
  kNoProgress,
  kRankFailed,
  kLauncherGone,
  kRanksEndedAfter,
  kRanksUnfinished,
  kRanksLost,
  kRanksSilent,
  kRanksMissing,
  kTimeLimit,
  kWaitingForProcessor,
  kDelay,
  kDelayPassedOn,
  kLateBySamples,
  kLoadImbalance,
  kSerialization,
  kTransfer,
  kMutualWaiting,
  kMpiBesidesWaiting,
  kMpiTime,
  kMpiFileIo,
  kGilWait,
  kPythonBytecode,
  kPythonGarbage,
  kMemoryBound,
  kMemoryPages,
  kFileIo,
  kRankIo,
  kSmallIo,
  kWaitsForData,
  kInputBound,
  kBlocked,
  kEventLoopBlocked,
  kSystemCalls,
  kSharedProcessors,
  kTooManyThreads,
  kBusyNode,
  kAcrossMemoryNodes,
  kFullMemory,
  kPagesFromDisk,
  // About the measurement itself.
  kSamplesLost,
  kThreadsNotSampled,
  kIoNotCounted,
  kMpiPathsLost,
  kMpiPeersLost,
  kMpiEventsLost,
  kRegionsLost,
  kThrottled,
  kCallPathsCut,
  kFramesNotJoined,
  kNoSamples,
  kWaitsSampled,
  kUnmatched,
  kClocks,
  kImports,
  kMpiErrors,
  kRequestsOpen,
  kMessagesUnmatched,
  kOpenMpImbalance,
  kOpenMpSerial,
  kOpenMpSmallRegions,
  kOpenMpOneAtATime,
  kOpenMpThreads,
  kOpenMpOneProcessor,
  kOutOfMemory,
  kMemoryImbalance,
  kMemoryGrowth,
  kMemoryRequested,
  kMemoryOfAllocator,
  kPythonNumbers,
  kRecordingCost
};
inline constexpr std::size_t kFindingKinds = 71;

// Whether a run can have several findings of the kind, each of a place. Of the other kinds it has one at
// most, whatever that points to.
inline bool is_of_a_place(FindingKind kind) {
  return kind == FindingKind::kDelay || kind == FindingKind::kDelayPassedOn || kind == FindingKind::kRankIo ||
         kind == FindingKind::kSmallIo;
}

// For programs: never renamed.
inline constexpr std::array<const char*, kFindingKinds> kFindingKindNames = {"deadlock",
                                                                             "no_progress",
                                                                             "rank_failed",
                                                                             "launcher_gone",
                                                                             "ranks_ended_after",
                                                                             "ranks_unfinished",
                                                                             "ranks_lost",
                                                                             "ranks_silent",
                                                                             "ranks_missing",
                                                                             "time_limit",
                                                                             "waiting_for_processor",
                                                                             "delay",
                                                                             "delay_passed_on",
                                                                             "late_by_samples",
                                                                             "load_imbalance",
                                                                             "serialization",
                                                                             "transfer",
                                                                             "mutual_waiting",
                                                                             "mpi_besides_waiting",
                                                                             "mpi_time",
                                                                             "mpi_file_io",
                                                                             "gil_wait",
                                                                             "python_bytecode",
                                                                             "python_garbage",
                                                                             "memory_bound",
                                                                             "memory_pages",
                                                                             "file_io",
                                                                             "rank_io",
                                                                             "small_io",
                                                                             "waits_for_data",
                                                                             "input_bound",
                                                                             "blocked",
                                                                             "event_loop_blocked",
                                                                             "system_calls",
                                                                             "shared_processors",
                                                                             "too_many_threads",
                                                                             "busy_node",
                                                                             "across_memory_nodes",
                                                                             "full_memory",
                                                                             "pages_from_disk",
                                                                             "samples_lost",
                                                                             "threads_not_sampled",
                                                                             "io_not_counted",
                                                                             "mpi_paths_lost",
                                                                             "mpi_peers_lost",
                                                                             "mpi_events_lost",
                                                                             "regions_lost",
                                                                             "throttled",
                                                                             "call_paths_cut",
                                                                             "frames_not_joined",
                                                                             "no_samples",
                                                                             "waits_sampled",
                                                                             "unmatched",
                                                                             "clocks",
                                                                             "imports",
                                                                             "mpi_errors",
                                                                             "requests_open",
                                                                             "messages_unmatched",
                                                                             "openmp_imbalance",
                                                                             "openmp_serial",
                                                                             "openmp_small_regions",
                                                                             "openmp_one_at_a_time",
                                                                             "openmp_threads",
                                                                             "openmp_one_processor",
                                                                             "out_of_memory",
                                                                             "memory_imbalance",
                                                                             "memory_growth",
                                                                             "memory_requested",
                                                                             "memory_of_allocator",
                                                                             "python_numbers",
                                                                             "recording_cost"};
constexpr const char* name_of(FindingKind kind) { return kFindingKindNames[static_cast<std::size_t>(kind)]; }

// kInfo: about the measurement itself, or what may be as the program means it.
enum class Severity : std::uint8_t { kHigh = 0, kMedium, kLow, kInfo };
inline constexpr std::size_t kSeverities = 4;
inline constexpr std::array<const char*, kSeverities> kSeverityNames = {"high", "medium", "low", "info"};
constexpr const char* name_of(Severity severity) {
  return kSeverityNames[static_cast<std::size_t>(severity)];
}

// What to try.
enum class FindingAction : std::uint8_t {
  kNone = 0,
  kBalanceWork,
  kFillWaiting,
  kFewerMessages,
  kCompileLoop,
  kFewerObjects,
  kUseProcesses,
  kFewerIo,
  kFewerSyncs,
  kBufferIo,
  kBlockForCache,
  kReuseMemory,
  kFewerSystemCalls,
  kReplaceSleep,
  kHoldLockLess,
  kWorkWhilePolling,
  kWorkWhileThreadsDo,
  kStartChildrenEarlier,
  kFindWhatIsAwaited,
  kFewerRanks,
  kFewerThreads,
  kFreeNode,
  kBindToMemoryNode,
  kSpreadData,
  kUseLessMemory,
  kLowerRate,
  kFewerFiles,
  kCollectiveIo,
  kGiveProcessors,
  kLeaveTheLoop,
  kPackLibraries,
  kImportLess,
  kFasterInput,
  kBalanceThreads,
  kDynamicSchedule,
  kCyclicSchedule,
  kSmallerChunks,
  kLargerRegions,
  kReducePerThread,
  kWaitLess,
  kMoreInRegions,
  kBindWider,
  kSmallerPool,
  kFreeWhatIsHeld,
  kTrimAllocator,
  kUseArrays,
  kRequestLess,
  kOtherChunks,
  kScheduleOrChunks,
  kFewerProcesses
};
inline constexpr std::size_t kFindingActions = 50;
inline constexpr std::array<const char*, kFindingActions> kFindingActionNames = {"none",
                                                                                 "balance_work",
                                                                                 "fill_waiting",
                                                                                 "fewer_messages",
                                                                                 "compile_loop",
                                                                                 "fewer_objects",
                                                                                 "use_processes",
                                                                                 "fewer_io",
                                                                                 "fewer_syncs",
                                                                                 "buffer_io",
                                                                                 "block_for_cache",
                                                                                 "reuse_memory",
                                                                                 "fewer_system_calls",
                                                                                 "replace_sleep",
                                                                                 "hold_lock_less",
                                                                                 "work_while_polling",
                                                                                 "work_while_threads_do",
                                                                                 "start_children_earlier",
                                                                                 "find_what_is_awaited",
                                                                                 "fewer_ranks",
                                                                                 "fewer_threads",
                                                                                 "free_node",
                                                                                 "bind_to_memory_node",
                                                                                 "spread_data",
                                                                                 "use_less_memory",
                                                                                 "lower_rate",
                                                                                 "fewer_files",
                                                                                 "collective_io",
                                                                                 "give_processors",
                                                                                 "leave_the_loop",
                                                                                 "pack_libraries",
                                                                                 "import_less",
                                                                                 "faster_input",
                                                                                 "balance_threads",
                                                                                 "dynamic_schedule",
                                                                                 "cyclic_schedule",
                                                                                 "smaller_chunks",
                                                                                 "larger_regions",
                                                                                 "reduce_per_thread",
                                                                                 "wait_less",
                                                                                 "more_in_regions",
                                                                                 "bind_wider",
                                                                                 "smaller_pool",
                                                                                 "free_what_is_held",
                                                                                 "trim_allocator",
                                                                                 "use_arrays",
                                                                                 "request_less",
                                                                                 "other_chunks",
                                                                                 "schedule_or_chunks",
                                                                                 "fewer_processes"};
constexpr const char* name_of(FindingAction action) {
  return kFindingActionNames[static_cast<std::size_t>(action)];
}

// Names of evidence. The name has the unit; otherwise the value is a share (0..1), a number or a text.
enum class EvidenceKey : std::uint8_t {
  kTime = 0,
  kWhole,
  kPlaceTime,
  kPlaceShare,
  kWait,
  kSiteWait,
  kWaitingRanks,
  kWaitingRanksAtLeast,
  kWaitingRank,
  kCauseRank,
  kMaxUseful,
  kMeanUseful,
  kSlowestRank,
  kElapsed,
  kIdeal,
  kMpi,
  kMpiShare,
  kImbalanceShare,
  kSerialization,
  kTransfer,
  kKernel,
  kData,
  kPageFault,
  kMapping,
  kPageFaultShare,
  kMappingShare,
  kFaultsPerSecond,
  // In the order of OffCpu.
  kSleep,
  kLock,
  kGil,
  kPoll,
  kFile,
  kNetwork,
  kPipe,
  kJoin,
  kChild,
  kOpenMp,
  kOther,
  kBandwidth,
  kMissesPerKilo,
  kWorkingSet,
  kWorkingSetAtLeast,
  kAccesses,
  kCache,
  kCall,
  kPath,
  kCalls,
  kCallTime,
  kMeanBytes,
  kRankShare,
  kSampledShare,
  kNode,
  kProcessors,
  kRunShare,
  kBusy,
  kOwnBusy,
  kSwitchedOut,
  kThreads,
  kMemoryUsed,
  kMemory,
  kRanksRss,
  kRankRss,
  kMajorFaults,
  kMajorFaultsPerSecond,
  kSignal,
  kStatus,
  kMissingRanks,
  kWorldSize,
  kOneIn,
  kMessages,
  kCollectives,
  kViolations,
  kWorstViolation,
  kClockError,
  kClocksApart,
  kRunnable,
  kMpiRunnable,
  kReadyThreads,
  kMpiIo,
  kLost,
  kOf,
  kNodes,
  kRankWait,
  kWaitsForProcessor,
  kRanksMissing,
  kCpuExcess,
  kSignals,
  kStatuses,
  kLauncher,
  kChildren,
  kProgram,
  kTurns,
  kLongest,
  kRankMean,
  kReadingShare,
  kPackage,
  kWorkers,
  kWorkerKind,
  kWorkersBusy,
  kWorkersTime,
  kFailure,
  kException,
  kMessage,
  kAbortCode,
  kAddress,
  kStackOverflow,
  kEndedByMpi,
  kErrorClass,
  kErrorText,
  kPeerRank,
  kTag,
  kMessageNumber,
  kRequests,
  kUnreceived,
  kCallSites,
  kChunks,
  kLastByFirst,
  kMeanTime,
  kConstruct,
  kSpeedupBound,
  kPool,
  kPoolThreads,
  kPoolSize,
  kHeld,
  kLimit,
  kPeak,
  kMeanPeak,
  kPlaceBytes,
  kGrowth,
  kFullIn,
  kRequested,
  kUsed,
  kAnon,
  kLive,
  kObjects,
  kBytesPerObject,
  kFreedSoon,
  kSchedule,
  kIterations,
  kChunkSize,
  kPoolRanks,
  kPoolProcesses,
  kPoolOfProcess,
  kAdvisedSize,
  kThreadsRan,
  kThreadsReady
};
inline constexpr std::size_t kEvidenceKeys = 146;
inline constexpr std::array<const char*, kEvidenceKeys> kEvidenceKeyNames = {"time_s",
                                                                             "whole_s",
                                                                             "place_s",
                                                                             "place_share",
                                                                             "wait_s",
                                                                             "site_wait_s",
                                                                             "waiting_ranks",
                                                                             "waiting_ranks_at_least",
                                                                             "waiting_rank",
                                                                             "cause_rank",
                                                                             "max_useful_s",
                                                                             "mean_useful_s",
                                                                             "slowest_rank",
                                                                             "elapsed_s",
                                                                             "ideal_s",
                                                                             "mpi_s",
                                                                             "mpi_share",
                                                                             "imbalance_share",
                                                                             "serialization",
                                                                             "transfer",
                                                                             "kernel_s",
                                                                             "data_s",
                                                                             "page_fault_s",
                                                                             "mapping_s",
                                                                             "page_fault_share",
                                                                             "mapping_share",
                                                                             "faults_per_s",
                                                                             "sleep_s",
                                                                             "lock_s",
                                                                             "gil_s",
                                                                             "poll_s",
                                                                             "file_s",
                                                                             "network_s",
                                                                             "pipe_s",
                                                                             "join_s",
                                                                             "child_s",
                                                                             "openmp_s",
                                                                             "other_s",
                                                                             "bandwidth_bytes_per_s",
                                                                             "misses_per_kilo_instructions",
                                                                             "working_set_bytes",
                                                                             "working_set_at_least_bytes",
                                                                             "accesses",
                                                                             "cache_bytes",
                                                                             "call",
                                                                             "path",
                                                                             "calls",
                                                                             "call_s",
                                                                             "mean_bytes",
                                                                             "rank_share",
                                                                             "sampled_share",
                                                                             "node",
                                                                             "processors",
                                                                             "run_share",
                                                                             "busy_share",
                                                                             "own_busy_share",
                                                                             "switched_out_per_s",
                                                                             "threads",
                                                                             "memory_used_bytes",
                                                                             "memory_bytes",
                                                                             "ranks_rss_bytes",
                                                                             "rank_rss_bytes",
                                                                             "major_faults",
                                                                             "major_faults_per_s",
                                                                             "signal",
                                                                             "status",
                                                                             "missing_ranks",
                                                                             "world_size",
                                                                             "one_in",
                                                                             "unmatched_messages_share",
                                                                             "unmatched_collectives_share",
                                                                             "violations",
                                                                             "worst_violation_s",
                                                                             "clock_error_s",
                                                                             "clocks_apart",
                                                                             "runnable_s",
                                                                             "mpi_runnable_s",
                                                                             "ready_threads",
                                                                             "mpi_io_s",
                                                                             "lost",
                                                                             "of",
                                                                             "nodes",
                                                                             "rank_wait_s",
                                                                             "waits_for_processor",
                                                                             "ranks_missing",
                                                                             "cpu_excess_s",
                                                                             "signals",
                                                                             "statuses",
                                                                             "launcher",
                                                                             "children",
                                                                             "program",
                                                                             "turns",
                                                                             "longest_s",
                                                                             "rank_mean_s",
                                                                             "reading_share",
                                                                             "package",
                                                                             "workers",
                                                                             "worker_kind",
                                                                             "workers_busy_share",
                                                                             "workers_s",
                                                                             "failure",
                                                                             "exception",
                                                                             "message",
                                                                             "abort_code",
                                                                             "address",
                                                                             "stack_overflow",
                                                                             "ended_by_mpi",
                                                                             "error_class",
                                                                             "error_text",
                                                                             "peer_rank",
                                                                             "tag",
                                                                             "message_number",
                                                                             "requests",
                                                                             "messages",
                                                                             "call_sites",
                                                                             "chunks_per_thread",
                                                                             "last_by_first_thread",
                                                                             "mean_s",
                                                                             "construct",
                                                                             "speedup_bound",
                                                                             "pool",
                                                                             "pool_threads",
                                                                             "pool_set_by",
                                                                             "held_bytes",
                                                                             "limit_bytes",
                                                                             "peak_bytes",
                                                                             "mean_peak_bytes",
                                                                             "place_bytes",
                                                                             "growth_bytes_per_s",
                                                                             "full_in_s",
                                                                             "requested_bytes",
                                                                             "used_bytes",
                                                                             "anon_bytes",
                                                                             "live_bytes",
                                                                             "objects",
                                                                             "bytes_per_object",
                                                                             "freed_soon_bytes",
                                                                             "schedule",
                                                                             "iterations",
                                                                             "chunk_size",
                                                                             "pool_ranks",
                                                                             "pool_processes",
                                                                             "pool_threads_of_process",
                                                                             "pool_size",
                                                                             "threads_ran_s",
                                                                             "threads_ready_s"};
constexpr const char* name_of(EvidenceKey key) { return kEvidenceKeyNames[static_cast<std::size_t>(key)]; }

// Numbers, names, and lists of numbers, in the order in which they were added.
class Evidence {
 public:
  using Value = std::variant<double, std::string, std::vector<std::int32_t>>;
  using Entry = std::pair<EvidenceKey, Value>;

  void set(EvidenceKey key, Value value) {
    for (Entry& entry : entries)
      if (entry.first == key) {
        entry.second = std::move(value);
        return;
      }
    entries.emplace_back(key, std::move(value));
  }
  void set(EvidenceKey key, std::integral auto value) { set(key, Value(static_cast<double>(value))); }
  [[nodiscard]] const Value* find(EvidenceKey key) const {
    for (const Entry& entry : entries)
      if (entry.first == key) return &entry.second;
    return nullptr;
  }
  void erase(EvidenceKey key) {
    std::erase_if(entries, [&](const Entry& entry) { return entry.first == key; });
  }
  [[nodiscard]] bool has(EvidenceKey key) const { return find(key) != nullptr; }
  // 0 and empty where there is none.
  [[nodiscard]] double number(EvidenceKey key) const { return get<double>(key); }
  [[nodiscard]] std::string name(EvidenceKey key) const { return get<std::string>(key); }
  [[nodiscard]] std::vector<std::int32_t> list(EvidenceKey key) const {
    return get<std::vector<std::int32_t>>(key);
  }

  std::vector<Entry> entries;

 private:
  template <typename T>
  T get(EvidenceKey key) const {
    const Value* const value = find(key);
    const T* const found = value == nullptr ? nullptr : std::get_if<T>(value);
    return found == nullptr ? T() : *found;
  }
};

// What one line of a rank held when memory was used up.
struct HeldShare {
  SourceLocation place;
  std::int32_t rank = -1;
  double bytes = 0;
};

// Another finding on the same problem, seen from another side.
struct JoinedFinding {
  FindingKind kind = FindingKind::kBlocked;
  std::optional<double> share;
  std::optional<std::int32_t> rank;
  SourceLocation place;
  Evidence evidence;
  FindingAction action = FindingAction::kNone;
};

struct Finding {
  FindingKind kind = FindingKind::kRankFailed;
  Severity severity = Severity::kInfo;
  std::optional<double> share;  // of all rank time, unless docs/metrics.md says otherwise
  // Elapsed time that the run would save without the cause: as a replay without it says (`change`), else at
  // most, estimated from sums.
  std::optional<double> gain_s;
  std::vector<std::int32_t> ranks;   // that it is about, ascending; empty: all, or no particular ones
  std::optional<std::int32_t> rank;  // of them the first to look at
  SourceLocation place;              // the program's line, and the MPI function called from there
  // Where others waited, or where the awaited processes or threads spent their time.
  std::optional<SourceLocation> site;
  Evidence evidence;
  FindingAction action = FindingAction::kNone;
  bool is_estimate = false;  // then never high
  std::vector<JoinedFinding> joined;
  std::optional<Hang> hang{};               // of kDeadlock
  std::vector<MismatchedRanks> mismatch{};  // of kRankFailed: Failure::mismatch
  std::vector<HeldShare> held{};            // of kOutOfMemory: the largest first
  // The change of the program that was replayed for gain_s (docs/whatif.md), and half the width of gain_s'
  // 95 % interval; empty: none was.
  std::string change{};
  std::optional<double> gain_error_s{};
};

// How gain_s is known: by a replay, or as what it is at most, by sums. The two are not comparable.
enum class GainMethod : std::uint8_t { kReplay = 0, kSums };
inline constexpr std::array<const char*, 2> kGainMethodNames = {"replay", "sums"};
inline std::optional<GainMethod> gain_method(const Finding& finding) {
  if (!finding.gain_s) return {};
  return finding.gain_error_s ? GainMethod::kReplay : GainMethod::kSums;
}
// For programs.
constexpr std::string_view name_of(GainMethod method) {
  return kGainMethodNames[static_cast<std::size_t>(method)];
}
constexpr std::optional<std::string_view> name_of(std::optional<GainMethod> method) {
  return method ? std::optional(name_of(*method)) : std::nullopt;
}

}  // namespace clusterprof::report
