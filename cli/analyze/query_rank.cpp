// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query RUN rank R`: the call paths of one rank, by time.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/command_text.hpp"
#include "cli/analyze/query_parts.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::cli {

using namespace report::format;
using namespace report::text;
using shard::ShardData;
using Align = Table::Align;

namespace {

// One call path on the rank.
struct PathRow {
  std::uint32_t path = 0;
  std::uint64_t self_ns = 0, total_ns = 0, cpu_ns = 0, main_ns = 0, samples = 0;
};

struct RankAnswer {
  const shard::Rank& rank;
  std::vector<PathRow> paths;  // by self time
  std::uint64_t all_ns = 0;
};

// Empty: not known.
std::vector<std::string> command_of(const ShardData& data, const shard::Rank& rank) {
  return command_words(data.strings[rank.command]);
}

// The ranks that may be asked for.
std::string ranks_of(const ShardData& data, const std::string& run) {
  std::vector<std::int32_t> numbers;
  for (const shard::Rank& rank : data.ranks) numbers.push_back(rank.rank);
  std::sort(numbers.begin(), numbers.end());
  return "the ranks of " + run + " are " + rank_list(numbers);
}

RankAnswer answer_of(const ShardData& data, const shard::Rank& rank, const shard::MatrixRows& rows) {
  std::vector<PathRow> of(data.paths.size());
  for (std::uint32_t i = 0; i < of.size(); ++i) of[i].path = i;
  for (const shard::Value& value : rows.values) {
    PathRow& path = of[value.path];
    path.self_ns += value.wall_ns, path.total_ns += value.wall_ns;
    path.cpu_ns += value.cpu_ns, path.samples += value.samples;
    if (value.main_thread) path.main_ns += value.wall_ns;
  }
  for (std::size_t i = of.size(); i-- > 1;) of[data.paths[i].parent].total_ns += of[i].total_ns;
  std::erase_if(of, [](const PathRow& path) { return path.self_ns == 0 && path.samples == 0; });
  std::stable_sort(of.begin(), of.end(),
                   [](const PathRow& x, const PathRow& y) { return x.self_ns > y.self_ns; });
  RankAnswer answer{rank, std::move(of)};
  for (const PathRow& path : answer.paths) answer.all_ns += path.self_ns;
  return answer;
}

int print_json(const QueryOptions& options, const ShardData& data, const RankAnswer& answer) {
  const shard::Rank& rank = answer.rank;
  const std::size_t shown = rows_of(options, answer.paths.size());
  QueryJson json("rank");
  json("rank", rank.rank)("node", node_name(data, rank))("command", command_of(data, rank));
  json("elapsed_s", seconds_of(rank.elapsed_ns));
  json("time_s", seconds_of(answer.all_ns))("paths", answer.paths.size());
  const report::OptionalCategorySeconds categories =
      report::main_thread_categories(rank, data.run.clock == "cpu");
  for (std::size_t c = 0; c < categories.size(); ++c)
    json(std::string(shard::kCategoryNames[c]) + "_s", categories[c]);
  json.rows("call_paths", shown, [&](std::size_t i) {
    const PathRow& path = answer.paths[i];
    json("row", path.path)("id", id_text(data.paths[path.path].id));
    if (path.path != 0) write_frame(json, data, path.path);
    json("self_s", seconds_of(path.self_ns))("total_s", seconds_of(path.total_ns));
    json("main_thread_s", seconds_of(path.main_ns))("cpu_s", seconds_of(path.cpu_ns))("samples",
                                                                                      path.samples);
  });
  return json.print();
}

int print_text(const QueryOptions& options, const ShardData& data, const RankAnswer& answer) {
  const shard::Rank& rank = answer.rank;
  const std::size_t shown = rows_of(options, answer.paths.size());
  Page page = new_page();
  page.section(fmt::format("Rank {} on {}", rank.rank, printable(node_name(data, rank))),
               fmt::format("{}; {} on {}", seconds(seconds_of(rank.elapsed_ns)),
                           seconds(seconds_of(answer.all_ns)), plural(rank.threads, "thread")));
  if (const std::string command = command_line(command_of(data, rank)); !command.empty())
    page.line(fmt::format("  {}", command));
  const TimeScale scale(seconds_of(answer.all_ns));
  print_table(page, {{"self"}, {"%"}, {"total"}, {"cpu"}, {"samples"}, {"row"}, {"call path", Align::kLeft}},
              [&](Table& table, std::size_t room) {
                for (std::size_t i = 0; i < shown; ++i) {
                  const PathRow& path = answer.paths[i];
                  const double self_s = seconds_of(path.self_ns);
                  table.row({scale(self_s), share_text(self_s, seconds_of(answer.all_ns)),
                             scale(seconds_of(path.total_ns)), scale(seconds_of(path.cpu_ns)),
                             count_text(path.samples), std::to_string(path.path),
                             room == 0 ? "" : path_label(data, path.path, room)});
                }
              });
  note_the_rest(page, shown, answer.paths.size());
  page.line(fmt::format("  in {}, all threads; row: for clusterprof query {} path ROW", scale.unit(),
                        shell_word(options.run)),
            Style::kDim);
  return print(page.take());
}

}  // namespace

int query_rank(const QueryOptions& options) {
  Result<OpenedProfile> opened = open_for_query(options.run);
  if (!opened) return complain(opened.error());
  auto& [profile, head] = opened.value();
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
  if (!rows) return complain(rows.error());
  const RankAnswer answer = answer_of(data, rank, rows.value());
  return options.json ? print_json(options, data, answer) : print_text(options, data, answer);
}

}  // namespace clusterprof::cli
