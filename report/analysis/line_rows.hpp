// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/functions.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/analysis/path_time.hpp"

namespace clusterprof::report {

// The rows of Analysis::lines. Each is made when it is asked for: a row takes half a kilobyte, and where
// ranks have call paths of their own, there are more lines than anything else in the analysis.
class LineRows {
 public:
  // inclusive: by line. Refers to its arguments.
  LineRows(const CallPaths& paths, const PathTime& time, const FunctionTime& functions,
           const PathCounts& counts, const RankOrder& ranks, std::vector<InclusiveTime> inclusive);

  [[nodiscard]] std::size_t size() const { return order_.size(); }
  // The one with most time first.
  [[nodiscard]] LineRow operator[](std::size_t at) const;

 private:
  // Lists of numbers, one for each line.
  class Lists {
   public:
    // Calls `each` twice, which calls its argument with every line and number.
    template <typename Each>
    Lists(std::size_t lines, const Each& each);
    [[nodiscard]] std::span<const std::uint32_t> of(std::uint32_t line) const {
      return std::span(numbers_).subspan(first_[line], first_[line + 1] - first_[line]);
    }

   private:
    std::vector<std::uint32_t> first_, numbers_;
  };

  void sort();

  const CallPaths& paths_;
  const PathTime& time_;
  const FunctionTime& functions_;
  const PathCounts& counts_;
  const RankOrder& ranks_;
  std::vector<InclusiveTime> inclusive_;  // by line
  std::vector<std::uint32_t> order_;      // lines that have time, the one with most first
  Lists cells_;                           // that count for the line
  Lists counted_paths_;                   // whose counts are the line's
};

}  // namespace clusterprof::report
