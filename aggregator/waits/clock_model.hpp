// SPDX-License-Identifier: BSD-3-Clause
// Relates the clocks of the nodes to each other: by clock exchanges measured in the run, and by the rule that
// no message is received before it was sent.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregator/waits/matching.hpp"
#include "aggregator/waits/trace.hpp"

namespace clusterprof::aggregator::waits {

// The largest drift assumed between two clocks, per unit of time.
inline constexpr double kMaxDrift = 1e-3;

// How far one clock is ahead of a second one, as a function of the second clock's time. The function consists
// of lines that stay between the given lower and upper bounds, as far from both as possible.
class ClockPair {
 public:
  // Times in [begin_ns, end_ns] of the second clock.
  ClockPair(std::int64_t begin_ns, std::int64_t end_ns);

  // Adds a bound: at local_ns of the second clock, the first one is ahead by ahead_ns or more / or less.
  void at_least(std::int64_t local_ns, std::int64_t ahead_ns);
  void at_most(std::int64_t local_ns, std::int64_t ahead_ns);
  // Returns false when there are no bounds on both sides.
  bool fit();

  [[nodiscard]] std::int64_t ahead_ns(std::int64_t local_ns) const;  // after fit()
  // Returns the second clock's time at which the first clock shows first_clock_ns.
  [[nodiscard]] std::int64_t local_ns(std::int64_t first_clock_ns) const;
  // The largest error of ahead_ns between begin_ns and end_ns (larger where no line fits between all bounds).
  [[nodiscard]] std::int64_t error_ns() const { return error_ns_; }

 private:
  struct Bound {
    double time = 0, ahead = 0;  // since begin_ns_; beyond base_ns_
  };
  struct Slice {
    std::vector<Bound> lower, upper;
    std::size_t reduce_lower_at = 4096, reduce_upper_at = 4096;
  };
  struct Line {
    std::int64_t begin_ns = 0;
    double ahead = 0, slope = 0;  // at begin_ns_
    double error = 0;
  };
  static void reduce(std::vector<Bound>& bounds, double sign);
  Slice& slice_at(std::int64_t local_ns);
  bool line_through(std::size_t first, std::size_t end, Line& line, double& violation) const;
  bool fit(std::size_t first, std::size_t end, std::vector<Line>& lines) const;

  std::int64_t begin_ns_, end_ns_;
  bool has_base_ = false;
  std::int64_t base_ns_ = 0;
  std::vector<Slice> slices_;
  std::vector<Line> lines_;
  std::int64_t error_ns_ = 0;
};

struct ClockCheck {
  std::int64_t error_ns = 0;  // between any two nodes whose clocks could be compared
  std::uint64_t violations = 0;
  std::int64_t worst_violation_ns = 0;
  std::uint32_t nodes_apart = 0;  // whose clocks could not be compared with that of the first rank's node
};

class ClockModel {
 public:
  static constexpr std::int64_t kUnknown = INT64_MAX;

  // offsets: rank is a row of merged.ranks.
  ClockModel(const Trace& trace, const Matches& matches, const std::vector<shard::ClockOffset>& offsets,
             const shard::ShardData& merged);

  [[nodiscard]] std::int64_t global_ns(std::uint32_t node, std::int64_t local_ns) const;
  // The largest error of a difference of times on nodes a and b; kUnknown: they cannot be compared.
  [[nodiscard]] std::int64_t error_ns(std::uint32_t a, std::uint32_t b) const;

  // Puts all times of the trace on one clock.
  void adjust(Trace& trace) const;
  // Checks a trace that was adjusted.
  [[nodiscard]] ClockCheck check(const Trace& trace) const;

 private:
  struct NodeClock {
    std::uint32_t parent = kNone;  // node
    std::uint32_t pair = kNone;
    bool is_first = false;  // of the pair; else the parent is
    bool known = false;
    std::int64_t utc_ahead_ns = 0;  // nodes that cannot be compared otherwise
    std::int64_t error_ns = 0;      // against the reference node
  };
  std::vector<NodeClock> nodes_;
  std::vector<ClockPair> pairs_;
};

}  // namespace clusterprof::aggregator::waits
