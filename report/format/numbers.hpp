// SPDX-License-Identifier: BSD-3-Clause
// Writes times, sizes, counts, shares, dates, and numbers of ranks and signals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report::format {

// Three significant digits and a unit: "12.3 ms", "1.23 s", "456 s", "3.21 h".
std::string seconds(double value);
// Decimal units: "12 B", "4.50 MB".
std::string bytes(double value);
// Exact below 10000, then "12.3 k".
std::string count(double value);
// "45.2 %" of a share of 1.
std::string percent(double share);
// Upper bounds of size bins, powers of two: "8 B", "1 MiB".
std::string bin_bytes(std::uint64_t value);
// "2026-11-21 13:45:02 UTC"
std::string utc(std::int64_t ns);
// "2026-11-21T13:45:02Z"
std::string utc_iso(std::int64_t ns);
// "0-3, 7"; at most `most` groups, then ", ..".
std::string rank_list(const std::vector<std::int32_t>& ascending, std::size_t most = 6);
// The same of ranges that are ascending; and_more: these are not all.
std::string range_list(const std::vector<shard::RankRange>& ascending, bool and_more = false,
                       std::size_t most = 6);
// "0-1, 7": as rank_list(), but two ranks in a row are a range, too: for texts in which a comma would
// mislead.
std::string rank_ranges(const std::vector<std::int32_t>& ascending, std::size_t most = 6);
// rank_list() of the run's missing ranks, ", .." also where not all of them are listed.
std::string missing_ranks(const RunInfo& run, std::size_t most = 6);
// "SIGSEGV", or "signal 42".
std::string signal_name(int number);

// One unit and one number of digits for a column of times.
class TimeScale {
 public:
  explicit TimeScale(double largest_s);
  [[nodiscard]] std::string operator()(double value_s) const;
  [[nodiscard]] const char* unit() const { return unit_; }

 private:
  const char* unit_ = "s";
  double factor_ = 1;
  int digits_ = 2;
};

// "1 rank", "2 ranks", "2 processes"
std::string plural(std::size_t number, std::string_view noun);
// "4 ranks on 2 nodes"
std::string ranks_and_nodes(const RunInfo& run);

}  // namespace clusterprof::report::format
