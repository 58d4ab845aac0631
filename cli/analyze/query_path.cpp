// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query RUN path PATH`: one call path, its statistics over ranks and its time on every rank.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cli/analyze/query_parts.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {

using namespace report::format;
using namespace report::text;
using shard::ShardData;
using Align = Table::Align;

namespace {

using profile::PathStatistics;
using profile::PathStatisticsTable;

constexpr std::size_t kLowest = 5;  // ranks, below those with most time
constexpr double kQuantiles[] = {0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

// The row of a path that is given by its row or by its id.
std::optional<std::uint32_t> find_path(const ShardData& data, const std::string& argument) {
  if (argument.size() == 32) {
    const auto half = [&](std::size_t at) {
      std::uint64_t bits = 0;
      const char* const begin = argument.data() + at;
      const auto [end, error] = std::from_chars(begin, begin + 16, bits, 16);
      return error == std::errc() && end == begin + 16 ? std::optional(bits) : std::optional<std::uint64_t>();
    };
    const auto high = half(0), low = half(16);
    if (!high || !low) return {};
    const auto found = std::find_if(data.paths.begin(), data.paths.end(), [&](const shard::Path& path) {
      return path.id == shard::PathId{*high, *low};
    });
    if (found == data.paths.end()) return {};
    return static_cast<std::uint32_t>(found - data.paths.begin());
  }
  const std::optional<std::uint32_t> row = number_of<std::uint32_t>(argument);
  return row && *row < data.paths.size() ? row : std::nullopt;
}

// The rows of the path's frames, the outermost first.
std::vector<std::uint32_t> frames_of(const ShardData& data, std::uint32_t path) {
  std::vector<std::uint32_t> rows;
  for (; path != 0; path = data.paths[path].parent) rows.push_back(path);
  std::reverse(rows.begin(), rows.end());
  return rows;
}

struct OfRank {
  std::uint32_t rank = 0;  // row of ranks
  std::uint64_t time_ns = 0, cpu_ns = 0, samples = 0;
};

struct PathTimes {
  std::vector<OfRank> ranks;            // that have the path, by rank
  std::vector<std::uint64_t> counters;  // sums over ranks
};

// The times of a path alone or with its subtree. Rows are read a node at a time, because the subtree of the
// root has all rows of the file.
Result<PathTimes> times_of(profile::ProfileReader& profile, const ShardData& data, std::uint32_t path,
                           bool inclusive) {
  std::vector<bool> within(data.paths.size(), false);
  within[path] = true;
  std::uint32_t end = path + 1;
  if (inclusive)
    for (std::uint32_t i = path + 1; i < data.paths.size(); ++i)
      if (within[data.paths[i].parent]) within[i] = true, end = i + 1;
  std::vector<OfRank> of(data.ranks.size());
  std::vector<bool> has(data.ranks.size(), false);
  PathTimes times;
  times.counters.resize(data.counters.size(), 0);
  const Result<void> read = profile.paths(path, end, [&](const shard::MatrixRows& rows) {
    for (const shard::Value& value : rows.values) {
      if (!within[value.path]) continue;
      OfRank& rank = of[value.rank];
      has[value.rank] = true;
      rank.time_ns += value.wall_ns, rank.cpu_ns += value.cpu_ns, rank.samples += value.samples;
    }
    for (const shard::PathCounter& counter : rows.path_counters)
      if (within[counter.path]) times.counters[counter.counter] += counter.value;
  });
  if (!read) return read.error();
  for (std::uint32_t i = 0; i < of.size(); ++i) {
    of[i].rank = i;
    if (has[i]) times.ranks.push_back(of[i]);
  }
  return times;
}

struct Moments {
  double mean_s = 0, deviation_s = 0;
};
Moments moments_of(const profile::Spread& spread, std::uint32_t ranks) {
  if (ranks == 0) return {};
  const double n = ranks, mean = static_cast<double>(spread.sum_ns) / n;
  const double variance = static_cast<double>(spread.sum_squares_ns2) / n - mean * mean;
  return {mean / 1e9, std::sqrt(std::max(0.0, variance)) / 1e9};
}

struct PathAnswer {
  std::uint32_t path = 0;
  std::vector<std::uint32_t> frames;
  const PathStatisticsTable& table;
  const PathStatistics& statistics;
  const profile::Spread& spread;  // of the time that was asked for: inclusive or exclusive
  bool inclusive = false;
  Moments moments;
  std::vector<OfRank> ranks;
  std::vector<std::uint64_t> counters;

  [[nodiscard]] std::optional<double> quantile_s(double share) const {
    const std::optional<double> ns = table.quantile_ns(path, !inclusive, share);
    return ns ? std::optional(*ns / 1e9) : std::nullopt;
  }
};

void sort_by_time(std::vector<OfRank>& ranks) {
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const OfRank& x, const OfRank& y) { return x.time_ns > y.time_ns; });
}

int print_json(const QueryOptions& options, const ShardData& data, PathAnswer& answer) {
  QueryJson json("path");
  json("row", answer.path)("id", id_text(data.paths[answer.path].id))("inclusive", options.inclusive);
  json.rows("frames", answer.frames.size(), [&](std::size_t i) {
    json("row", answer.frames[i]);
    write_frame(json, data, answer.frames[i]);
  });
  json.object("statistics", [&] {
    json("ranks", answer.statistics.ranks)("sum_s", seconds_of(answer.spread.sum_ns));
    if (answer.statistics.ranks == 0) return;
    json("min_s", seconds_of(answer.spread.min_ns))("min_rank", answer.spread.min_rank)(
        "mean_s", answer.moments.mean_s);
    json("max_s", seconds_of(answer.spread.max_ns))("max_rank", answer.spread.max_rank);
    json("standard_deviation_s", answer.moments.deviation_s);
  });
  json.object("quantiles", [&] {
    for (const double share : kQuantiles) json(fmt::format("{:.2f}", share), answer.quantile_s(share));
  });
  json.object("counters", [&] {
    for (std::size_t i = 0; i < data.counters.size(); ++i) json(data.counters[i], answer.counters[i]);
  });
  const std::size_t shown = rows_of(options, answer.ranks.size());
  if (options.top != 0) sort_by_time(answer.ranks);
  json.rows("ranks", shown, [&](std::size_t i) {
    const OfRank& rank = answer.ranks[i];
    json("rank", data.ranks[rank.rank].rank)("node", node_name(data, data.ranks[rank.rank]));
    json("time_s", seconds_of(rank.time_ns))("cpu_s", seconds_of(rank.cpu_ns))("samples", rank.samples);
  });
  return json.print();
}

void print_quantiles(Page& page, const TimeScale& scale, const PathAnswer& answer) {
  std::vector<Table::Column> columns{{"share of the ranks", Align::kLeft}};
  std::vector<std::string> times{"take at most"};
  for (const double share : kQuantiles)
    if (const std::optional<double> time_s = answer.quantile_s(share)) {
      columns.push_back({fmt::format("{:.0f} %", 100 * share)});
      times.push_back(scale(*time_s));
    }
  if (times.size() == 1) return;  // no rank has the path
  columns.push_back({"", Align::kLeft});
  times.emplace_back("within 5 %");
  Table table(columns);
  table.row(times);
  table.print(page);
}

void print_frames(Page& page, const ShardData& data, const PathAnswer& answer) {
  if (answer.frames.empty()) page.line("  the root: all of every rank");
  for (std::size_t i = 0; i < answer.frames.size(); ++i) {
    const std::string indent(2 + 2 * std::min<std::size_t>(i, 16), ' ');
    const shard::Frame& frame = data.frames[data.paths[answer.frames[i]].frame];
    const std::string place = short_place(data, frame);
    page.line(indent + name_and_place(frame_label(data, answer.frames[i]),
                                      place.empty() ? frame_kind_name(frame.kind) : place,
                                      page.width() - indent.size()));
  }
}

// The ranks with most time, then those with least.
void print_ranks(Page& page, const QueryOptions& options, const ShardData& data, const PathAnswer& answer,
                 const TimeScale& scale) {
  const std::size_t most = rows_of(options, answer.ranks.size());
  const std::size_t lowest = std::min(kLowest, answer.ranks.size() - most);
  page.blank();
  print_table(page, {{"rank"}, {"time"}, {"cpu"}, {"samples"}, {"node", Align::kLeft}},
              [&](Table& out, std::size_t room) {
                for (std::size_t i = 0; i < answer.ranks.size(); ++i) {
                  if (i == most && i + lowest < answer.ranks.size()) {
                    out.row({"..", "", "", "", fmt::format("{} more", answer.ranks.size() - most - lowest)},
                            Style::kDim);
                    i = answer.ranks.size() - lowest;
                    if (i == answer.ranks.size()) break;
                  }
                  const OfRank& rank = answer.ranks[i];
                  const shard::Rank& of = data.ranks[rank.rank];
                  out.row({std::to_string(of.rank), scale(seconds_of(rank.time_ns)),
                           scale(seconds_of(rank.cpu_ns)), count_text(rank.samples),
                           room == 0 ? "" : shorten_middle(printable(node_name(data, of)), room)});
                }
              });
}

int print_text(const QueryOptions& options, const ShardData& data, PathAnswer& answer) {
  Page page = new_page();
  page.section(fmt::format("Call path {}", answer.path), id_text(data.paths[answer.path].id));
  print_frames(page, data, answer);
  const TimeScale scale(seconds_of(answer.spread.max_ns));
  page.section(options.inclusive ? "Time with what is called from there" : "Time in the path itself",
               fmt::format("{} of {}, {} in all", answer.statistics.ranks, plural(data.ranks.size(), "rank"),
                           seconds(seconds_of(answer.spread.sum_ns))));
  if (answer.statistics.ranks == 0) {
    page.line("  No rank has it.");
    return print(page.take());
  }
  page.line(fmt::format("  min {} (@{})  mean {}  max {} (@{})  deviation {}, in {}",
                        scale(seconds_of(answer.spread.min_ns)), answer.spread.min_rank,
                        scale(answer.moments.mean_s), scale(seconds_of(answer.spread.max_ns)),
                        answer.spread.max_rank, scale(answer.moments.deviation_s), scale.unit()));
  print_quantiles(page, scale, answer);
  for (std::size_t i = 0; i < data.counters.size(); ++i)
    if (answer.counters[i] != 0)
      page.line(fmt::format("  {}  {}", printable(data.counters[i]), count_text(answer.counters[i])));
  if (answer.ranks.empty()) {
    page.line("  No samples ended in it; with --inclusive: those in what is called from there.", Style::kDim);
  } else {
    sort_by_time(answer.ranks);
    print_ranks(page, options, data, answer, scale);
  }
  return print(page.take());
}

}  // namespace

int query_path(const QueryOptions& options) {
  Result<OpenedProfile> opened = open_for_query(options.run);
  if (!opened) return complain(opened.error());
  auto& [profile, head] = opened.value();
  const ShardData& data = *head;
  const std::optional<std::uint32_t> row = find_path(data, options.argument);
  if (!row)
    return complain(kNothingFound, options.run + ": there is no call path " + options.argument + "; query " +
                                       options.run + " rank R lists rows, from 0 to " +
                                       std::to_string(data.paths.size() - 1));
  const Result<PathStatisticsTable> table = profile.statistics();
  if (!table) return complain(table.error());
  const PathStatistics& statistics = table.value().paths[*row];
  const profile::Spread& spread = options.inclusive ? statistics.inclusive : statistics.exclusive;
  Result<PathTimes> times = times_of(profile, data, *row, options.inclusive);
  if (!times) return complain(times.error());
  PathAnswer answer{*row,
                    frames_of(data, *row),
                    table.value(),
                    statistics,
                    spread,
                    options.inclusive,
                    moments_of(spread, statistics.ranks),
                    std::move(times.value().ranks),
                    std::move(times.value().counters)};
  return options.json ? print_json(options, data, answer) : print_text(options, data, answer);
}

}  // namespace clusterprof::cli
