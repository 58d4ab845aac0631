// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/top.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "report/analysis/calls_under_way.hpp"
#include "report/analysis/choose_failure.hpp"
#include "report/analysis/hang_search.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/analysis/tables.hpp"

namespace clusterprof::report {
namespace {

using shard::kNone;

struct IdHash {
  std::size_t operator()(const shard::PathId& id) const { return id.low; }
};

class TopSearch {
 public:
  TopSearch(const TopInput& input, FrameMode frames)
      : input_(input), data_(input.data), paths_(data_, frames), order_(data_) {}

  Top find() {
    top_.run.run = describe_run(data_);
    describe_ranks(data_, order_, top_.run);
    top_.ranks.resize(top_.run.ranks.size());
    top_.nodes.resize(top_.run.nodes.size());
    find_windows();
    find_places();
    find_memory();
    sum_up_nodes();
    find_functions();
    list_calls_under_way(data_, paths_, top_.run);
    find_last_seen(paths_, top_.run);
    top_.run.hang = find_hang(data_, paths_);
    top_.run.failure = choose_failure(data_, paths_, top_.run);
    for (const auto& [path, place] : place_of_) top_.run.places.push_back(place);
    return std::move(top_);
  }

 private:
  // By row of the data's ranks.
  TopRank& rank(std::uint32_t row) { return top_.ranks[order_.position[row]]; }

  void find_windows() {
    std::unordered_map<std::int32_t, std::uint32_t> row_of;
    for (std::uint32_t row = 0; row < data_.ranks.size(); ++row) row_of.emplace(data_.ranks[row].rank, row);
    const bool cpu_clock = data_.run.clock == "cpu";
    // Of a node that has ended, the whole run is what is known.
    const auto runs = [&](const shard::Node& node) { return node.as_of_utc_ns != 0; };
    const bool any_runs = std::any_of(data_.nodes.begin(), data_.nodes.end(), runs);
    for (const shard::Rank& since : input_.since) {
      const auto row = row_of.find(since.rank);
      const std::uint64_t recorded_ns = since.elapsed_ns - std::min(since.elapsed_ns, since.paused_ns);
      if (row == row_of.end() || recorded_ns == 0) continue;
      TopRank& to = rank(row->second);
      to.window_s = to_seconds(recorded_ns);
      to.category_s = main_thread_categories(since, cpu_clock);
      // Nothing but MPI was seen lately; it is known from earlier what would have been.
      shard::Rank so_far = data_.ranks[row->second];
      so_far.raw_main_thread_ns = so_far.main_thread_ns;
      const OptionalCategorySeconds known = main_thread_categories(so_far, cpu_clock);
      for (std::size_t c = 0; c < known.size(); ++c)
        if (known[c] && !to.category_s[c]) to.category_s[c] = to_seconds(since.main_thread_ns[c]);
      const std::uint32_t node = so_far.node;
      if (!any_runs || (node < data_.nodes.size() && runs(data_.nodes[node])))
        top_.window_s = std::max(top_.window_s, to.window_s);
    }
  }

  const SourceLocation& place_of(std::uint32_t path) {
    const auto [found, is_new] = place_of_.try_emplace(path);
    if (is_new) found->second = place_of_path(paths_, path);
    return found->second;
  }

  // The functions whose total time has that of the path.
  std::uint32_t stack_of(std::uint32_t path) {
    const auto [found, is_new] = stack_of_.try_emplace(path, static_cast<std::uint32_t>(top_.stacks.size()));
    if (!is_new) return found->second;
    std::vector<std::uint32_t>& stack = top_.stacks.emplace_back();
    for (; path != 0; path = paths_.parent(path)) {
      const std::uint32_t function = paths_.function(path);
      if (function == kNone || !paths_.outermost_function(path)) continue;
      const auto [entered, first] =
          entered_.try_emplace(function, static_cast<std::uint32_t>(top_.entered.size()));
      if (first) top_.entered.push_back(name_function(function));
      stack.push_back(entered->second);
    }
    return found->second;
  }

  [[nodiscard]] FunctionRow name_function(std::uint32_t function) const {
    const shard::Frame& frame = *paths_.functions()[function];
    FunctionRow row;
    row.id = function;
    row.name = paths_.function_name(function);
    row.file = paths_.text(frame.file);
    row.module = paths_.text(frame.module);
    row.line = frame.function_line;
    row.kind = frame.kind;
    return row;
  }

  void find_places() {
    for (const shard::Thread& thread : data_.threads) {
      if (thread.rank >= data_.ranks.size() || thread.last_path >= paths_.size()) continue;
      const shard::Rank& of = data_.ranks[thread.rank];
      if (thread.kind != shard::ThreadKind::kMain || thread.pid != of.pid || !was_alive(thread, of)) continue;
      TopRank& to = rank(thread.rank);
      to.place = place_of(thread.last_path);
      to.stack = stack_of(paths_.counted(thread.last_path, thread.last_category));
      if (thread.unmoved_ns != 0) to.unmoved_s = to_seconds(thread.unmoved_ns);
      // The call that it was in at its last sample has returned, unless there is a row of it below.
      to.place.op.clear();
    }
    for (const shard::CallUnderWay& call : data_.calls_under_way) {
      if (!call.main_thread || call.rank >= data_.ranks.size() || call.path >= paths_.size()) continue;
      TopRank& to = rank(call.rank);
      to.place = place_of(call.path);
      to.stack = stack_of(paths_.counted(call.path, shard::Category::kMpi));
      to.op_s = to.unmoved_s = to_seconds(call.lasted_ns);
    }
  }

  void find_memory() {
    for (std::size_t i = 0; i < top_.ranks.size(); ++i)
      if (const auto rss = input_.rss_bytes.find(top_.run.ranks[i].rank); rss != input_.rss_bytes.end())
        top_.ranks[i].rss_bytes = rss->second;
    for (std::size_t i = 0; i < top_.nodes.size(); ++i) {
      const auto memory = input_.memory.find(top_.run.nodes[i].name);
      if (memory == input_.memory.end()) continue;
      top_.nodes[i].memory_used_bytes = memory->second.used_bytes;
      top_.nodes[i].memory_limit_bytes = memory->second.limit_bytes;
    }
  }

  void sum_up_nodes() {
    for (std::size_t i = 0; i < top_.ranks.size(); ++i) {
      const TopRank& from = top_.ranks[i];
      const std::uint32_t node = top_.run.ranks[i].node;
      if (node >= top_.nodes.size()) continue;
      TopNode& to = top_.nodes[node];
      to.window_s += from.window_s.value_or(0);
      for (std::size_t c = 0; c < shard::kCategories; ++c)
        if (from.category_s[c]) to.category_s[c] = to.category_s[c].value_or(0) + *from.category_s[c];
      if (from.rss_bytes) to.rss_bytes = to.rss_bytes.value_or(0) + *from.rss_bytes;
      if (from.unmoved_s.value_or(0) >= to_seconds(kStill_ns)) ++to.still;
    }
  }

  // As in the report: what a path counts for, and each function once where it calls itself.
  void find_functions() {
    struct Sum {
      std::uint64_t self_ns = 0, total_ns = 0, approximate_ns = 0;
    };
    std::vector<Sum> functions(paths_.functions().size()), lines(paths_.lines().size());
    std::vector<std::uint64_t> of_path(paths_.size()), of_line(paths_.size());
    std::unordered_map<shard::PathId, std::uint32_t, IdHash> row_of;
    for (std::uint32_t path = 0; path < data_.paths.size(); ++path)
      row_of.emplace(data_.paths[path].id, path);
    std::uint64_t all_ns = 0;
    for (const TopInput::PathTime& time : input_.times) {
      const auto row = row_of.find(time.path);
      if (row == row_of.end()) continue;
      all_ns += time.wall_ns;
      const std::uint32_t path = paths_.counted(row->second, time.category);
      const std::uint32_t source = paths_.source(path);
      of_path[path] += time.wall_ns;
      of_line[source] += time.wall_ns;
      if (const std::uint32_t function = paths_.function(path); function != kNone)
        functions[function].self_ns += time.wall_ns;
      if (const std::uint32_t line = paths_.line(source); line != kNone) {
        lines[line].self_ns += time.wall_ns;
        if (paths_.frame(source)->line_approximate) lines[line].approximate_ns += time.wall_ns;
      }
    }
    for (auto path = static_cast<std::uint32_t>(paths_.size()); path-- > 1;) {
      if (of_path[path] != 0 && paths_.function(path) != kNone && paths_.outermost_function(path))
        functions[paths_.function(path)].total_ns += of_path[path];
      if (of_line[path] != 0 && paths_.line(path) != kNone && paths_.outermost_line(path))
        lines[paths_.line(path)].total_ns += of_line[path];
      of_path[paths_.parent(path)] += of_path[path];
      of_line[paths_.parent(path)] += of_line[path];
    }
    top_.sampled_s = to_seconds(all_ns);
    for (std::uint32_t i = 0; i < functions.size(); ++i) {
      if (functions[i].total_ns == 0) continue;
      FunctionRow& row = top_.functions.emplace_back(name_function(i));
      row.self_s = to_seconds(functions[i].self_ns);
      row.total_s = to_seconds(functions[i].total_ns);
    }
    for (std::uint32_t i = 0; i < lines.size(); ++i) {
      if (lines[i].total_ns == 0) continue;
      const shard::Frame& frame = *paths_.lines()[i];
      LineRow& row = top_.lines.emplace_back();
      row.id = i;
      row.file = paths_.text(frame.file);
      row.function = paths_.text(frame.name);
      row.line = frame.line;
      row.self_s = to_seconds(lines[i].self_ns);
      row.total_s = to_seconds(lines[i].total_ns);
      row.approximate_s = to_seconds(lines[i].approximate_ns);
    }
    std::sort(top_.functions.begin(), top_.functions.end(), [](const FunctionRow& a, const FunctionRow& b) {
      return std::tie(b.self_s, b.total_s, a.name, a.file, a.line, a.module) <
             std::tie(a.self_s, a.total_s, b.name, b.file, b.line, b.module);
    });
    std::sort(top_.lines.begin(), top_.lines.end(), [](const LineRow& a, const LineRow& b) {
      return std::tie(b.self_s, b.total_s, a.file, a.line, a.function) <
             std::tie(a.self_s, a.total_s, b.file, b.line, b.function);
    });
  }

  const TopInput& input_;
  const shard::ShardData& data_;
  const CallPaths paths_;
  const RankOrder order_;
  Top top_;
  std::map<std::uint32_t, SourceLocation> place_of_;
  std::map<std::uint32_t, std::uint32_t> stack_of_, entered_;  // by path; by function
};

}  // namespace

Top find_top(const TopInput& input, FrameMode frames) { return TopSearch(input, frames).find(); }

}  // namespace clusterprof::report
