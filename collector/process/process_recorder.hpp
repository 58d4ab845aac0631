// SPDX-License-Identifier: BSD-3-Clause
// Everything the collector takes out of one segment: drains its rings, turns samples into time on raw
// call paths, and reads its tables of MPI calls.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/charge/path_times.hpp"
#include "collector/charge/thread_account.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/mpi/event_log.hpp"
#include "collector/mpi/gap_timeline.hpp"
#include "collector/names/syscalls.hpp"
#include "collector/process/process_report.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/flat_index.hpp"
#include "collector/stacks/raw_store.hpp"

namespace clusterprof::collector {

class ProcessRecorder {
 public:
  // All but the segment must outlive it. The grid reaches back to the start of the process already.
  ProcessRecorder(SegmentView segment, RawStore& store, TimeGrid& grid, PathTimes& path_times);
  ProcessRecorder(const ProcessRecorder&) = delete;
  ProcessRecorder& operator=(const ProcessRecorder&) = delete;
  ~ProcessRecorder();

  // How many MPI events to keep at most, in all and for Events::kFew.
  void set_event_budget(std::size_t all, std::size_t few);

  // Drains all rings. Returns how full the fullest one was, 0..1, or how many of the places for threads
  // were waiting to be freed, whichever is more.
  double poll(std::uint64_t now_ns);

  // The process is gone, or became another program, at `end_ns`: drains, and closes the accounts of
  // threads that did not say goodbye. Afterwards only report() may be called.
  void finish(std::uint64_t end_ns);

  // What was counted inside MPI since the last time becomes part of the series of counters. Once a second or
  // so.
  void update_mpi_counters(std::uint64_t now_ns);

  // As of now; for a process that lives, including the time since each thread's last sample.
  [[nodiscard]] ProcessReport report(std::uint64_t now_ns, Events which = Events::kAll);

  [[nodiscard]] const wire::SegmentHeader& header() const noexcept { return segment_.header(); }

 private:
  struct Mapping {
    std::uint64_t start, end, load_bias;
    std::uint32_t epoch, module;
    ModuleRole role;
  };
  struct Thread {
    std::int32_t tid = 0;
    std::uint64_t start_time_ns = 0, start_function = 0;
    bool main = false;
    // kDone: it said goodbye, its slot is still taken.
    enum class State : std::uint8_t { kNone, kActive, kDone } state = State::kNone;
    ThreadAccount account;
    std::vector<std::uint64_t> words;  // frames of its last sample, leaf first
    SampledTime sampled;
    GapTimeline timeline;
    std::optional<std::uint32_t> event_number;  // among the threads with events
    std::uint64_t said_goodbye_ns = 0;          // kDone: when
    std::uint64_t unsampled_since_cpu_ns = 0;   // its CPU time at the last sample of it running
  };
  struct StackFrame {
    std::uint32_t frame;  // RawStore::frame
    bool python;
    ModuleRole role;  // of native frames
    bool settled;     // false: refers to something not described (yet)
  };
  struct Stack {
    std::uint32_t path = 0;
    bool in_interpreter = false;  // category python unless a system call or MPI says otherwise
    bool leaf_shown = false;
    bool settled = false;  // all its frames are
  };
  struct StackContext {
    std::uint32_t mpi_op = 0;  // function number + 1
    bool in_syscall = false;
    bool waiting_for_gil = false;
    bool collecting_garbage = false;
    std::optional<Descriptor> descriptor;
    bool call_site = false;  // the words are the path of a site, without the wrappers
    std::int32_t syscall_nr = -1;
    std::uint32_t epoch = 0;
  };
  struct Sink;
  struct ReportSink;

  void check_start(std::uint64_t now_ns);
  void read_modules();
  void read_counter_names();
  void settle_pending(std::uint64_t now_ns);
  void settle_addresses();
  void settle_codes();
  void settle_regions();
  void name_pending();
  void find_slots(std::uint64_t now_ns);
  double drain(std::uint32_t slot_index, std::uint64_t now_ns);
  void take_sample(Thread& thread, std::uint32_t slot_index, const wire::RecordHeader& record,
                   const wire::Ring& ring, std::uint64_t latest_ns);
  // Those of the slot's ring that ended by `until_ns`.
  void take_events(Thread& thread, std::uint32_t slot_index, std::uint64_t until_ns, std::uint64_t latest_ns);
  [[nodiscard]] bool is_sane(const Thread& thread, const wire::MpiEvent& event,
                             std::uint64_t latest_ns) const;
  [[nodiscard]] std::uint64_t waiting_in_event_ring(std::uint32_t slot_index) const;
  void keep_event(Thread& thread, const wire::MpiEvent& event, std::span<const GapPart> gap);
  void finish_events(Thread& thread);
  void agree_on_event_level();
  // The call path of a call site, its last frame the MPI function `op`.
  std::uint32_t event_path(std::uint32_t site_index, std::uint16_t op);
  std::uint32_t site_path(std::uint32_t site_index, std::uint16_t op);
  // Of the words of a site; mpi_op as in StackContext. No value: they lie outside.
  std::optional<std::uint32_t> arena_path(std::uint64_t offset, std::uint32_t count, std::uint32_t mpi_op);
  void read_clocks(ProcessReport& report, std::uint64_t now_ns) const;
  // What a sample with this call path is charged to.
  ChargeTarget charge_target(const std::uint64_t* words, std::uint32_t count, const StackContext& context,
                             bool main_thread);
  // With a row; where there is no room for one, that of the path without its callers.
  ChargeTarget charge_target(const RawValueKey& key);
  std::uint32_t value_row(RawValueKey key);
  [[nodiscard]] std::uint32_t find_row(const RawValueKey& key) const noexcept;
  [[nodiscard]] bool has_room_for_row();
  void note_left_out(std::uint32_t path);
  void remember(std::uint64_t hash, std::uint32_t row);
  [[nodiscard]] std::uint32_t interpreter_module() const;
  [[nodiscard]] const Mapping* find_mapping(std::uint64_t pc, std::uint32_t epoch) const;
  Stack resolve_stack(const std::uint64_t* words, std::uint32_t count, const StackContext& context);
  // The part of the path above the leaf, of which only the role matters.
  Stack build_stack(const std::optional<StackFrame>& leaf, const std::uint64_t* words, std::uint32_t count,
                    const StackContext& context, bool& settled);
  StackFrame native_frame(std::uint64_t word, bool exact, std::uint32_t epoch);
  StackFrame python_frame(std::uint64_t code_id, std::uint32_t instruction);
  enum class CodeState : std::uint8_t {
    kNotYet,  // not described, or just about to be
    kKnown,   // in codes_
    kNever,
  };
  CodeState find_code(std::uint64_t code_id);
  std::uint32_t read_code(std::uint64_t offset);  // of the entry, in the code arena
  StackFrame region_frame(std::uint32_t index);   // < layout().regions
  // Of a region that is described; no value: it is not.
  std::optional<std::uint32_t> region_name(std::uint32_t index);
  // The node whose innermost frame is the region; no value: there cannot be one.
  std::optional<std::uint32_t> region_path(std::uint32_t index);
  // `instruction`: of a Python frame; for a native one 0 when `value` is exact, 1 for a return address.
  std::uint32_t pending_frame(std::uint64_t value, std::uint32_t instruction, std::uint32_t epoch,
                              shard::FrameKind kind);
  void read_tables(ProcessReport& report);
  void read_regions(ProcessReport& report);
  void read_io(ProcessReport& report);
  std::uint32_t io_file(std::uint32_t index);
  std::uint32_t io_site_path(std::uint32_t index);
  // What a sample of running native code says of the data it uses.
  void note_access(std::uint32_t row, const wire::SampleRecord& sample);
  [[nodiscard]] std::uint64_t paused_ns(std::uint64_t now_ns) const;
  // Where an interval between MPI calls shows a thread that had no processor on this path; kNoPath of
  // kNoPath.
  std::uint32_t runnable_path(std::uint32_t path);
  // The call path of a thread's start function.
  std::uint32_t start_path(std::uint64_t start_function);
  void add_unrecorded_threads(ProcessReport& report, std::uint64_t now_ns);
  // Closes the account of a thread; `kernel`: it has told itself that it ends.
  void end_account(Thread& thread, std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns,
                   const KernelUse* kernel, std::span<const std::uint64_t> counters);
  void count_drop(const char* reason, std::uint64_t count = 1) { own_drops_[reason] += count; }
  void update_measured_mpi(std::uint64_t now_ns);
  [[nodiscard]] std::uint64_t mpi_ns_of(const wire::ThreadSlot& slot, std::uint64_t now_ns) const;
  // What the thread adds to ProcessReport::mpi_helpers.
  [[nodiscard]] HelperThreads helper_of(const Thread& thread, const wire::ThreadSlot& slot,
                                        std::uint64_t now_ns) const;
  void note_last_path(std::span<const std::uint64_t> words, std::uint32_t path, std::uint64_t time_ns);
  [[nodiscard]] std::optional<std::uint32_t> last_path(
      const std::vector<RawCallUnderWay>& calls_under_way) const;
  [[nodiscard]] std::optional<RawCallUnderWay> call_under_way(const Thread& thread,
                                                              const wire::ThreadSlot& slot,
                                                              std::uint64_t now_ns);
  // The thread has ended, or its process: what it did in MPI.
  void end_mpi(const Thread& thread, const wire::ThreadSlot& slot, std::uint64_t now_ns);

  SegmentView segment_;
  RawStore& store_;
  TimeGrid& grid_;
  PathTimes& path_times_;
  std::int32_t pid_;
  std::uint64_t start_mono_ns_;
  enum class Start : std::uint8_t { kUnchecked, kBelieved, kRefused } start_ = Start::kUnchecked;
  std::uint64_t period_ns_;
  bool cpu_clock_;
  bool finished_ = false;
  std::vector<std::uint32_t> counter_index_;  // of this process -> RawTables::counters

  std::vector<Mapping> mappings_;                           // sorted by start
  std::vector<std::uint64_t> mappings_reach_;               // largest end of mappings_[0..i]
  std::uint64_t modules_read_ = 0;                          // bytes of the module arena
  std::unordered_map<std::uint64_t, std::uint32_t> codes_;  // code id -> RawStore::code

  struct PendingKey {
    std::uint64_t value;
    std::uint32_t instruction, epoch;
    friend auto operator<=>(const PendingKey&, const PendingKey&) = default;
  };
  using Pending = std::map<PendingKey, std::uint32_t>;  // -> RawStore frame, not settled yet
  // Looked at when there is news: that of code made at run time never settles.
  Pending pending_addresses_, pending_codes_, pending_regions_;
  bool new_modules_ = false;
  std::uint64_t codes_used_ = 0;  // code_arena_used when pending_codes_ was looked at
  std::uint64_t next_code_search_ns_ = 0;

  std::vector<std::uint32_t> slots_;                   // in use at some time
  std::unordered_map<std::uint32_t, Thread> threads_;  // by slot
  std::uint64_t threads_seen_ = 0;
  std::uint32_t ended_threads_ = 0;  // in this round
  std::uint64_t next_slot_search_ns_ = 0;
  int slot_searches_ = 0;  // still to be made because threads_seen changed
  // Paths above the leaf, by hash; targets of whole samples, by hash, the latest of each place.
  FlatIndex stack_cache_;
  std::vector<Stack> stacks_;
  struct RememberedTarget {
    std::uint64_t hash = 0;
    std::uint32_t row = 0;  // of values_
  };
  std::vector<RememberedTarget> targets_;
  std::size_t targets_replaced_ = 0;                             // since targets_ grew
  std::vector<StackFrame> frames_, region_frames_;               // scratch
  std::vector<std::uint32_t> path_frames_;                       // likewise
  std::unordered_map<std::uint32_t, std::uint32_t> site_paths_;  // MpiSite -> node of the RawStore
  std::unordered_map<std::uint32_t, std::uint32_t> io_site_paths_, region_paths_;  // likewise
  std::unordered_map<std::uint32_t, std::uint32_t> io_files_;                      // -> RawTables::files
  std::unordered_map<std::uint32_t, std::uint32_t> region_names_;                  // -> RawTables::names

  bool uses_mpi_ = false;  // the rings of MPI events may have been written
  std::uint32_t event_threads_ = 0;
  std::array<std::shared_ptr<EventLog>, 2> events_;  // by Events

  std::uint64_t samples_ = 0;
  // Where the main thread was last seen, and where below the module that a Python process runs, by the code
  // of its outermost Python frame: what runs when the interpreter ends is below no module.
  struct Seen {
    std::uint32_t path = 0;
    std::uint64_t time_ns = 0;
  };
  std::optional<Seen> last_seen_;
  std::unordered_map<std::uint64_t, Seen> last_seen_below_;
  std::uint64_t ended_main_mpi_ns_ = 0;
  HelperThreads ended_helpers_;
  std::vector<RawCallUnderWay> calls_at_end_;  // under way when their thread or the process ended
  std::uint64_t running_samples_ = 0, running_ns_ = 0;
  bool knows_page_faults_ = false;
  HandlerCosts handler_costs_;
  struct Value {
    RawValueKey key;
    RawAmount amount;
  };
  std::vector<Value> values_;
  FlatIndex value_rows_;
  std::size_t rows_taken_ = 0, short_rows_ = 0;  // RawStore::take_rows, StoreLimits
  bool left_out_ = false;                        // callers of some paths are
  std::unordered_map<RawCounterKey, std::uint64_t, RawKeyHash> counters_;
  std::uint64_t paused_ns_ = 0;  // of the main thread, by its records
  std::uint64_t mpi_runnable_ns_ = 0, unsampled_threads_ = 0, unsampled_cpu_ns_ = 0;
  SeriesBlock main_series_{ProcessReport::kMainColumns}, counter_series_;
  std::uint64_t measured_mpi_ns_ = 0, measured_mpi_until_ns_ = 0;   // that is in main_series_
  std::array<std::uint64_t, wire::kMaxCounters> counted_in_mpi_{};  // that is in counter_series_
  std::uint64_t counted_in_mpi_until_ns_ = 0;
  struct Access {
    std::uint32_t row = 0;  // of values_
    RawAccess amount;
  };
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> access_of_row_;  // FlatIndex::kAbsent: none
  bool knows_addresses_ = false;              // at least one sample had one
  std::map<std::string, std::uint64_t> own_drops_;
};

}  // namespace clusterprof::collector
