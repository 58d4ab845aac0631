// SPDX-License-Identifier: BSD-3-Clause
// Reads the samples of a process's threads from their rings and charges the time since each thread's previous
// sample:
//
//   ring record -> read_record() -> StackCharges (call path, category) -> ThreadAccount -> ProcessCharges
//
// It also tells GapTimeline what was done between the thread's MPI events. Impossible records are counted
// ("damaged_record"). Times are in nanoseconds of the monotonic clock. Only the thread that polls the process
// may call this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collector/charge/amounts.hpp"
#include "collector/charge/process_charges.hpp"
#include "collector/charge/stack_charges.hpp"
#include "collector/charge/thread_account.hpp"
#include "collector/mpi/event_reader.hpp"
#include "collector/mpi/gap_timeline.hpp"
#include "collector/process/busiest_path.hpp"
#include "collector/process/last_path.hpp"
#include "collector/process/native_callers.hpp"
#include "collector/process/stay.hpp"
#include "collector/process/thread_loops.hpp"
#include "collector/process/thread_ties.hpp"
#include "collector/process/wakes.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/sample_reader.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

// A thread that is being recorded, from when its slot shows it until the slot is free again.
struct RecordedThread {
  // kEnded: the thread has reported its end, but its slot is not free yet.
  enum class State : std::uint8_t { kNone, kActive, kEnded };

  State state = State::kNone;
  std::int32_t tid = 0;
  std::uint64_t start_time_ns = 0, start_function = 0;  // as the slot has them
  bool main = false;
  std::uint64_t ended_ns = 0;                // kEnded: when
  std::uint64_t unsampled_since_cpu_ns = 0;  // its CPU time at the last sample of it running
  // What is known of it for its row in the table of threads.
  std::uint64_t begin_ns = 0, begin_cpu_ns = 0;
  std::string kernel_name, inherited_name,
      python_name;  // the first two empty: not known; the last: it has none
  bool runs_python = false;
  StackResolver::ThreadOrigin origin;
  std::uint32_t origins_looked_for = 0;
  std::uint32_t last_path = 0;
  BusiestPath busiest;
  Stay stay;
  FrameWords words;
  ThreadAccount account;
  SampledTime sampled;
  ThreadEvents events;
  ThreadTimeline ties;
  ThreadLoops loops;
  // The mutex that it was seen to wait for; address 0: none. How long it had waited when it was seen.
  RawMutexKey mutex;
  std::uint64_t mutex_since_ns = 0, mutex_since_cpu_ns = 0, mutex_before_ns = 0;
  RawMutexKey last_mutex;        // if its last wait that was seen was for a mutex
  bool awaits_wake = false;      // it is none, but a word that another thread has to wake it for
  bool mutex_may_go_on = false;  // the sample before this one may have seen the same wait
  std::vector<Spin> spins;       // for one spin lock, each of the samples in a row that found it there
  // Where it was, from when on.
  PlacesOfThread places;
  // How long it has waited for it, at most; without its CPU time if that is known.
  [[nodiscard]] std::uint64_t mutex_wait_ns(std::uint64_t until_ns,
                                            std::optional<std::uint64_t> cpu_ns) const noexcept;
  // Of a process with windows of recording: none is open for the thread; and the edges that have been taken.
  bool is_off = false;
  std::uint64_t window_begin_ns = 0, window_end_ns = 0;
};

struct SampleStatistics {
  std::uint64_t samples = 0;
  // Samples of threads that ran, and the time that these sampled: together the rate reached.
  std::uint64_t running_samples = 0, running_ns = 0;
  // Threads that ended before their first sample, and their CPU time.
  std::uint64_t unsampled_threads = 0, unsampled_cpu_ns = 0;
  bool knows_page_faults = false;  // at least some samples told
  HandlerCosts handler_costs;
};

class SampleCharger {
 public:
  // All of them must outlive it.
  SampleCharger(const SegmentView& segment, RawStore& store, StackResolver& stacks, ProcessCharges& charges,
                MpiEventReader& events, DropCounts& drops);

  // A record of the thread's ring. `latest_ns`: no clock reading is later.
  void take(RecordedThread& thread, std::uint32_t slot, const wire::RecordHeader& record,
            const wire::Ring& ring, std::uint64_t latest_ns);

  // Takes the edges of windows of recording that the slot tells of, up to that time.
  void take_window_edges(RecordedThread& thread, const wire::ThreadSlot& slot, std::uint64_t until_ns);

  // Closes the account of a thread that did not report its end: it was killed, or its process is gone.
  void end_without_record(RecordedThread& thread, std::uint64_t time_ns);

  // Tells where a thread of the process was last; 0: not known.
  using PathOfThread = std::function<std::uint32_t(std::int32_t tid)>;
  void ask_for_paths(PathOfThread path_of_thread) { path_of_thread_ = std::move(path_of_thread); }
  [[nodiscard]] std::map<RawMutexKey, RawMutexWait> mutex_waits() const;
  [[nodiscard]] RawMutexKey lock_of(const RecordedThread& thread) const {
    return thread.awaits_wake ? wakes_.of_object(thread.mutex) : thread.mutex;
  }
  // The rings of all threads have been read up to then (monotonic clock): who ended the waits that had ended
  // is known now, if it is ever known.
  void settle_waits(std::uint64_t until_ns);

  [[nodiscard]] std::size_t count_wakes() const noexcept { return wakes_.count(); }

  // Which thread has made and joined which one.
  [[nodiscard]] ThreadTies& ties() noexcept { return ties_; }

  // From now on samples do not change where threads were last: the process is being ended by a signal, whose
  // handler is not what it was doing.
  void hold_places() noexcept { holds_places_ = true; }

  // When the latest record was written, of all threads; 0: there is none.
  [[nodiscard]] std::uint64_t latest_record_ns() const noexcept { return latest_record_ns_; }
  [[nodiscard]] const SampleStatistics& statistics() const noexcept { return statistics_; }
  [[nodiscard]] const LastPath& last_path() const noexcept { return last_path_; }
  // Whether it may be a pool's thread, whose time counts for the thread that uses the pool: samples of other
  // threads are to be taken first.
  [[nodiscard]] bool may_be_used(const RecordedThread& thread) const;
  // A thread begins that has this slot.
  void begin_thread(std::uint32_t slot) { callers_.forget(slot); }
  // Of such a thread: until when it is known for whom it works (monotonic clock).
  [[nodiscard]] std::uint64_t user_known_until_ns(const RecordedThread& thread) {
    return callers_.known_until_ns(thread.origin.module, store_.tables());
  }
  // The time between samples, as it was asked for; and whether the CPU clock is the base of all times.
  [[nodiscard]] std::uint64_t period_ns() const noexcept { return period_ns_; }
  [[nodiscard]] bool cpu_clock() const noexcept { return cpu_clock_; }

 private:
  void take_tie(RecordedThread& thread, const wire::RecordHeader& record, const wire::Ring& ring,
                std::uint64_t latest_ns);
  // For what is between MPI events, and between ties to other threads.
  static void spent(RecordedThread& thread, std::uint64_t begin_ns, std::uint64_t end_ns,
                    const IntervalPaths& paths, double share = 1);
  void sampled_until(RecordedThread& thread, std::uint64_t time_ns);
  void take_end(RecordedThread& thread, const RingSample& sample, std::uint64_t time_ns);
  void take_pause(RecordedThread& thread, const RingSample& sample, std::uint64_t time_ns);
  void take_stack(RecordedThread& thread, std::uint32_t slot, const RingSample& sample,
                  std::uint64_t time_ns);
  void take_edge(RecordedThread& thread, bool begins, std::uint64_t time_ns, std::uint64_t cpu_ns);
  // A wait that the sample before has seen ends; and one may begin.
  // The sample that ends a wait finds the thread in a wait: as in EndedWait.
  struct SeenWaiting {
    std::uint64_t between_ns = 0;
    bool may_go_on = false;
  };
  void end_mutex_wait(RecordedThread& thread, std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns,
                      const SeenWaiting& again);
  void end_spins(RecordedThread& thread, std::uint64_t time_ns);
  static void unite_spins(std::vector<Spin>& spins);
  void end_waits(RecordedThread& thread, std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns);
  void add_mutex_wait(RawMutexKey mutex, const RawMutexWait& wait, std::size_t most = kMostMutexWaits);
  // Charges the wait to what the thread that ended it did meanwhile.
  void settle(const EndedWait& ended, const Wake* wake);
  void take_mutex(RecordedThread& thread, const wire::SampleRecord& record, bool blocked,
                  const ChargeTarget& target, const ThreadAccount::Charged& charged, std::uint64_t time_ns);
  void take_spin(RecordedThread& thread, const wire::SampleRecord& record, const ChargeTarget& target,
                 const ThreadAccount::Charged& charged, std::uint64_t time_ns);
  void count(RecordedThread& thread, const wire::SampleRecord& record, bool blocked,
             const ChargeTarget& target, const ThreadAccount::Charged& charged);
  // What the sample says of the thread, besides where its time is charged to.
  [[nodiscard]] std::uint32_t function_of(std::uint32_t path) const;
  void know_thread(RecordedThread& thread, bool blocked, const ChargeTarget& target,
                   const ThreadAccount::Charged& charged) const;
  [[nodiscard]] Place place_of(const ChargeTarget& target, const wire::SampleRecord& record) const;
  [[nodiscard]] ChargeTarget find_target(RecordedThread& thread, std::uint32_t flags, bool blocked,
                                         std::uint64_t time_ns, StackContext& context);
  // The row of the task that ran at the sample; ChargeTarget::kNoRow: none did, or its frames are not all
  // there.
  [[nodiscard]] std::uint32_t task_row(const RecordedThread& thread, const RingSample& sample,
                                       const StackContext& context);
  void end_account(RecordedThread& thread, std::uint64_t time_ns, std::optional<std::uint64_t> cpu_ns,
                   const KernelUse* kernel, std::span<const std::uint64_t> counters);
  [[nodiscard]] KernelUse kernel_use(const wire::SampleRecord& record) const;
  // Where an interval between MPI calls shows a thread that had no processor on this path; kNoPath of
  // kNoPath.
  [[nodiscard]] std::uint32_t runnable_path(std::uint32_t path);

  const SegmentView& segment_;
  RawStore& store_;
  StackResolver& stacks_;
  ProcessCharges& charges_;
  MpiEventReader& events_;
  DropCounts& drops_;
  StackCharges stack_charges_;
  std::uint64_t latest_record_ns_ = 0;
  const std::uint64_t period_ns_;
  const bool cpu_clock_;
  SampleStatistics statistics_;
  LastPath last_path_;
  static constexpr std::size_t kMostMutexWaits = 4096, kMostSpins = 64;
  std::map<RawMutexKey, RawMutexWait> mutex_waits_;
  Wakes wakes_;
  PathOfThread path_of_thread_;
  NativeCallers callers_;
  ThreadTies ties_;
  std::vector<std::uint64_t> task_words_;  // of task_row()
  bool holds_places_ = false;
};

}  // namespace clusterprof::collector
