// SPDX-License-Identifier: BSD-3-Clause
// All data needed to browse a run without its profile. The HTML page embeds it; the terminal browser keeps it
// in memory. Its size is bounded for any run: small call paths are summed up in "others", and ranks of large
// runs share rows and groups. Times are in seconds. They are the times that functions and lines are charged
// with (docs/metrics.md), so sums agree with the report's tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/shard/rank_rows.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

struct PageOptions {
  std::size_t paths = 20'000;            // of the call tree, "others" among them
  std::size_t rows = 1'024;              // of heat maps: ranks or ranges of ranks; outliers come on top
  std::size_t cells = 700'000;           // (group, path) pairs: as many groups as fit, at most one per rank
  std::size_t time_cells = 500'000;      // (path, bin) pairs: small paths go into the one above
  std::size_t functions = 128;           // with a time per row
  std::size_t bins = 256;                // of the timeline
  std::size_t series_cells = 1'500'000;  // (series, row, bin) triples: bins are joined, and series left out
  std::size_t matrix_side = 512;         // of the communication matrix
  std::size_t matrix_cells = 100'000;
  std::size_t report_functions = 2'000;  // rows of Analysis::functions and lines that the page's report has
  std::size_t report_lines = 4'000;
  bool source = true;                    // with the text of source files
  std::size_t source_files = 40;         // that are listed
  std::size_t source_bytes = 3'000'000;  // of all of them
};

struct PageFrame {
  shard::FrameKind kind = shard::FrameKind::kNative;
  bool inlined = false;
  std::string name, file, module;
  std::uint32_t line = 0, function_line = 0;
  std::uint32_t function = shard::kNone;  // index into PageData::functions
  Owner owner = Owner::kOwn;
  bool machinery = false;             // FrameOwners::is_machinery
  std::string library_name, package;  // of kLibrary, as in CallPaths
};

// Preorder: a parent comes before its children, a subtree is a range. paths[0] is the root.
struct PagePath {
  std::uint32_t parent = 0;
  std::uint32_t frame = shard::kNone;     // index into frames; kNone: the root, or `others` below the parent
  bool others = false;                    // sums up call paths that are too small to be told apart
  std::uint32_t line = shard::kNone;      // of Analysis::lines: the line that self_s counts for
  std::uint32_t own_line = shard::kNone;  // the line of the path's own frame
  CategorySeconds self_s{};               // all ranks, all threads
  double helper_idle_s = 0;               // of self_s: helper threads, idle but not waiting for the GIL
};

struct PageFunction {
  std::string name, file, module;
  std::uint32_t line = 0;
  shard::FrameKind kind = shard::FrameKind::kNative;
  std::uint32_t row = shard::kNone;  // of Analysis::functions; kNone: too small to be there
};

// Exclusive time of one group of ranks on one path. Sorted by group, then path.
struct PageCell {
  std::uint32_t group = 0, path = 0;
  float self_s = 0;
  float helper_idle_s = 0;  // of self_s
};

// A row of heat maps: one rank (outliers always have their own row), or a range of ranks without the outliers
// in it. Outliers are the ranks that findings name, lost ranks, and ranks of which a time or the memory is
// further than kOutlier scales from the median. The scale is 1.4826 x the median deviation, at least 1 % of
// the median and, for times, at least 1 % of a rank's mean time. At most an eighth of PageOptions::rows are
// outliers, the furthest first.
struct PageRow {
  std::int32_t first_rank = 0, last_rank = 0;
  std::uint32_t ranks = 0;            // in it
  std::uint32_t node = shard::kNone;  // the node of all of them; kNone: of several
};

inline constexpr double kOutlier = 6;

struct PageSeries {
  std::string name;               // "python_ns", "rss_bytes", a counter
  bool maximum = false;           // a level: the largest of a bin; else an amount: its sum
  std::vector<float> row_values;  // rows x bins: mean over the row's ranks; of levels the largest.
                                  // Nanoseconds, bytes, counts
};

struct PageSourceFile {
  std::string file;
  std::optional<std::string> text;
  std::string why_not;  // without text: "left out (--no-source)", "not found", "changed after the run", …
};

struct PageLine {
  std::uint32_t file = 0;     // index into sources
  std::uint32_t row = 0;      // of Analysis::lines
  std::vector<float> time_s;  // by time bin of path_time; empty: not known
};

struct PageData {
  std::vector<PageFrame> frames;
  std::vector<PagePath> paths;
  std::vector<PageFunction> functions;  // those of the paths kept; the report's first, in its order

  // Groups of ranks, for selections by rank. Each rank has its own group where that fits (exact). Otherwise
  // the first kOwnGroups outliers have their own groups, and the other ranks are grouped in ranges, of one
  // node where these are small enough.
  std::vector<std::uint32_t> group_of_rank;  // by index into Analysis::ranks
  std::size_t groups = 0;
  static constexpr std::size_t kOwnGroups = 64;
  std::vector<PageCell> cells;

  // Times of call paths over the run, for selections by time; all ranks together. Empty: not recorded.
  double time_bin_s = 0, time_begin_s = 0;  // since the run's start
  std::size_t time_bins = 0;
  // paths x time_bins: the path's exclusive sampled time in seconds. All 0: too small to be shown separately;
  // the nearest ancestor with some time has it.
  std::vector<float> path_time;

  // Blocked time of all threads outside MPI, by index into Analysis::ranks and index into off_cpu_kinds. For
  // each kind it is the sum of the rows of Analysis::off_cpu. Empty: not known.
  std::vector<OffCpu> off_cpu_kinds;  // those that there are
  std::vector<double> rank_off_cpu_s;

  std::vector<std::uint32_t> row_of_rank;  // by index into Analysis::ranks
  std::vector<PageRow> rows;
  // The first functions x rows: inclusive time without idle helper threads, mean over the row's ranks.
  std::vector<float> function_row_s;
  std::size_t row_functions = 0;  // how many functions have one

  double bin_s = 0, begin_s = 0;  // of series
  std::size_t bins = 0;
  std::vector<PageSeries> series;
  std::vector<PageSeries> node_series;  // row_values: nodes x bins; empty with more than kMaxNodes nodes
  static constexpr std::size_t kMaxNodes = 1024;
  std::size_t all_series = 0, all_node_series = 0;  // how many there are; of more than fit those of most rows
  static constexpr std::size_t kSureSeries = 64;    // are never left out

  std::size_t matrix_bin_ranks = 1;                  // ranks of a row and column of the matrix
  std::vector<shard::MatrixCell> matrix;             // by source, then destination, both / matrix_bin_ranks
  std::vector<shard::MatrixCell> collective_matrix;  // likewise: what collectives move, an estimate

  std::vector<PageSourceFile> sources;  // hottest first
  std::vector<PageLine> lines;          // of these files
};

}  // namespace clusterprof::report
