// SPDX-License-Identifier: BSD-3-Clause
// Adds up the samples of one process: wall and CPU time, samples, counters and data addresses by call path,
// and the same over time. ThreadAccount decides what is charged to which path, and passes it to a ChargeSink.
//
// Memory is bounded: the RawStore has a limited number of rows for all processes of the node. If none is
// left, a path is charged without its callers (RawStore::shorten). Times are in nanoseconds of the monotonic
// clock. Only the thread that polls the process may call this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "collector/charge/amounts.hpp"
#include "collector/charge/live_times.hpp"
#include "collector/charge/path_times.hpp"
#include "collector/charge/task_times.hpp"
#include "collector/charge/thread_account.hpp"
#include "collector/charge/time_series.hpp"
#include "collector/stacks/flat_index.hpp"
#include "collector/stacks/raw_store.hpp"
#include "formats/wire/segment.h"

namespace clusterprof::collector {

class ProcessCharges {
 public:
  // All of them must outlive it.
  ProcessCharges(RawStore& store, TimeGrid& grid, PathTimes& path_times)
      : store_(store), grid_(grid), path_times_(path_times) {}
  ~ProcessCharges() { store_.give_rows_back(rows_taken_); }
  ProcessCharges(const ProcessCharges&) = delete;
  ProcessCharges& operator=(const ProcessCharges&) = delete;

  struct Row {
    RawValueKey key;
    RawAmount amount;
  };

  // The row of a path. If no row is left: the row of the path without its callers.
  ChargeTarget target(const RawValueKey& key);
  // `target`: as target() returned it.
  [[nodiscard]] ChargeTarget target_of_row(std::uint32_t row) const noexcept {
    return {rows_[row].key.path, rows_[row].key.category, row};
  }
  void add_time(const ChargeTarget& target, bool main_thread, std::uint64_t wall_ns, std::uint64_t cpu_ns) {
    const std::uint32_t row =
        target.row != ChargeTarget::kNoRow ? target.row : row_of({target.path, target.category, main_thread});
    rows_[row].amount.wall_ns += wall_ns;
    rows_[row].amount.cpu_ns += cpu_ns;
    if (target.task != ChargeTarget::kNoRow) tasks_.add(target.task, wall_ns, cpu_ns);
  }
  [[nodiscard]] TaskTimes& tasks() noexcept { return tasks_; }
  [[nodiscard]] const TaskTimes& tasks() const noexcept { return tasks_; }
  // Gives all time since the last call to `times`; null: to nobody. What helper threads waited counts for
  // nothing.
  void take_new(LiveTimes* times);
  // Takes no memory for this any more; the next call gives all time since the process's start.
  void stop_taking() noexcept { taken_ns_ = {}; }
  void add_sample(std::uint32_t row) noexcept { ++rows_[row].amount.samples; }
  // A sample of running native code. `data_address`: the address that its instruction uses, if `has_address`.
  void add_access(std::uint32_t row, bool has_address, std::uint64_t data_address);

  // The process's performance counters, as indices into RawTables::counters, in the order of its samples. The
  // agent opens counters after the greeting, and writes their names before the first sample that has them.
  void read_counter_names(const wire::SegmentHeader& header);
  [[nodiscard]] const std::vector<std::uint32_t>& counter_numbers() const noexcept {
    return counter_numbers_;
  }

  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }
  using Counters = std::unordered_map<RawCounterKey, std::uint64_t, RawKeyHash>;
  [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
  // By call path. Empty if no sample had an address.
  [[nodiscard]] std::unordered_map<std::uint32_t, RawAccess> accesses() const;
  [[nodiscard]] const SeriesBlock& main_series() const noexcept { return main_series_; }
  [[nodiscard]] const SeriesBlock& counter_series() const noexcept { return counter_series_; }
  // The main thread's time while recording was paused, and its time in MPI without a processor.
  [[nodiscard]] std::uint64_t paused_ns() const noexcept { return paused_ns_; }
  [[nodiscard]] std::uint64_t mpi_runnable_ns() const noexcept { return mpi_runnable_ns_; }
  // Whether callers of some paths were left out.
  [[nodiscard]] bool left_callers_out() const noexcept { return left_callers_out_; }

  // Adds time that calls measured, spread over that stretch.
  void add_measured_mpi(const Stretch& when, std::uint64_t ns) {
    main_series_.spread(grid_, kMeasuredMpiColumn, when.begin_ns, when.end_ns, ns);
  }
  void add_to_counter_series(std::uint32_t number, const Stretch& when, std::uint64_t value) {
    counter_series_.spread(grid_, number, when.begin_ns, when.end_ns, value);
  }

 private:
  friend class ChargeSink;

  struct Access {
    std::uint32_t row = 0;
    RawAccess amount;
  };
  std::uint32_t row_of(RawValueKey key);
  [[nodiscard]] std::uint32_t find_row(const RawValueKey& key) const noexcept;
  [[nodiscard]] bool has_room_for_row();

  RawStore& store_;
  TimeGrid& grid_;
  PathTimes& path_times_;
  std::vector<Row> rows_;
  std::vector<std::uint64_t> taken_ns_;  // by row, where somebody watches
  FlatIndex row_index_;
  std::size_t rows_taken_ = 0, short_rows_ = 0;  // RawStore::take_rows, StoreLimits
  bool left_callers_out_ = false;
  std::vector<std::uint32_t> counter_numbers_;
  Counters counters_;
  std::uint64_t paused_ns_ = 0, mpi_runnable_ns_ = 0;
  TaskTimes tasks_;
  SeriesBlock main_series_{kMainColumns}, counter_series_;
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> access_of_row_;  // FlatIndex::kAbsent: none
  bool has_addresses_ = false;
};

// Receives what the ThreadAccount of one thread charges, and adds it to the process's amounts.
class ChargeSink {
 public:
  ChargeSink(ProcessCharges& charges, bool main_thread) : charges_(charges), main_thread_(main_thread) {}

  void operator()(const ChargeTarget& target, std::uint64_t wall_ns, std::uint64_t cpu_ns) const {
    charges_.add_time(target, main_thread_, wall_ns, cpu_ns);
  }
  [[nodiscard]] ChargeTarget fault_target(const ChargeTarget& of) const {
    RawStore& store = charges_.store_;
    ChargeTarget target = charges_.target({store.leaf(of.path, store.frame({RawKind::kPageFault, 0, 0})),
                                           shard::Category::kSystem, main_thread_});
    target.task = of.task;
    return target;
  }
  void page_fault(const ChargeTarget& of, std::uint64_t wall_ns, std::uint64_t cpu_ns) const {
    (*this)(fault_target(of), wall_ns, cpu_ns);
  }
  void counter(const ChargeTarget& target, std::uint32_t index, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = charges_.counter_numbers_;
    if (index < known.size()) charges_.counters_[RawCounterKey{target.path, known[index]}] += value;
  }
  void paused(std::uint64_t wall_ns) const {
    if (main_thread_) charges_.paused_ns_ += wall_ns;
  }
  [[nodiscard]] ChargeTarget runnable(const ChargeTarget& of) const {
    ChargeTarget target = charges_.target({of.path, shard::Category::kRunnable, main_thread_});
    target.task = of.task;
    return target;
  }
  void runnable_in_mpi(const Stretch& when, std::uint64_t wall_ns) const {
    if (!main_thread_) return;
    charges_.mpi_runnable_ns_ += wall_ns;
    charges_.main_series_.spread(charges_.grid_, kMpiRunnableColumn, when.begin_ns, when.end_ns, wall_ns);
  }
  void spent(const ChargeTarget& target, const Stretch& when, std::uint64_t wall_ns) const {
    charges_.path_times_.spend(target.path, when, wall_ns);
    if (main_thread_)
      charges_.main_series_.spread(charges_.grid_, static_cast<std::uint32_t>(target.category), when.begin_ns,
                                   when.end_ns, wall_ns);
  }
  void page_fault_spent(const ChargeTarget& of, const Stretch& when, std::uint64_t wall_ns) const {
    spent(fault_target(of), when, wall_ns);
  }
  void counted(std::uint32_t index, const Stretch& when, std::uint64_t value) const {
    const std::vector<std::uint32_t>& known = charges_.counter_numbers_;
    if (index < known.size()) charges_.add_to_counter_series(known[index], when, value);
  }

 private:
  ProcessCharges& charges_;
  bool main_thread_;
};

}  // namespace clusterprof::collector
