// SPDX-License-Identifier: BSD-3-Clause
// Writes numbers, names and source locations for readers. All results are printable UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report::text {

// Control characters, invalid UTF-8 and characters that reorder or hide text become visible
// escapes (\x1b, \u202e). printable(printable(s)) == printable(s).
std::string printable(std::string_view text);

// The longest prefix that is UTF-8, and the whole with U+FFFD for every byte that is in no character.
std::string_view valid_prefix(std::string_view text);
std::string replace_invalid(std::string_view text);

// Columns in a terminal of printable text: 2 for East Asian wide characters, 0 for combining.
std::size_t columns(std::string_view printable_text);

// Longest prefix of at most `width` columns.
std::string_view prefix(std::string_view printable_text, std::size_t width);
// Cut to at most `width` columns; ".." marks the place.
std::string shorten(std::string_view printable_text, std::size_t width);  // at the end
std::string shorten_middle(std::string_view printable_text, std::size_t width);

// A function's label: first its template arguments go, then its namespaces, modules and outer functions. Its
// own name and Python's <locals>, <lambda>, <genexpr> stay as long as they fit.
std::string shorten_name(std::string_view label, std::size_t width);

std::string pad_left(std::string_view printable_text, std::size_t width);  // right-aligned
std::string pad_right(std::string_view printable_text, std::size_t width);

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
// "0-3, 7"; at most `most` groups, then ", ..".
std::string rank_list(const std::vector<std::int32_t>& ascending, std::size_t most = 6);
// The same of ranges that are ascending; and_more: these are not all.
std::string range_list(const std::vector<shard::RankRange>& ascending, bool and_more = false,
                       std::size_t most = 6);
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

// "step()", "Solver<double>::run()": without the types of arguments and result, and in long names without
// template arguments.
std::string function_label(std::string_view name, shard::FrameKind kind);

// File names by their last component, or the last two where that is ambiguous in this profile.
class ShortPaths {
 public:
  explicit ShortPaths(const Analysis& analysis);
  [[nodiscard]] std::string file(std::string_view path) const;
  // "train.py:88"; without a line the file alone; empty without a file.
  [[nodiscard]] std::string place(std::string_view path, std::uint32_t line) const;

 private:
  std::unordered_map<std::string, std::string> seen_;  // base name: the one path, or "" for several
};

// "name place", shortened in the name first.
std::string name_and_place(std::string_view name, std::string_view place, std::size_t width);

inline constexpr std::size_t kAnyWidth = 4096;

// "compute() train.py:57", "dgemm_kernel() [libopenblas]" (the module where there is room), "MPI_Send", "read
// [kernel]"
std::string describe(const FunctionRow& row, const ShortPaths& paths, std::size_t width = kAnyWidth);
// "MPI_Allreduce <- step() train.py:88"; the operation alone when the caller is not known.
std::string describe(const MpiCallRow& row, const ShortPaths& paths, std::size_t width = kAnyWidth);
// Either of these forms, and what was called there, "step() train.py:57 (numpy.dot)"; "code that is not
// known" without a function.
std::string describe(const SourceLocation& place, const ShortPaths& paths, std::size_t width = kAnyWidth);
// "late sender", "wait at NxN"
const char* wait_kind(shard::WaitKind kind);
// Quoted for a shell where need be. Names with control characters do not survive.
std::string shell_word(std::string_view word);
// "python3 train.py --epochs 3"
std::string command_line(const RunInfo& run);
// "4 ranks on 2 nodes"
std::string ranks_and_nodes(const RunInfo& run);
// "1 rank", "2 ranks"
std::string plural(std::size_t number, std::string_view noun);

}  // namespace clusterprof::report::text
