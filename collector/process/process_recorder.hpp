// SPDX-License-Identifier: BSD-3-Clause
// Reads everything from one process's shared memory. The stages do the work; this connects them:
//
//   ThreadSlots      which threads there are                                     rings/
//   SampleCharger    samples from their rings, and what they are charged to      process/, charge/, stacks/
//   MpiEventReader   MPI events from their rings, and which of them are kept      mpi/
//   TimeInMpi        time in MPI and calls under way, from the threads' slots     mpi/
//   MemoryReader     changes of what lives, with --memory                        memory/
//   ProcessTables    sums that agent and wrappers keep                           process/
//   OpenMpTables     the same of OpenMP regions                                  process/
//
// The node state polls it several times a second and asks for reports. Times are in nanoseconds of the
// monotonic clock. One thread at a time; a report can be given to another thread. Throws only for a lack of
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/charge/live_times.hpp"
#include "collector/charge/path_times.hpp"
#include "collector/charge/process_charges.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/memory/memory_reader.hpp"
#include "collector/mpi/call_sites.hpp"
#include "collector/mpi/event_log.hpp"
#include "collector/mpi/event_reader.hpp"
#include "collector/mpi/time_in_mpi.hpp"
#include "collector/process/openmp_series.hpp"
#include "collector/process/openmp_tables.hpp"
#include "collector/process/process_report.hpp"
#include "collector/process/process_tables.hpp"
#include "collector/process/sample_charger.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/recorded_windows.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/rings/thread_slots.hpp"
#include "collector/stacks/raw_store.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class ProcessRecorder {
 public:
  // All but the segment must outlive this. The grid already reaches back to the start of the process. `base`:
  // the call path below which all of this process's begin.
  ProcessRecorder(SegmentView segment, RawStore& store, TimeGrid& grid, PathTimes& path_times,
                  std::uint32_t base = 0);
  ProcessRecorder(const ProcessRecorder&) = delete;
  ProcessRecorder& operator=(const ProcessRecorder&) = delete;

  // The largest number of MPI events to keep, in all and for Events::kFew.
  void set_event_budget(std::size_t all, std::size_t few) { events_.set_budget(all, few); }
  // See MpiEventReader.
  void set_shared_clock(std::uint64_t offset_ns) { events_.set_shared_clock(offset_ns); }

  // The number of threads that it has accounts of, or is about to.
  [[nodiscard]] std::size_t count_threads(std::uint64_t now_ns);
  // Records that are kept of who ended waits.
  [[nodiscard]] std::size_t count_wakes() const noexcept { return samples_.count_wakes(); }

  // Empties all rings. Returns how full the fullest one was (0 to 1), or the fraction of thread slots that
  // were waiting to be freed, whichever is larger.
  double poll(std::uint64_t now_ns);

  // Tells the process that nothing is to be recorded any more.
  void turn_off(std::uint64_t now_ns);

  // When its latest record was written; 0: there is none.
  [[nodiscard]] std::uint64_t latest_record_ns() const noexcept { return samples_.latest_record_ns(); }

  // The process is being ended by a signal: where its threads were last stays what it is now.
  void hold_places() noexcept { samples_.hold_places(); }

  // Tells a process with windows of recording to have one open or not. `number`: of the request.
  void want_window(std::uint32_t number, bool open);
  // Whether it has done so.
  [[nodiscard]] bool has_done(std::uint32_t number, bool open) const;

  // The process has ended, or become another program, at `end_ns`. Empties the rings and closes the accounts
  // of threads that did not report their end. After this, only report() and what is about memory may be
  // called.
  void finish(std::uint64_t end_ns) { (void)finish(end_ns, end_ns); }
  // The same where only `now_ns` is sure to be behind the end: what was recorded after `end_ns` moves it.
  // Returns the end.
  std::uint64_t finish(std::uint64_t end_ns, std::uint64_t now_ns);

  // With --memory: what changed since the last call, and what lives with that. Of a process that has ended,
  // what it still had, and that it is given back.
  [[nodiscard]] std::vector<MemoryChange> take_memory_changes() { return memory_.take_changes(); }
  [[nodiscard]] std::vector<MemoryChange> live_memory(std::uint64_t now_ns) { return memory_.live(now_ns); }
  [[nodiscard]] std::vector<MemoryLeft> memory_left(std::uint64_t end_ns) { return memory_.left(end_ns); }
  [[nodiscard]] std::vector<MemoryChange> release_memory(std::uint64_t end_ns) {
    return memory_.release(end_ns);
  }

  // Adds what was counted inside MPI since the last call to the series of counters. Call it about once a
  // second.
  void update_mpi_counters(std::uint64_t now_ns) { tables_.update_mpi_counters(now_ns); }

  // The state at this instant. For a living process it includes the time since each thread's last sample.
  [[nodiscard]] ProcessReport report(std::uint64_t now_ns, Events which = Events::kAll);

  // The same with only what a live file has, quickly: of `values` only sums by category, on path 0. Gives the
  // time of call paths to `times`.
  [[nodiscard]] ProcessReport live_report(std::uint64_t now_ns, LiveTimes& times);
  // Gives what was charged since the last call, or live_report(), to `times`; null: to nobody, so that
  // the next one begins here.
  void take_new_times(LiveTimes* times) { charges_.take_new(times); }
  void stop_taking_times() noexcept { charges_.stop_taking(); }

  // At least since when the main thread has been at one place or in one MPI call, as of the last poll; 0: it
  // moves, or it is not known.
  [[nodiscard]] std::uint64_t main_thread_still_ns(std::uint64_t now_ns) const;

  // The call path on which this process made another one (wire::Creation). No value: not known.
  [[nodiscard]] std::optional<std::uint32_t> creation_path(std::uint64_t arena_offset, std::uint32_t words) {
    return stacks_.creation_path(arena_offset, words);
  }

  // Programs that it has executed or spawned and that will not be recorded, each once (wire::Launch). `all`:
  // also those that may still fail to start.
  struct Launched {
    std::int32_t pid = 0;
    wire::CreationKind kind = wire::CreationKind::kUnknown;
    wire::UnrecordedReason reason = wire::UnrecordedReason::kCount;
    std::uint64_t time_ns = 0, path_offset = 0;
    std::uint32_t path_words = 0;
    std::string command;  // bytes as in wire::Launch
  };
  [[nodiscard]] std::vector<Launched> take_launches(std::uint64_t now_ns, bool all);
  // Since when it executes a program in its own place, as it has noted and not taken back: it may still be
  // that it does not succeed.
  [[nodiscard]] std::optional<std::uint64_t> executes_since_ns(std::uint64_t now_ns) const;

  [[nodiscard]] const wire::SegmentHeader& header() const noexcept { return segment_.header(); }

 private:
  [[nodiscard]] bool may_be_used(std::uint32_t slot) const;
  // Empties the rings of a slot. Returns how full the fuller one was, 0..1.
  double drain(std::uint32_t slot_index, std::uint64_t now_ns);
  // Up to when the thread's samples are taken: those of a pool's thread stay in the ring for a moment while
  // it is not known for whom it works.
  [[nodiscard]] std::uint64_t taken_until_ns(const RecordedThread& thread, std::uint64_t waiting_bytes,
                                             std::uint64_t now_ns);
  void begin_thread(RecordedThread& thread, const wire::ThreadSlot& slot, std::uint64_t now_ns);
  // Another thread has the slot now, and this one did not report its end.
  void end_replaced_thread(RecordedThread& thread, std::uint64_t end_ns);
  void update_measured_mpi(std::uint64_t now_ns);
  void update_openmp(std::uint64_t now_ns);

  // The parts of a report.
  void add_identity(ProcessReport& report, std::uint64_t now_ns) const;
  void add_mpi_state(ProcessReport& report, std::uint64_t now_ns) const;
  void add_notes(ProcessReport& report) const;
  void add_statistics(ProcessReport& report) const;
  void add_last_words(ProcessReport& report);
  void add_charges(ProcessReport& report, std::uint64_t now_ns) const;
  void add_sums(ProcessReport& report, std::uint64_t now_ns) const;
  void add_memory(ProcessReport& report, std::uint64_t now_ns);
  void add_openmp(ProcessReport& report, std::uint64_t now_ns);
  void add_live_charges(ProcessReport& report, LiveTimes& times);
  void add_drops(ProcessReport& report) const;
  void add_events(ProcessReport& report, Events which);
  void add_unrecorded_threads(ProcessReport& report, std::uint64_t now_ns);
  void add_ended_threads(ProcessReport& report);
  // `live`: null, or as for live_report().
  void add_living_threads(ProcessReport& report, std::uint64_t now_ns, LiveTimes* live);
  void add_loops(std::vector<RawLoop>& loops, const RecordedThread& thread, const wire::ThreadSlot& slot,
                 std::uint64_t now_ns);
  // The names that the slot has at this moment.
  static void read_names(RecordedThread& thread, const wire::ThreadSlot& slot);
  // `account`: up to end_ns.
  [[nodiscard]] shard::Thread row_of(const RecordedThread& thread, const ThreadAccount& account,
                                     std::uint64_t end_ns, bool runs);
  void keep_ended(RecordedThread& thread, std::uint64_t end_ns);
  [[nodiscard]] std::uint64_t paused_ns(std::uint64_t now_ns) const;

  SegmentView segment_;
  const RawStore& store_;
  TimeGrid& grid_;
  std::int32_t pid_;
  ProcessStart start_;
  RecordedWindows windows_;
  DropCounts drops_;
  ThreadSlots slots_;
  StackResolver stacks_;
  ProcessCharges charges_;
  MpiCallSites call_sites_;
  MpiEventReader events_;
  TimeInMpi time_in_mpi_;
  SampleCharger samples_;
  MemoryReader memory_;
  ProcessTables tables_;
  OpenMpTables openmp_;
  OpenMpSeries openmp_series_;

  std::unordered_map<std::uint32_t, RecordedThread> threads_;    // by slot
  std::vector<RawLoop> ended_loops_;                             // of threads that have ended
  std::array<std::uint64_t, wire::kLaunches> launches_taken_{};  // by row: the number that was there
  ThreadTable ended_threads_;
  std::uint32_t freed_slots_ = 0;                                  // in this round
  std::uint64_t measured_mpi_ns_ = 0, measured_mpi_until_ns_ = 0;  // that is in the series of the main thread
  std::uint64_t read_until_ns_ = 0;                                // all rings, in the round before
  std::uint64_t left_from_ns_ = 0;  // in this round, samples from then on were left in a ring
  bool takes_all_ = false;          // nothing comes behind what is in the rings
  bool finished_ = false;
};

}  // namespace clusterprof::collector
