// SPDX-License-Identifier: BSD-3-Clause
// Time by function, source line, activity, object file and system call: docs/metrics.md, "Functions and
// lines", "Activities".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/activities.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/path_time.hpp"
#include "report/analysis/rank_input.hpp"

namespace clusterprof::report {

using ActivityTimes = std::array<std::uint64_t, kActivities>;  // nanoseconds

// Of a path and what is below it.
struct InclusiveTime {
  std::uint64_t all_ns = 0, active_ns = 0;
  std::uint64_t main_ns = 0;  // in sums over all ranks only
};

// How the time of functions and lines is distributed over ranks. Their sums come from PathTime.
class FunctionTime {
 public:
  // Of a cell.
  struct Charge {
    std::uint32_t path = 0;             // that it counts for
    std::uint32_t line = shard::kNone;  // that it counts for
    Activity activity = Activity::kNative;
    bool is_work = true;  // even of a helper thread
  };

  // Refers to both.
  FunctionTime(const CallPaths& paths, const Cells& cells);

  // Adds a rank. Returns the time of its threads by activity.
  ActivityTimes add(const RankInput& rank);
  template <typename Self, typename Table>
  static void each_table(Self& self, const Table& table) {
    table(self.total_, self.total_.size());
    table(self.active_, self.active_.size());
    table(self.line_active_, self.line_active_.size());
  }

  // Functions, and sums over the ranks by activity, object file and system call. The analysis has its ranks
  // with their activities. Returns the time of lines, by CallPaths::line.
  std::vector<InclusiveTime> finish(const PathTime& time, const RankOrder& ranks, Analysis& analysis);

  // After finish().
  [[nodiscard]] const Charge& charge(std::uint32_t cell) const { return charges_[cell]; }
  [[nodiscard]] const Extremes& active_time_of_line(std::uint32_t line) const { return line_active_[line]; }

 private:
  struct Sums;

  // Finds the charges of cells that have been added since.
  void find_charges();

  // The steps of finish().
  void charge_cells(const PathTime& time, Sums& sums) const;
  void add_inclusive_times(Sums& sums) const;
  static void give_run_totals(const Sums& sums, Analysis& analysis);
  void give_functions(const Sums& sums, const RankOrder& ranks, Analysis& analysis) const;

  const CallPaths& paths_;
  const Cells& cells_;
  std::vector<Charge> charges_;           // by cell
  std::vector<std::uint32_t> parent_;     // by path
  std::vector<std::uint32_t> outermost_;  // by path: its function; kNone where that is counted further out
  std::vector<Extremes> total_, active_;  // by function
  std::vector<Extremes> line_active_;     // by line

  // Of the rank at hand; 0 between ranks.
  std::vector<InclusiveTime> inclusive_, of_function_;
  std::vector<std::uint64_t> of_line_;
  TouchedTree touched_paths_;
  std::vector<std::uint32_t> touched_functions_, touched_lines_;
};

// Fills in the activities of a rank; what is not known of it stays empty.
void give_activities(const shard::Rank& rank, const ActivityTimes& times, bool cpu_clock, RankInfo& info);

}  // namespace clusterprof::report
