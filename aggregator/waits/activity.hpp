// SPDX-License-Identifier: BSD-3-Clause
// How a thread spent its time between two points in time, by call path.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "aggregator/waits/recorded_time.hpp"
#include "aggregator/waits/trace.hpp"
#include "aggregator/waits/wait_search.hpp"

namespace clusterprof::aggregator::waits {

struct PathTime {
  std::uint32_t path = 0;
  double ns = 0;
};

struct Activity {
  std::vector<PathTime> paths;                          // outside MPI, and in calls other than waiting
  std::vector<std::pair<std::uint32_t, double>> waits;  // row of Waits::waits, time
  void clear() { paths.clear(), waits.clear(); }
  void add(std::uint32_t path, double ns);
  [[nodiscard]] double ns_of(std::uint32_t path) const;

 private:
  std::vector<std::uint32_t> row_of_;  // of paths per path; anything where that row is another path's
};

class ActivityReader {
 public:
  ActivityReader(const Trace& trace, const Waits& waits, const RecordedTime& recorded_time);

  // Adds what the lane did from `from_ns` until `to_ns`, but what was left out on standby; pauses have path
  // 0. `next` is the first event of the first call that was entered at to_ns or later (lane.end: there is
  // none). Looks only at the last max_calls calls. Returns the time at which the part that it looked at
  // begins.
  std::int64_t read(const Lane& lane, std::uint32_t next, std::int64_t from_ns, std::int64_t to_ns,
                    std::uint32_t max_calls, Activity& activity) const;

  // Adds `ns` of MPI time in the gap before the call, spent in calls without events. The time is divided as
  // the recorded times of these calls say; where none is recorded, and before the first call, what they leave
  // goes to Trace::path_before(). gap_ns: all such time of the gap.
  void add_calls(const Lane& lane, std::uint32_t call, double ns, double gap_ns, Activity& activity) const;

  // Adds `ns` of time outside MPI just before the call, divided as samples of that interval show. Without
  // such samples, those of all intervals before calls from the same call site are used; without these, the
  // time goes to the code that made the call.
  void add_gap(const Lane& lane, std::uint32_t call, double ns, Activity& activity) const;

 private:
  [[nodiscard]] bool is_call(std::uint32_t path) const { return trace_.outside[path] != path; }

  const Trace& trace_;
  const Waits& waits_;
  const RecordedTime& recorded_time_;
  std::unordered_map<std::uint64_t, std::vector<PathTime>> before_site_;  // rank << 32 | path
};

// Time outside MPI between a call of the lane (its first event; lane.end: the end of the lane) and the call
// before it, and when that interval began.
struct Interval {
  std::int64_t begin_ns = 0, end_ns = 0, useful_ns = 0;
  std::int64_t ran_ns = 0;  // useful_ns but for the time without a processor, as far as samples showed that
  std::int64_t paused_ns = 0;  // of the interval, not of useful_ns
};
[[nodiscard]] Interval interval_before(const Trace& trace, const Lane& lane, std::uint32_t call);

}  // namespace clusterprof::aggregator::waits
