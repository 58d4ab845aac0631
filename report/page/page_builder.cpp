// SPDX-License-Identifier: BSD-3-Clause
// Chooses and sums up what the HTML page and the terminal browser show, so that its size is bounded for
// any run.
#include "report/page/page_builder.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "base/workers.hpp"
#include "report/analysis/call_paths.hpp"
#include "report/analysis/partial_sums.hpp"
#include "report/page/page_series.hpp"
#include "report/page/page_sources.hpp"
#include "report/page/path_choice.hpp"
#include "report/page/rank_groups.hpp"
#include "report/page/time_sums.hpp"

namespace clusterprof::report {
namespace {

using shard::kCategories;
using shard::kNone;
using shard::ShardData;

// Candidates per path that is shown: paths are chosen before their times are known to the nanosecond.
constexpr std::size_t kCandidates = 4;
// Sums per cell that is kept: some candidates will turn out to be the same path.
constexpr std::size_t kCandidateCells = 2;

float to_float_s(std::uint64_t ns) { return static_cast<float>(to_seconds(ns)); }

class PageDataBuilder {
 public:
  PageDataBuilder(const ShardData& head, const Analysis& analysis, const PageOptions& options,
                  std::span<const std::uint64_t> path_ns, std::size_t threads);

  // Each rank once, in any order. Several threads may call this at the same time, each with a number of its
  // own below the constructor's `threads`.
  void add(std::size_t thread, const profile::NodeTimes& times);
  PageData finish();

 private:
  // Returns TimeCharges' row_function.
  std::vector<std::uint32_t> name_functions();
  [[nodiscard]] std::uint32_t page_function(std::uint32_t function);
  void add_tree();
  void add_cells();
  void add_function_rows();
  void add_off_cpu();
  void add_path_time();
  void add_lines();
  void add_matrix();

  const ShardData& head_;
  const Analysis& analysis_;
  const PageOptions& options_;
  CallPaths paths_;
  PathSlots slots_;
  RankOrder order_;
  std::vector<std::uint32_t> page_function_;  // by CallPaths::function; kNone: not in the page so far
  std::vector<std::uint32_t> outliers_;
  GroupTimes groups_;
  std::mutex groups_lock_;
  std::vector<PageRank> ranks_;            // by row of the head's ranks
  std::vector<std::uint64_t> off_cpu_ns_;  // ranks x kinds
  std::optional<TimeCharges> charges_;
  std::vector<TimeSums> sums_;  // by thread
  std::vector<std::uint32_t> node_of_slot_;
  PageData page_;
};

PageDataBuilder::PageDataBuilder(const ShardData& head, const Analysis& analysis, const PageOptions& options,
                                 std::span<const std::uint64_t> path_ns, std::size_t threads)
    : head_(head),
      analysis_(analysis),
      options_(options),
      paths_(head),
      slots_(paths_, path_ns, options.paths * kCandidates),
      order_(head),
      page_function_(paths_.functions().size(), kNone),
      outliers_(find_outliers(analysis, options.rows / 8)),
      groups_(analysis,
              {outliers_.begin(), outliers_.begin() + static_cast<std::ptrdiff_t>(
                                                          std::min(outliers_.size(), PageData::kOwnGroups))},
              options.cells * kCandidateCells) {
  divide_into_rows(analysis, outliers_, options.rows, page_);
  const std::vector<std::uint32_t> row_function = name_functions();
  charges_.emplace(paths_, slots_, analysis.off_cpu.has_value(), row_function);
  for (std::size_t thread = 0; thread < threads; ++thread)
    sums_.emplace_back(*charges_, page_.row_functions, page_.rows.size());
  if (analysis.off_cpu) off_cpu_ns_.assign(head.ranks.size() * kOffCpuKinds, 0);
  if (head.ranks.size() != page_.row_of_rank.size()) return;
  for (std::uint32_t rank = 0; rank < head.ranks.size(); ++rank) {
    const std::uint32_t position = order_.position[rank];
    ranks_.push_back({position, page_.row_of_rank[position], head.ranks[rank].samples != 0});
  }
}

// The report's come first.
std::vector<std::uint32_t> PageDataBuilder::name_functions() {
  const std::size_t count = std::min(analysis_.functions.size(), options_.report_functions);
  page_.row_functions = std::min(count, options_.functions);
  for (std::uint32_t row = 0; row < count; ++row) {
    const FunctionRow& function = analysis_.functions[row];
    page_.functions.push_back(
        {function.name, function.file, function.module, function.line, function.kind, row});
    if (function.id < page_function_.size() && paths_.function_name(function.id) == function.name)
      page_function_[function.id] = row;
  }
  std::vector<std::uint32_t> row_function(paths_.size(), kNone);
  for (std::uint32_t path = 1; path < paths_.size(); ++path) {
    if (!paths_.outermost_function(path)) continue;
    const std::uint32_t function = page_function_[paths_.function(path)];
    if (function < page_.row_functions) row_function[path] = function;
  }
  return row_function;
}

std::uint32_t PageDataBuilder::page_function(std::uint32_t function) {
  if (function == kNone) return kNone;
  std::uint32_t& known = page_function_[function];
  if (known != kNone) return known;
  const shard::Frame& f = *paths_.functions()[function];
  known = static_cast<std::uint32_t>(page_.functions.size());
  page_.functions.push_back({paths_.function_name(function), paths_.text(f.file), paths_.text(f.module),
                             f.function_line, f.kind, kNone});
  return known;
}

void PageDataBuilder::add(std::size_t thread, const profile::NodeTimes& times) {
  if (!ranks_.empty()) sums_[thread].add(times, ranks_, groups_, groups_lock_, off_cpu_ns_);
}

void PageDataBuilder::add_tree() {
  const std::vector<TimeSums::Sum>& by_slot = sums_.front().by_slot();
  std::vector<std::uint64_t> self_ns(by_slot.size(), 0);
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot)
    for (const std::uint64_t ns : by_slot[slot].self_ns) self_ns[slot] += ns;
  const ShownTree tree(paths_, slots_, self_ns, options_.paths);
  node_of_slot_.resize(slots_.size());
  for (std::uint32_t slot = 0; slot < node_of_slot_.size(); ++slot) node_of_slot_[slot] = tree.node(slot);

  std::vector<std::uint32_t> line_row(paths_.lines().size(), kNone);  // by CallPaths::line
  for (std::uint32_t row = 0; row < std::min(analysis_.lines.size(), options_.report_lines); ++row)
    if (const std::uint32_t id = analysis_.lines[row].id; id < line_row.size()) line_row[id] = row;
  const auto row_of_line = [&](std::uint32_t path) {
    const std::uint32_t line = paths_.line(path);
    return line == kNone ? kNone : line_row[line];
  };
  std::vector<std::uint32_t> page_frame(head_.frames.size(), kNone);
  for (const ShownTree::Node& node : tree.nodes()) {
    PagePath& path = page_.paths.emplace_back();
    path.parent = node.parent;
    path.others = node.others;
    path.line = row_of_line(paths_.source(node.path));
    if (!node.others) path.own_line = row_of_line(node.path);
    const shard::Frame* const frame = node.others ? nullptr : paths_.frame(node.path);
    if (frame == nullptr) continue;
    std::uint32_t& known = page_frame[head_.paths[node.path].frame];
    if (known == kNone) {
      known = static_cast<std::uint32_t>(page_.frames.size());
      page_.frames.push_back({frame->kind,
                              frame->inlined,
                              paths_.text(frame->name),
                              paths_.text(frame->file),
                              paths_.text(frame->module),
                              frame->line,
                              frame->function_line,
                              page_function(paths_.function(node.path)),
                              paths_.owner(node.path),
                              paths_.is_machinery(node.path),
                              {},
                              {}});
      if (paths_.owner(node.path) == Owner::kLibrary) {
        page_.frames.back().library_name = paths_.library_name(node.path);
        page_.frames.back().package = paths_.package(node.path);
      }
    }
    path.frame = known;
  }
  std::vector<TimeSums::Sum> sums(page_.paths.size());
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    TimeSums::Sum& sum = sums[node_of_slot_[slot]];
    for (std::size_t c = 0; c < kCategories; ++c) sum.self_ns[c] += by_slot[slot].self_ns[c];
    sum.helper_idle_ns += by_slot[slot].helper_idle_ns;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    for (std::size_t c = 0; c < kCategories; ++c) page_.paths[i].self_s[c] = to_seconds(sums[i].self_ns[c]);
    page_.paths[i].helper_idle_s = to_seconds(sums[i].helper_idle_ns);
  }
}

void PageDataBuilder::add_cells() {
  groups_.rename([this](std::uint32_t slot) { return node_of_slot_[slot]; }, options_.cells);
  const auto [group_of_rank, groups] = groups_.groups();
  page_.group_of_rank = group_of_rank;
  page_.groups = groups.size();
  for (std::uint32_t group = 0; group < groups.size(); ++group)
    for (const GroupTimes::Time& time : *groups[group])
      page_.cells.push_back({group, time.key, to_float_s(time.all_ns), to_float_s(time.helper_idle_ns)});
}

void PageDataBuilder::add_function_rows() {
  const std::vector<std::uint64_t>& row_function_ns = sums_.front().row_function_ns();
  page_.function_row_s.reserve(row_function_ns.size());
  for (std::size_t function = 0; function < page_.row_functions; ++function)
    for (std::size_t row = 0; row < page_.rows.size(); ++row)
      page_.function_row_s.push_back(
          static_cast<float>(to_seconds(row_function_ns[row * page_.row_functions + function]) /
                             static_cast<double>(page_.rows[row].ranks)));
}

void PageDataBuilder::add_off_cpu() {
  if (!analysis_.off_cpu) return;
  std::array<double, kOffCpuKinds> rows_s{}, ranks_s{};
  for (const OffCpuRow& row : *analysis_.off_cpu) rows_s[static_cast<std::size_t>(row.kind)] += row.time_s;
  for (std::size_t i = 0; i < off_cpu_ns_.size(); ++i)
    ranks_s[i % kOffCpuKinds] += to_seconds(off_cpu_ns_[i]);
  for (std::size_t kind = 0; kind < kOffCpuKinds; ++kind)
    if (rows_s[kind] > 0 && ranks_s[kind] > 0) page_.off_cpu_kinds.push_back(static_cast<OffCpu>(kind));
  for (std::size_t rank = 0; rank < head_.ranks.size(); ++rank)
    for (const OffCpu of : page_.off_cpu_kinds) {
      const auto kind = static_cast<std::size_t>(of);
      page_.rank_off_cpu_s.push_back(to_seconds(off_cpu_ns_[rank * kOffCpuKinds + kind]) * rows_s[kind] /
                                     ranks_s[kind]);
    }
}

// Keeps about that many rows: the smallest are added to their nearest ancestor that stays.
void join_small_rows(const std::vector<PagePath>& paths, std::size_t bins, std::size_t kept,
                     std::vector<std::uint64_t>& cells) {
  const auto row = [&](std::size_t path) { return cells.begin() + static_cast<std::ptrdiff_t>(path * bins); };
  const auto sum = [&](std::size_t path) {
    return std::accumulate(row(path), row(path + 1), std::uint64_t{0});
  };
  std::vector<std::uint64_t> sums(paths.size());
  for (std::size_t path = 0; path < paths.size(); ++path) sums[path] = sum(path);
  const auto limit = sums.begin() + static_cast<std::ptrdiff_t>(kept - 1);
  std::nth_element(sums.begin(), limit, sums.end(), std::greater<>());
  for (std::size_t path = paths.size(); --path > 0;) {
    if (sum(path) >= *limit) continue;
    std::transform(row(path), row(path + 1), row(paths[path].parent), row(paths[path].parent), std::plus<>());
    std::fill(row(path), row(path + 1), 0);
  }
}

void PageDataBuilder::add_path_time() {
  const PathBins bins = path_bins(head_);
  if (bins.count == 0) return;
  page_.time_bin_s = bins.bin_s;
  page_.time_begin_s = bins.begin_s;
  page_.time_bins = bins.count;
  std::vector<std::uint64_t> sums(page_.paths.size() * bins.count, 0);
  for (const shard::PathSeries& row : head_.path_series)
    if (row.path < paths_.size() && row.bin < bins.count)
      sums[node_of_slot_[slots_.slot(row.path)] * bins.count + row.bin] += row.wall_ns;
  const std::size_t kept = std::max<std::size_t>(options_.time_cells / bins.count, 1);
  if (page_.paths.size() > kept) join_small_rows(page_.paths, bins.count, kept, sums);
  page_.path_time.reserve(sums.size());
  for (const std::uint64_t ns : sums) page_.path_time.push_back(to_float_s(ns));
}

void PageDataBuilder::add_lines() {
  std::vector<std::uint32_t> source_of_row;
  page_.sources = read_sources(analysis_, options_, source_of_row);
  std::vector<std::uint32_t> page_line(paths_.lines().size(), kNone);  // by CallPaths::line
  for (std::uint32_t row = 0; row < source_of_row.size(); ++row) {
    if (source_of_row[row] == kNone) continue;
    const std::uint32_t id = analysis_.lines[row].id;
    if (id < page_line.size()) page_line[id] = static_cast<std::uint32_t>(page_.lines.size());
    page_.lines.push_back({source_of_row[row], row, {}});
  }
  if (page_.time_bins == 0) return;
  std::vector<std::uint64_t> sums(page_.lines.size() * page_.time_bins, 0);
  for (const shard::PathSeries& series : head_.path_series) {
    if (series.path >= paths_.size() || series.bin >= page_.time_bins) continue;
    const std::uint32_t id = paths_.line(paths_.source(series.path));
    if (id != kNone && page_line[id] != kNone)
      sums[page_line[id] * page_.time_bins + series.bin] += series.wall_ns;
  }
  for (std::size_t i = 0; i < page_.lines.size(); ++i)
    for (std::size_t bin = 0; bin < page_.time_bins; ++bin)
      page_.lines[i].time_s.push_back(to_float_s(sums[i * page_.time_bins + bin]));
}

// Ranks put together by `width`, cells by source, then destination.
std::vector<shard::MatrixCell> joined(const std::vector<shard::MatrixCell>& matrix, std::size_t width) {
  std::vector<shard::MatrixCell> cells;
  cells.reserve(matrix.size());
  const auto divisor = static_cast<std::int32_t>(width);
  for (const shard::MatrixCell& cell : matrix)
    if (cell.source >= 0 && cell.destination >= 0)
      cells.push_back({cell.source / divisor, cell.destination / divisor, cell.messages, cell.bytes});
  std::sort(cells.begin(), cells.end(), [](const shard::MatrixCell& x, const shard::MatrixCell& y) {
    return std::pair(x.source, x.destination) < std::pair(y.source, y.destination);
  });
  std::size_t size = 0;
  for (const shard::MatrixCell& cell : cells) {
    shard::MatrixCell* const same = size == 0 ? nullptr : &cells[size - 1];
    if (same != nullptr && same->source == cell.source && same->destination == cell.destination) {
      same->messages += cell.messages;
      same->bytes += cell.bytes;
    } else {
      cells[size++] = cell;
    }
  }
  cells.resize(size);
  return cells;
}

void PageDataBuilder::add_matrix() {
  std::int32_t last = 0;
  for (const auto* matrix : {&analysis_.matrix, &analysis_.collective_matrix})
    for (const shard::MatrixCell& cell : *matrix) last = std::max({last, cell.source, cell.destination});
  std::size_t width = 1;
  while (static_cast<std::size_t>(last) / width >= options_.matrix_side) width *= 2;
  for (;; width *= 2) {
    page_.matrix = joined(analysis_.matrix, width);
    page_.collective_matrix = joined(analysis_.collective_matrix, width);
    page_.matrix_bin_ranks = width;
    const std::size_t cells = page_.matrix.size() + page_.collective_matrix.size();
    if (cells <= options_.matrix_cells || width > static_cast<std::size_t>(last)) return;
  }
}

PageData PageDataBuilder::finish() {
  for (; sums_.size() > 1; sums_.pop_back()) sums_.front().unite(sums_.back());
  add_tree();
  add_cells();
  add_function_rows();
  add_off_cpu();
  add_path_time();
  add_lines();
  add_page_series(head_, analysis_, options_, page_);
  add_matrix();
  return std::move(page_);
}

Result<void> add_times(profile::ProfileReader& profile, std::size_t nodes, std::size_t threads,
                       PageDataBuilder& builder) {
  std::mutex failing;
  std::optional<std::pair<std::size_t, Error>> first_error;  // and its node
  share_work(threads, nodes, [&](std::size_t thread, std::size_t node) {
    const Result<profile::NodeTimes> read = profile.times(static_cast<std::uint32_t>(node));
    if (read) return builder.add(thread, read.value());
    const std::lock_guard<std::mutex> lock(failing);
    if (!first_error || node < first_error->first) first_error.emplace(node, read.error());
  });
  if (first_error) return first_error->second;
  return {};
}

// Of values in any order; those of unknown paths and categories are left out.
profile::NodeTimes times_of(const shard::RankRows& rows, std::size_t paths) {
  std::vector<shard::Value> values;
  for (const shard::Value& value : rows.values)
    if (value.path < paths && static_cast<std::size_t>(value.category) < kCategories) values.push_back(value);
  std::stable_sort(values.begin(), values.end(),
                   [](const shard::Value& a, const shard::Value& b) { return a.path < b.path; });
  profile::NodeTimes times;
  times.ranks = {rows.rank};
  for (const shard::Value& value : values) {
    if (times.paths.empty() || times.paths.back() != value.path) {
      times.paths.push_back(value.path);
      times.first_rows.push_back(static_cast<std::uint32_t>(times.rank.size()));
    }
    times.rank.push_back(0);
    times.category.push_back(static_cast<std::uint8_t>(value.category));
    times.main_thread.push_back(value.main_thread ? 1 : 0);
    times.wall_ns.push_back(value.wall_ns);
    times.cpu_ns.push_back(value.cpu_ns);
  }
  times.first_rows.push_back(static_cast<std::uint32_t>(times.rank.size()));
  return times;
}

}  // namespace

Result<PageData> make_page_data(profile::ProfileReader& profile, const Analysis& analysis,
                                const PageOptions& options) {
  const Result<const ShardData*> head = profile.head();
  if (!head) return head.error();
  std::vector<std::uint64_t> path_ns;
  {
    const Result<profile::PathStatisticsTable> statistics = profile.statistics();
    if (!statistics) return statistics.error();
    path_ns.reserve(statistics.value().paths.size());
    for (const profile::PathStatistics& path : statistics.value().paths)
      path_ns.push_back(path.exclusive.sum_ns);
  }
  path_ns.resize(head.value()->paths.size());
  const std::size_t threads = useful_threads(), nodes = head.value()->nodes.size();
  PageDataBuilder builder(*head.value(), analysis, options, path_ns, threads);
  if (const Result<void> added = add_times(profile, nodes, threads, builder); !added) return added.error();
  return builder.finish();
}

PageData make_page_data(const ShardData& head, const shard::RowSource& rows, const Analysis& analysis,
                        const PageOptions& options) {
  std::vector<std::uint64_t> path_ns(head.paths.size(), 0);
  rows.for_each_rank([&](const shard::RankRows& rank) {
    for (const shard::Value& value : rank.values)
      if (value.path < path_ns.size()) path_ns[value.path] += value.wall_ns;
  });
  PageDataBuilder builder(head, analysis, options, path_ns, 1);
  rows.for_each_rank([&](const shard::RankRows& rank) {
    if (rank.rank < head.ranks.size()) builder.add(0, times_of(rank, head.paths.size()));
  });
  return builder.finish();
}

}  // namespace clusterprof::report
