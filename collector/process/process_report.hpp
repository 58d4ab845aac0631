// SPDX-License-Identifier: BSD-3-Clause
// What is known about one process at one instant, or the sum over several processes of a rank. Call paths are
// nodes of the RawStore. ProcessRecorder fills it, NodeState adds up, ShardBuilder reads it. Plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/charge/amounts.hpp"
#include "collector/charge/path_times.hpp"
#include "collector/charge/task_times.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/memory/labelled_amounts.hpp"
#include "collector/memory/memory_reader.hpp"
#include "collector/mpi/event_log.hpp"
#include "collector/mpi/mpi_amounts.hpp"
#include "collector/process/openmp_amounts.hpp"
#include "collector/process/openmp_series.hpp"
#include "collector/process/thread_loops.hpp"
#include "collector/process/thread_table.hpp"
#include "collector/process/thread_ties.hpp"
#include "collector/rings/recorded_windows.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

// What one process reported, or several added up.
struct ProcessReport {
  std::int32_t pid = 0, parent_pid = 0, rank = -1, world_size = -1, mpi_rank = -1, mpi_size = -1;
  std::uint64_t start_mono_ns = 0;
  std::int64_t start_utc_ns = 0;
  std::uint64_t end_mono_ns = 0;  // as the agent told; 0: it did not
  std::uint32_t exit_flags = 0;   // wire::ExitFlags
  std::int32_t exit_status = 0;
  std::uint32_t fatal_signal = 0;
  wire::MpiState mpi_state = wire::MpiState::kNone;
  std::uint32_t python_version = 0;
  std::array<std::uint64_t, wire::kUnrecordedReasons> unrecorded_programs{};  // by wire::UnrecordedReason
  bool python_unread = false;  // an interpreter's frames were not read, or none was looked for
  bool python_partly = false;  // they were, but something about them is missing
  // Why, and other problems: codes of NoteScope::kRanks with their numbers, the first kMaxNotes.
  std::set<std::pair<shard::NoteCode, std::uint64_t>> notes;
  std::string mpi_library;
  wire::ProcessUsage usage{};
  std::optional<std::uint32_t> last_path;  // of the main thread's last sample
  // Of a process that has ended or is about to. `rank` is 0, and the text may hold secrets.
  std::optional<shard::Failure> last_words;
  std::uint64_t threads = 0, processes = 0;
  std::uint64_t samples = 0, truncated = 0, merges_tried = 0, merges_failed = 0, handler_ns = 0;
  std::uint64_t mpi_ns = 0;  // main thread inside MPI
  // When MPI_Init returned and MPI_Finalize was entered, since the process began; 0: not seen.
  std::uint64_t mpi_init_end_ns = 0, mpi_finalize_begin_ns = 0;
  HelperThreads mpi_helpers;
  std::vector<RawCallUnderWay> calls_under_way;
  std::uint64_t paused_ns = 0;  // of the main thread
  std::vector<RecordedWindow> windows;
  bool leaves_gaps = false;           // nothing is recorded outside of the windows
  std::uint64_t mpi_runnable_ns = 0;  // of mpi_ns, without a processor
  bool knows_run_delay = false;       // the kernel tells how long threads wait for a processor
  // Threads that ended before their first sample, and their CPU time.
  std::uint64_t unsampled_threads = 0, unsampled_cpu_ns = 0;
  bool counters_multiplexed = false;
  // Samples of running threads, and the time between them: their ratio is the sampling rate that was reached.
  std::uint64_t running_samples = 0, running_ns = 0;
  bool knows_page_faults = false;  // at least some samples told
  HandlerCosts handler_costs;
  std::map<std::string, std::uint64_t> drops;
  std::map<std::string, std::string> unavailable_counters;
  std::unordered_map<RawValueKey, RawAmount, RawKeyHash> values;
  std::unordered_map<RawCounterKey, std::uint64_t, RawKeyHash> counters;
  std::unordered_map<RawCallKey, RawCall, RawKeyHash> calls;
  std::unordered_map<std::uint32_t, RawRegion> regions;   // by path
  std::unordered_map<std::uint32_t, RawAccess> accesses;  // by path
  std::map<RawMutexKey, RawMutexWait> mutex_waits;
  std::unordered_map<RawIoKey, RawIo, RawKeyHash> io;
  MemoryReader::Sums memory;
  std::uint64_t memory_interval_bytes = 0;   // of --memory now; 0: memory is not recorded
  std::uint64_t memory_untracked_bytes = 0;  // that live or not: there was no room for their blocks
  std::uint64_t memory_static_bytes = 0;     // of object files; the most of all processes
  RawLabelledMemory labelled_memory;
  SeriesBlock main_series{kMainColumns};  // of the main thread, by column
  SeriesBlock counter_series;             // by RawTables::counters
  std::vector<PathTime> open_times;       // of all threads; not in PathTimes, since they may change
  std::map<std::pair<std::int32_t, std::int32_t>, RawTraffic> traffic;  // world ranks; -1 not known
  // To members that are known by their numbers in a communicator: by its identity, and number.
  std::map<std::pair<std::uint64_t, std::int32_t>, RawTraffic> group_traffic;
  std::map<std::uint32_t, SizeBins> sizes;                  // by MPI function number
  std::map<std::uint64_t, CommunicatorInfo> communicators;  // by identity
  std::map<std::uint64_t, RawCollectives> collectives;      // by identity of the communicator
  std::vector<RawMpiError> mpi_errors;
  std::vector<RawOpenRequests> open_requests;
  std::uint32_t mpi_unseen = 0;  // wire::MpiUnseen
  std::uint64_t mpi_operations = 0;
  std::array<std::shared_ptr<const EventLog>, 2> events;  // by Events; null: not asked for
  std::vector<ClockReading> clocks;
  ThreadTable thread_table;
  std::vector<RawThreadSpan> thread_spans;  // of the rank's main process, when it has ended
  RawOpenMp openmp;
  SeriesBlock openmp_series{kOpenMpColumns};  // of the main thread's regions, by column

  RawTasks tasks;
  std::vector<RawLoop> loops;  // of all threads; of many loops the busiest

  // Of a rank. More is counted ("event_loop_rows").
  static constexpr std::size_t kMaxLoops = 128;
  void add_loops(const std::vector<RawLoop>& more);

  static constexpr std::size_t kMaxNotes = 16;
  void add_note(shard::NoteCode code, std::uint64_t number = 0);
  // Adds the amounts of another process of the same rank, but not its identity, end, usage and events.
  void add_amounts(const ProcessReport& other, bool keep_main_thread);
  // Adds what the same process did before it executed this program.
  void begin_with(const ProcessReport& past);
  // Call this for the sum over programs that have ended, of which there may be any number: bounds the rows
  // that are not of call paths alone. Locks are then told apart by place and variable only, because an
  // address says nothing about another process.
  static constexpr std::size_t kMostWaitsOfEnded = 2048, kMostCallsOfEnded = 1024, kMostErrorsOfEnded = 256,
                               kMostOpenOfEnded = 256;
  void limit_ended();
  // Call this for the sum over a whole rank. Threads other than its main thread that were blocked in accept,
  // recv or on a pipe had nothing to do, so that time becomes idle. Time in which they ran there stays I/O.
  void call_waiting_helpers_idle(const RawTables& tables);
};

// Whether such a value is of a call that waits for others: accept, recv, a read of a pipe and the like.
[[nodiscard]] bool is_wait_for_others(const RawTables& tables, const RawValueKey& key);

}  // namespace clusterprof::collector
