// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query`: answers single questions from a profile by reading only the blocks it needs. Each
// answer is made once as a table and printed as text or JSON.
#include "cli/analyze/query.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "aggregator/run_directory.hpp"
#include "cli/analyze/merge_bar.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "formats/profile/profile_reader.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/format/format.hpp"
#include "report/json/json_writer.hpp"
#include "report/text/table.hpp"

namespace clusterprof::cli {
namespace {

using namespace report::text;
using profile::PathStatistics;
using profile::PathStatisticsTable;
using profile::ProfileReader;
using shard::ShardData;
using Align = Table::Align;

constexpr std::size_t kRows = 15;
constexpr std::size_t kLowest = 5;  // ranks, below those with most time
constexpr double kQuantiles[] = {0.05, 0.25, 0.5, 0.75, 0.95, 0.99};

// --- opening ---------------------------------------------------------------------------------

// The profile of a run and its tables, or the exit status after complaining.
struct Opened {
  ProfileReader profile;
  const ShardData* data;
};
std::variant<Opened, int> open(const std::string& run) {
  const auto directory = run_directory(run);
  if (const int* status = std::get_if<int>(&directory)) return *status;
  Result<ProfileReader> profile = open_profile(std::get<std::filesystem::path>(directory), nullptr);
  if (!profile) return complain(kBadInput, profile.error().message);
  const Result<const ShardData*> head = profile.value().paths_head();
  if (!head) return complain(kBadInput, head.error().message);
  return Opened{std::move(profile.value()), head.value()};
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// --- JSON ------------------------------------------------------------------------------------

struct ToStdout {
  Output output;
  report::JsonSink sink = [this](std::string_view piece) { output(piece); };
};

class Json : private ToStdout, public report::JsonWriter {
 public:
  explicit Json(const char* question) : JsonWriter(sink) {
    begin_object();
    (*this)("schema", "clusterprof.query/1")("question", question);
  }
  // One object for each of `count` rows.
  template <typename Fill>
  void rows(std::string_view name, std::size_t count, const Fill& fill) {
    JsonWriter::rows(name, std::views::iota(std::size_t{0}, count), fill);
  }
  int print() {
    end_object();
    finish();
    return output.finish();
  }
};

// --- call paths ------------------------------------------------------------------------------

std::string id_text(const shard::PathId& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

const char* kind_name(shard::FrameKind kind) {
  static constexpr const char* kNames[] = {"python", "native", "mpi", "kernel", "region"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Rows of paths from the outermost frame on.
std::vector<std::uint32_t> frames_of(const ShardData& data, std::uint32_t path) {
  std::vector<std::uint32_t> rows;
  for (; path != 0; path = data.paths[path].parent) rows.push_back(path);
  std::reverse(rows.begin(), rows.end());
  return rows;
}

std::string frame_label(const ShardData& data, std::uint32_t path) {
  if (path == 0) return "(all)";
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  return function_label(data.strings[frame.name], frame.kind);
}

// "leaf() train.py:57 < step() < main()", as much of it as there is room for.
std::string path_label(const ShardData& data, std::uint32_t path, std::size_t room) {
  if (path == 0) return "(outside all calls)";
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  std::string label = frame_label(data, path);
  const std::string_view file = data.strings[frame.file];
  if (!file.empty())
    label += fmt::format(" {}:{}", printable(file.substr(file.find_last_of('/') + 1)), frame.line);
  for (path = data.paths[path].parent; path != 0 && columns(label) < room; path = data.paths[path].parent)
    label += " < " + frame_label(data, path);
  return shorten(label, room);
}

void write_frame(Json& json, const ShardData& data, std::uint32_t path) {
  const shard::Frame& frame = data.frames[data.paths[path].frame];
  const auto known = [&](shard::StringIndex text) {
    return text == 0 ? std::optional<std::string_view>()
                     : std::optional(std::string_view(data.strings[text]));
  };
  json("name", data.strings[frame.name])("file", known(frame.file));
  json("line", frame.line == 0 ? std::optional<std::uint32_t>() : std::optional(frame.line));
  json("kind", kind_name(frame.kind))("module", known(frame.module));
}

// A row of paths: by number or by id. Parents come before their children.
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

// --- tables ----------------------------------------------------------------------------------

Page new_page() {
  constexpr int kNarrowest = 40;
  return {static_cast<std::size_t>(std::max(columns_of(STDOUT_FILENO), kNarrowest)),
          wants_colour(STDOUT_FILENO)};
}

// The last column gets the room that is left: fill(table, room).
template <typename Fill>
void print_table(Page& page, const std::vector<Table::Column>& titles, const Fill& fill) {
  Table narrow(titles);
  fill(narrow, 0);
  Table table(titles);
  fill(table, narrow.room(page.width()));
  table.print(page);
}

void note_the_rest(Page& page, std::size_t shown, std::size_t all) {
  if (all > shown) page.line(fmt::format("  .. and {} more", all - shown), Style::kDim);
}

std::string count_text(std::uint64_t number) { return count(static_cast<double>(number)); }
std::string bytes_text(std::uint64_t number) { return bytes(static_cast<double>(number)); }
std::string share_text(double part, double whole) {
  return fmt::format("{:.1f}", whole > 0 ? 100 * part / whole : 0.0);
}

std::size_t rows_of(const QueryOptions& options, std::size_t all) {
  if (options.top != 0) return std::min(options.top, all);
  return options.json ? all : std::min(kRows, all);
}

std::string node_name(const ShardData& data, const shard::Rank& rank) { return data.nodes[rank.node].name; }

// What may be asked for, for those who asked for something else.
std::string ranks_of(const ShardData& data, const std::string& run) {
  std::vector<std::int32_t> numbers;
  for (const shard::Rank& rank : data.ranks) numbers.push_back(rank.rank);
  std::sort(numbers.begin(), numbers.end());
  return "the ranks of " + run + " are " + rank_list(numbers);
}

std::string nodes_of(const ShardData& data) {
  constexpr std::size_t kMost = 8;
  std::string names;
  for (std::size_t i = 0; i < std::min(data.nodes.size(), kMost); ++i)
    names += (i == 0 ? "" : ", ") + data.nodes[i].name;
  return data.nodes.size() > kMost ? names + ", .." : names;
}

}  // namespace

// --- rank ------------------------------------------------------------------------------------

int query_rank(const QueryOptions& options) {
  std::variant<Opened, int> opened = open(options.run);
  if (const int* status = std::get_if<int>(&opened)) return *status;
  auto& [profile, head] = std::get<Opened>(opened);
  const ShardData& data = *head;
  const std::optional<std::int32_t> wanted = number_of<std::int32_t>(options.argument);
  if (!wanted)
    return complain(kBadUsage,
                    "query rank: '" + options.argument + "' is no number; " + ranks_of(data, options.run));
  const auto found = std::find_if(data.ranks.begin(), data.ranks.end(),
                                  [&](const shard::Rank& rank) { return rank.rank == *wanted; });
  if (found == data.ranks.end())
    return complain(kNothingFound, options.run + ": there is no rank " + options.argument + "; " +
                                       ranks_of(data, options.run));
  const shard::Rank& rank = *found;
  const Result<shard::MatrixRows> rows = profile.rank(static_cast<std::uint32_t>(found - data.ranks.begin()));
  if (!rows) return complain(kBadInput, rows.error().message);

  struct OfPath {
    std::uint32_t path = 0;
    std::uint64_t self_ns = 0, total_ns = 0, cpu_ns = 0, main_ns = 0, samples = 0;
  };
  std::vector<OfPath> of(data.paths.size());
  for (std::uint32_t i = 0; i < of.size(); ++i) of[i].path = i;
  std::uint64_t all_ns = 0;
  for (const shard::Value& value : rows.value().values) {
    OfPath& path = of[value.path];
    path.self_ns += value.wall_ns, path.total_ns += value.wall_ns;
    path.cpu_ns += value.cpu_ns, path.samples += value.samples;
    if (value.main_thread) path.main_ns += value.wall_ns;
    all_ns += value.wall_ns;
  }
  for (std::size_t i = of.size(); i-- > 1;) of[data.paths[i].parent].total_ns += of[i].total_ns;
  std::erase_if(of, [](const OfPath& path) { return path.self_ns == 0 && path.samples == 0; });
  std::stable_sort(of.begin(), of.end(),
                   [](const OfPath& x, const OfPath& y) { return x.self_ns > y.self_ns; });
  const std::size_t shown = rows_of(options, of.size());

  if (options.json) {
    Json json("rank");
    json("rank", rank.rank)("node", node_name(data, rank))("elapsed_s", seconds_of(rank.elapsed_ns));
    json("time_s", seconds_of(all_ns))("paths", of.size());
    const report::OptionalCategorySeconds categories =
        report::main_thread_categories(rank, data.run.clock == "cpu");
    for (std::size_t c = 0; c < categories.size(); ++c)
      json(std::string(shard::kCategoryNames[c]) + "_s", categories[c]);
    json.rows("call_paths", shown, [&](std::size_t i) {
      const OfPath& path = of[i];
      json("row", path.path)("id", id_text(data.paths[path.path].id));
      if (path.path != 0) write_frame(json, data, path.path);
      json("self_s", seconds_of(path.self_ns))("total_s", seconds_of(path.total_ns));
      json("main_thread_s", seconds_of(path.main_ns))("cpu_s", seconds_of(path.cpu_ns))("samples",
                                                                                        path.samples);
    });
    return json.print();
  }
  Page page = new_page();
  page.section(fmt::format("Rank {} on {}", rank.rank, printable(node_name(data, rank))),
               fmt::format("{}; {} on {}", seconds(seconds_of(rank.elapsed_ns)), seconds(seconds_of(all_ns)),
                           plural(rank.threads, "thread")));
  const TimeScale scale(seconds_of(all_ns));
  print_table(
      page, {{"self"}, {"%"}, {"total"}, {"cpu"}, {"samples"}, {"row"}, {"call path", Align::kLeft}},
      [&](Table& table, std::size_t room) {
        for (std::size_t i = 0; i < shown; ++i) {
          const OfPath& path = of[i];
          const double self_s = seconds_of(path.self_ns);
          table.row({scale(self_s), share_text(self_s, seconds_of(all_ns)), scale(seconds_of(path.total_ns)),
                     scale(seconds_of(path.cpu_ns)), count_text(path.samples), std::to_string(path.path),
                     room == 0 ? "" : path_label(data, path.path, room)});
        }
      });
  note_the_rest(page, shown, of.size());
  page.line(fmt::format("  in {}, all threads; row: for clusterprof query {} path ROW", scale.unit(),
                        shell_word(options.run)),
            Style::kDim);
  return print(page.take());
}

// --- path ------------------------------------------------------------------------------------

namespace {

struct OfRank {
  std::uint32_t rank = 0;  // row of ranks
  std::uint64_t time_ns = 0, cpu_ns = 0, samples = 0;
};

struct PathTimes {
  std::vector<OfRank> ranks;            // that have the path, by rank
  std::vector<std::uint64_t> counters;  // sums over ranks
};

// Of a path alone or of its subtree, a node at a time: of the root's there are all rows of the file.
Result<PathTimes> times_of(ProfileReader& profile, const ShardData& data, std::uint32_t path,
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

template <typename QuantileOf>
void print_quantiles(Page& page, const TimeScale& scale, const QuantileOf& quantile_of) {
  std::vector<Table::Column> columns{{"share of the ranks", Align::kLeft}};
  std::vector<std::string> times{"take at most"};
  for (const double share : kQuantiles)
    if (const std::optional<double> time_s = quantile_of(share)) {
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

}  // namespace

int query_path(const QueryOptions& options) {
  std::variant<Opened, int> opened = open(options.run);
  if (const int* status = std::get_if<int>(&opened)) return *status;
  auto& [profile, head] = std::get<Opened>(opened);
  const ShardData& data = *head;
  const std::optional<std::uint32_t> row = find_path(data, options.argument);
  if (!row)
    return complain(kNothingFound, options.run + ": there is no call path " + options.argument + "; query " +
                                       options.run + " rank R lists rows, from 0 to " +
                                       std::to_string(data.paths.size() - 1));
  const Result<PathStatisticsTable> table = profile.statistics();
  if (!table) return complain(kBadInput, table.error().message);
  const PathStatistics& statistics = table.value().paths[*row];
  const profile::Spread& spread = options.inclusive ? statistics.inclusive : statistics.exclusive;
  const Moments moments = moments_of(spread, statistics.ranks);
  Result<PathTimes> read = times_of(profile, data, *row, options.inclusive);
  if (!read) return complain(kBadInput, read.error().message);
  std::vector<OfRank>& ranks = read.value().ranks;
  const auto quantile = [&](double share) {
    const std::optional<double> ns = table.value().quantile_ns(*row, !options.inclusive, share);
    return ns ? std::optional(*ns / 1e9) : std::nullopt;
  };
  const std::vector<std::uint32_t> frames = frames_of(data, *row);

  if (options.json) {
    Json json("path");
    json("row", *row)("id", id_text(data.paths[*row].id))("inclusive", options.inclusive);
    json.rows("frames", frames.size(), [&](std::size_t i) {
      json("row", frames[i]);
      write_frame(json, data, frames[i]);
    });
    json.object("statistics", [&] {
      json("ranks", statistics.ranks)("sum_s", seconds_of(spread.sum_ns));
      if (statistics.ranks == 0) return;
      json("min_s", seconds_of(spread.min_ns))("min_rank", spread.min_rank)("mean_s", moments.mean_s);
      json("max_s", seconds_of(spread.max_ns))("max_rank", spread.max_rank);
      json("standard_deviation_s", moments.deviation_s);
    });
    json.object("quantiles", [&] {
      for (const double share : kQuantiles) json(fmt::format("{:.2f}", share), quantile(share));
    });
    json.object("counters", [&] {
      for (std::size_t i = 0; i < data.counters.size(); ++i) json(data.counters[i], read.value().counters[i]);
    });
    const std::size_t shown = rows_of(options, ranks.size());
    if (options.top != 0)
      std::stable_sort(ranks.begin(), ranks.end(),
                       [](const OfRank& x, const OfRank& y) { return x.time_ns > y.time_ns; });
    json.rows("ranks", shown, [&](std::size_t i) {
      const OfRank& rank = ranks[i];
      json("rank", data.ranks[rank.rank].rank)("node", node_name(data, data.ranks[rank.rank]));
      json("time_s", seconds_of(rank.time_ns))("cpu_s", seconds_of(rank.cpu_ns))("samples", rank.samples);
    });
    return json.print();
  }
  Page page = new_page();
  page.section(fmt::format("Call path {}", *row), id_text(data.paths[*row].id));
  if (frames.empty()) page.line("  the root: all of every rank");
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::string indent(2 + 2 * std::min<std::size_t>(i, 16), ' ');
    const shard::Frame& frame = data.frames[data.paths[frames[i]].frame];
    const std::string_view file = data.strings[frame.file];
    const std::string place =
        file.empty() ? std::string(kind_name(frame.kind))
                     : fmt::format("{}:{}", printable(file.substr(file.find_last_of('/') + 1)), frame.line);
    page.line(indent + name_and_place(frame_label(data, frames[i]), place, page.width() - indent.size()));
  }
  const TimeScale scale(seconds_of(spread.max_ns));
  page.section(options.inclusive ? "Time with what is called from there" : "Time in the path itself",
               fmt::format("{} of {}, {} in all", statistics.ranks, plural(data.ranks.size(), "rank"),
                           seconds(seconds_of(spread.sum_ns))));
  if (statistics.ranks == 0) {
    page.line("  No rank has it.");
    return print(page.take());
  }
  page.line(fmt::format("  min {} (@{})  mean {}  max {} (@{})  deviation {}, in {}",
                        scale(seconds_of(spread.min_ns)), spread.min_rank, scale(moments.mean_s),
                        scale(seconds_of(spread.max_ns)), spread.max_rank, scale(moments.deviation_s),
                        scale.unit()));
  print_quantiles(page, scale, quantile);
  for (std::size_t i = 0; i < data.counters.size(); ++i)
    if (read.value().counters[i] != 0)
      page.line(fmt::format("  {}  {}", printable(data.counters[i]), count_text(read.value().counters[i])));

  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const OfRank& x, const OfRank& y) { return x.time_ns > y.time_ns; });
  if (ranks.empty()) {
    page.line("  No samples ended in it; with --inclusive: those in what is called from there.", Style::kDim);
    return print(page.take());
  }
  const std::size_t most = rows_of(options, ranks.size());
  const std::size_t lowest = std::min(kLowest, ranks.size() - most);
  page.blank();
  print_table(
      page, {{"rank"}, {"time"}, {"cpu"}, {"samples"}, {"node", Align::kLeft}},
      [&](Table& out, std::size_t room) {
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          if (i == most && i + lowest < ranks.size()) {
            out.row({"..", "", "", "", fmt::format("{} more", ranks.size() - most - lowest)}, Style::kDim);
            i = ranks.size() - lowest;
            if (i == ranks.size()) break;
          }
          const OfRank& rank = ranks[i];
          const shard::Rank& of = data.ranks[rank.rank];
          out.row({std::to_string(of.rank), scale(seconds_of(rank.time_ns)), scale(seconds_of(rank.cpu_ns)),
                   count_text(rank.samples),
                   room == 0 ? "" : shorten_middle(printable(node_name(data, of)), room)});
        }
      });
  return print(page.take());
}

// --- functions -------------------------------------------------------------------------------

int query_functions(const QueryOptions& options) {
  const auto directory = run_directory(options.run);
  if (const int* status = std::get_if<int>(&directory)) return *status;
  Result<report::Analysis> read = stored_analysis(std::get<std::filesystem::path>(directory), false);
  if (!read) return complain(kBadInput, read.error().message);
  const report::Analysis& analysis = read.value();
  if (!options.json) {
    report::TextOptions text;
    text.width = columns_of(STDOUT_FILENO);
    text.colour = wants_colour(STDOUT_FILENO);
    text.unicode = wants_unicode();
    text.sections = {"hotspots"};
    if (options.top != 0) text.rows = options.top;
    return print(report::render_text(analysis, text));
  }
  const auto known = [](const std::string& text) {
    return text.empty() ? std::optional<std::string>() : std::optional(text);
  };
  Json json("functions");
  json("functions", analysis.functions.size());
  json.rows("top", rows_of(options, analysis.functions.size()), [&](std::size_t i) {
    const report::FunctionRow& row = analysis.functions[i];
    json("name", row.name)("file", known(row.file));
    json("line", row.line == 0 ? std::optional<std::uint32_t>() : std::optional(row.line));
    json("kind", kind_name(row.kind))("module", known(row.module));
    json("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s)("rank_min_s", row.spread.min_s);
    json("rank_mean_s", row.spread.mean_s)("rank_max_s", row.spread.max_s)("rank_max", row.spread.max_rank);
  });
  return json.print();
}

// --- node ------------------------------------------------------------------------------------

int query_node(const QueryOptions& options) {
  std::variant<Opened, int> opened = open(options.run);
  if (const int* status = std::get_if<int>(&opened)) return *status;
  const ShardData& data = *std::get<Opened>(opened).data;
  const auto found = std::find_if(data.nodes.begin(), data.nodes.end(),
                                  [&](const shard::Node& node) { return node.name == options.argument; });
  if (found == data.nodes.end())
    return complain(kNothingFound,
                    options.run + ": there is no node " + options.argument + "; there are " + nodes_of(data));
  const auto here = static_cast<std::uint32_t>(found - data.nodes.begin());
  std::map<std::int32_t, std::uint32_t> node_of;
  std::vector<const shard::Rank*> ranks;
  for (const shard::Rank& rank : data.ranks) {
    node_of[rank.rank] = rank.node;
    if (rank.node == here) ranks.push_back(&rank);
  }
  struct Exchange {
    std::uint64_t sent_messages = 0, sent_bytes = 0, received_messages = 0, received_bytes = 0;
  };
  std::map<std::uint32_t, Exchange> exchanged;  // kNone: with ranks that are not in the profile
  std::vector<const shard::MatrixCell*> cells;  // that begin or end here
  const auto node = [&](std::int32_t rank) {
    const auto known = node_of.find(rank);
    return known == node_of.end() ? shard::kNone : known->second;
  };
  for (const shard::MatrixCell& cell : data.matrix) {
    const std::uint32_t source = node(cell.source), destination = node(cell.destination);
    if (source != here && destination != here) continue;
    cells.push_back(&cell);
    if (source == here) {
      Exchange& with = exchanged[destination];
      with.sent_messages += cell.messages, with.sent_bytes += cell.bytes;
    }
    if (destination == here) {
      Exchange& with = exchanged[source];
      with.received_messages += cell.messages, with.received_bytes += cell.bytes;
    }
  }
  std::vector<std::pair<std::uint32_t, Exchange>> nodes(exchanged.begin(), exchanged.end());
  const auto weight = [](const Exchange& with) { return with.sent_bytes + with.received_bytes; };
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const auto& x, const auto& y) { return weight(x.second) > weight(y.second); });

  if (options.json) {
    Json json("node");
    json("node", found->name)("elapsed_s", seconds_of(found->elapsed_ns))("cpu_s", seconds_of(found->cpu_ns));
    json.rows("ranks", ranks.size(), [&](std::size_t i) {
      const shard::Rank& rank = *ranks[i];
      json("rank", rank.rank)("pid", rank.pid)("elapsed_s", seconds_of(rank.elapsed_ns));
      json("cpu_s", seconds_of(rank.cpu_ns))("mpi_s", seconds_of(rank.mpi_ns))("samples", rank.samples);
      json("threads", rank.threads);
    });
    json.rows("nodes", rows_of(options, nodes.size()), [&](std::size_t i) {
      const auto& [other, with] = nodes[i];
      json("node",
           other == shard::kNone ? std::optional<std::string>() : std::optional(data.nodes[other].name));
      json("sent_messages", with.sent_messages)("sent_bytes", with.sent_bytes);
      json("received_messages", with.received_messages)("received_bytes", with.received_bytes);
    });
    json.rows("matrix", cells.size(), [&](std::size_t i) {
      json("src", cells[i]->source)("dst", cells[i]->destination);
      json("messages", cells[i]->messages)("bytes", cells[i]->bytes);
    });
    return json.print();
  }
  Page page = new_page();
  double longest = 0;
  for (const shard::Rank* rank : ranks)
    longest = std::max(longest, seconds_of(std::max(rank->elapsed_ns, rank->cpu_ns)));
  const TimeScale scale(longest);
  page.section(fmt::format("Node {}", printable(found->name)),
               fmt::format("{}, {}", plural(ranks.size(), "rank"), seconds(seconds_of(found->elapsed_ns))));
  const std::size_t shown = rows_of(options, ranks.size());
  print_table(
      page, {{"rank"}, {"pid"}, {"elapsed"}, {"cpu"}, {"mpi"}, {"samples"}, {"threads"}},
      [&](Table& table, std::size_t) {
        for (std::size_t i = 0; i < shown; ++i) {
          const shard::Rank& rank = *ranks[i];
          table.row({std::to_string(rank.rank), std::to_string(rank.pid), scale(seconds_of(rank.elapsed_ns)),
                     scale(seconds_of(rank.cpu_ns)), scale(seconds_of(rank.mpi_ns)), count_text(rank.samples),
                     std::to_string(rank.threads)});
        }
      });
  note_the_rest(page, shown, ranks.size());
  page.line(fmt::format("  in {}; mpi: of the main thread", scale.unit()), Style::kDim);
  page.section("Messages", fmt::format("{} of ranks", plural(cells.size(), "pair")));
  if (nodes.empty()) {
    page.line("  None were recorded.");
    return print(page.take());
  }
  const std::size_t others = rows_of(options, nodes.size());
  print_table(page, {{"sent"}, {"messages"}, {"received"}, {"messages"}, {"with", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < others; ++i) {
                  const auto& [other, with] = nodes[i];
                  const std::string name = other == shard::kNone ? "ranks that are not in the profile"
                                           : other == here       ? "itself"
                                                                 : printable(data.nodes[other].name);
                  table.row({bytes_text(with.sent_bytes), count_text(with.sent_messages),
                             bytes_text(with.received_bytes), count_text(with.received_messages),
                             room == 0 ? "" : shorten_middle(name, room)});
                }
              });
  note_the_rest(page, others, nodes.size());
  return print(page.take());
}

}  // namespace clusterprof::cli
