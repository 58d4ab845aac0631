// SPDX-License-Identifier: BSD-3-Clause
// How long the threads of a process are in MPI, as their calls measure it, and which calls are under way.
// Reads this from the threads' slots (wire::ThreadSlot, wire::MpiCallUnderWay), and keeps it for threads that
// have ended.
//
// Times are in nanoseconds of the monotonic clock. Impossible calls are counted ("damaged_mpi_call"). Of
// calls that never ended, only the first few thousand are kept ("calls_under_way_full"). Only the thread that
// polls the process may call this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collector/mpi/mpi_amounts.hpp"
#include "collector/rings/drop_counts.hpp"
#include "collector/rings/process_start.hpp"
#include "collector/rings/recorded_windows.hpp"
#include "collector/rings/segment_view.hpp"
#include "collector/stacks/stack_resolver.hpp"

namespace clusterprof::collector {

class TimeInMpi {
 public:
  // A thread as its recorder knows it.
  struct Thread {
    std::int32_t tid = 0;
    bool main = false;
    std::uint64_t start_ns = 0;
    std::optional<std::uint64_t> ended_ns;  // it has told that it ended then
  };

  // All of them must outlive it.
  TimeInMpi(const SegmentView& segment, const ProcessStart& start, const RecordedWindows& windows,
            StackResolver& stacks, DropCounts& drops)
      : segment_(segment), start_(start), windows_(windows), stacks_(stacks), drops_(drops) {}

  // Of one thread, the call under way included.
  [[nodiscard]] std::uint64_t of_slot(const wire::ThreadSlot& slot, std::uint64_t now_ns) const;
  // What a thread adds to ProcessReport::mpi_helpers: nothing if it is the main one, or was never in MPI.
  [[nodiscard]] HelperThreads of_helper(const Thread& thread, const wire::ThreadSlot& slot,
                                        std::uint64_t now_ns) const;
  [[nodiscard]] std::optional<RawCallUnderWay> call_under_way(const Thread& thread,
                                                              const wire::ThreadSlot& slot,
                                                              std::uint64_t now_ns) const;

  // How long the thread has been in the call that it is in, recorded or not; 0: it is in none.
  [[nodiscard]] static std::uint64_t in_call_ns(const wire::ThreadSlot& slot, std::uint64_t now_ns);

  // The thread has ended, or its process: keeps what it did in MPI.
  void end_thread(const Thread& thread, const wire::ThreadSlot& slot, std::uint64_t now_ns);
  // Of threads that have ended.
  [[nodiscard]] std::uint64_t ended_main_ns() const noexcept { return ended_main_ns_; }
  [[nodiscard]] const HelperThreads& ended_helpers() const noexcept { return ended_helpers_; }
  [[nodiscard]] const std::vector<RawCallUnderWay>& calls_at_end() const noexcept { return calls_at_end_; }

 private:
  [[nodiscard]] std::uint64_t recorded_since(std::uint64_t before_ns, std::uint64_t now_ns) const;

  const SegmentView& segment_;
  const ProcessStart& start_;
  const RecordedWindows& windows_;
  StackResolver& stacks_;
  DropCounts& drops_;
  std::uint64_t ended_main_ns_ = 0;
  HelperThreads ended_helpers_;
  std::vector<RawCallUnderWay> calls_at_end_;  // under way when their thread or the process ended
};

}  // namespace clusterprof::collector
