// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof ls`: lists the runs of a directory with their state, job, efficiency and worst finding,
// from the stored analysis or the heads of their shards, without merging anything.
#include "cli/analyze/ls.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "aggregator/merger.hpp"
#include "aggregator/notes.hpp"
#include "aggregator/run_directory.hpp"
#include "base/result.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "formats/profile/profile_reader.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/analysis/efficiency.hpp"
#include "report/analysis/run_and_ranks.hpp"
#include "report/analysis/run_state.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"
#include "report/text/table.hpp"
#include "report/words/findings.hpp"
#include "report/words/run_state.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
namespace format = report::format;
namespace text = report::text;
using shard::ShardData;

constexpr int kOneLine = 120;  // columns of a terminal from which a run is one line
constexpr std::size_t kNameColumns = 36, kCommandColumns = 32;
constexpr std::size_t kAnyWidth = 4096;

enum class State { kMerged, kNotMerged, kDamaged };

struct ListedRun {
  std::string name;
  std::string job;  // or the time in the name; empty: neither is known
  State state = State::kNotMerged;
  std::string error;  // of a damaged one
  report::RunInfo run;
  bool analysed = false;  // the next three are known, where there is anything to know
  report::Efficiency efficiency;
  std::string bottleneck;
  std::optional<report::Finding> finding;
  std::string finding_text, finding_headline;
};

void describe(const ShardData& data, report::RunInfo& run) {
  run.id = data.run.id;
  run.command = data.run.command;
  run.start_utc_ns = data.run.start_utc_ns;
  run.ranks = data.ranks.size();
  run.nodes = data.nodes.size();
  run.complete = data.run.complete;
  std::int64_t first = 0, last = 0;
  for (const shard::Rank& rank : data.ranks) {
    first = first == 0 ? rank.start_utc_ns : std::min(first, rank.start_utc_ns);
    last = std::max(last, rank.start_utc_ns + static_cast<std::int64_t>(rank.elapsed_ns));
  }
  run.elapsed_s = static_cast<double>(last - first) * 1e-9;
  report::Analysis nodes;
  report::describe_nodes(data, nodes);
  nodes.run.snapshot_utc_ns = run.snapshot_utc_ns = report::snapshot_utc_ns(data);
  report::find_run_state(nodes);
  run.state = nodes.run.state;
  run.as_of_s = nodes.run.as_of_s;
}

// What the profile says, without computing any of it.
Result<void> read_profile(const fs::path& path, ListedRun& listed) {
  Result<profile::ProfileReader> reader = profile::ProfileReader::open(path);
  if (!reader) return reader.error();
  const Result<std::vector<std::byte>> stored = reader.value().report();
  if (!stored) return stored.error();
  listed.state = State::kMerged;
  if (auto analysis = report::decode(stored.value(), false)) {
    report::find_run_state(*analysis);
    listed.run = analysis->run;
    listed.efficiency = analysis->efficiency;
    listed.analysed = true;
    if (!analysis->bottlenecks.empty() && !analysis->bottlenecks[0].rank &&
        analysis->bottlenecks[0].region.empty())
      listed.bottleneck = analysis->bottlenecks[0].kind;
    if (!analysis->findings.empty() && analysis->findings[0].severity != report::Severity::kInfo) {
      const format::ShortPaths names(*analysis);
      listed.finding = analysis->findings[0];
      listed.finding_text = report::words::sentences(*listed.finding, names);
      listed.finding_headline = report::words::headline(*listed.finding, names);
    }
    return {};
  }
  const Result<ShardData> summary = reader.value().summary();
  if (!summary) return summary.error();
  describe(summary.value(), listed.run);
  return {};
}

Result<void> read_shards(const std::vector<fs::path>& shards, ListedRun& listed) {
  aggregator::Merger merger;
  for (const fs::path& path : shards) {
    const Result<ShardData> data = shard::read_shard_summary(path);
    if (!data) return data.error();
    merger.add(data.value());
  }
  ShardData data = merger.finish();
  aggregator::note_missing_ranks(data);
  describe(data, listed.run);
  return {};
}

ListedRun read_run(const fs::path& run, const std::vector<fs::path>& shards) {
  ListedRun result;
  result.name = run.filename().string();
  const bool merged = shards.empty() || aggregator::is_up_to_date(run);
  Result<void> read = merged ? read_profile(run / aggregator::kProfileName, result) : Result<void>();
  if (!merged || (!read && !shards.empty())) {
    result.state = State::kNotMerged;
    read = read_shards(shards, result);
  }
  if (!read) {
    result.state = State::kDamaged;
    result.error = read.error().message;
  }
  result.job = job_of_run(run);
  if (result.job.empty()) result.job = job_in_name(result.run.id);  // renamed since
  return result;
}

// A collector that has ended may have written its last shard after the one that was read.
ListedRun listed(const fs::path& run, const std::vector<fs::path>& shards) {
  ListedRun result = read_run(run, shards);
  return result.run.state == report::RunState::kLost ? read_run(run, shards) : result;
}

void sort(std::vector<ListedRun>& runs, const ListOptions& options) {
  const auto by = [&](const auto& key) {
    std::stable_sort(runs.begin(), runs.end(), [&](const ListedRun& x, const ListedRun& y) {
      const auto of_x = key(x), of_y = key(y);
      return std::tie(of_x, x.name) < std::tie(of_y, y.name);
    });
  };
  if (options.sort == "name")
    by([](const ListedRun&) { return 0; });
  else if (options.sort == "elapsed")
    by([](const ListedRun& run) { return run.run.elapsed_s; });
  else if (options.sort == "ranks")
    by([](const ListedRun& run) { return run.run.ranks; });
  else if (options.sort == "efficiency")
    by([](const ListedRun& run) { return run.efficiency.parallel.value_or(-1); });
  else
    by([](const ListedRun& run) { return run.run.start_utc_ns; });
  if (options.reverse) std::reverse(runs.begin(), runs.end());
}

std::string command_of(const ListedRun& run) {
  const bool is_incomplete = !run.run.complete && run.run.state != report::RunState::kRunning;
  return (is_incomplete && run.state != State::kDamaged ? "(incomplete) " : "") +
         format::command_line(run.run);
}

// What the finding that matters most says first, or why there is none.
std::string worst_finding(const ListedRun& run) {
  switch (run.state) {
    case State::kDamaged:
      return "damaged: " + format::printable(run.error);
    case State::kNotMerged:
      return "not merged";
    case State::kMerged:
      break;
  }
  if (!run.analysed) return "analysed by another version";
  if (!run.finding) return "-";
  return fmt::format("{}: {}", name_of(run.finding->severity), run.finding_headline);
}

std::string finding_of(const ListedRun& run) {
  if (run.state == State::kDamaged || run.run.state != report::RunState::kRunning) return worst_finding(run);
  const std::string state = report::words::state(run.run);
  return run.finding ? state + "; " + worst_finding(run) : state;
}

text::Style finding_style(const ListedRun& run) {
  if (run.state == State::kDamaged) return text::Style::kBad;
  if (!run.finding) return text::Style::kDim;
  return text::severity_style(run.finding->severity);
}

struct Layout {
  std::size_t width = kAnyWidth;
  bool two_lines = false;
  bool cut = false;
};

std::string start_of(const ListedRun& run, bool brief) {
  if (run.run.start_utc_ns == 0) return "-";
  // "2026-11-21 13:45:02 UTC"
  if (brief) return format::utc(run.run.start_utc_ns).substr(5, 11);
  return format::utc_iso(run.run.start_utc_ns);
}

std::string table_of(const std::vector<ListedRun>& runs, const Layout& layout, bool colour) {
  struct Column {
    std::string title;
    bool number;
    std::vector<std::string> cells{};
    std::size_t width = 0;
  };
  std::vector<Column> columns{{"RUN", false}};
  const bool jobs = !layout.two_lines && std::any_of(runs.begin(), runs.end(),
                                                     [](const ListedRun& run) { return !run.job.empty(); });
  if (jobs) columns.push_back({"JOB", false});
  for (const char* title : {"START", "RANKS", "NODES", "ELAPSED", "EFF"})
    columns.push_back({title, std::string_view(title) != "START"});
  if (!layout.two_lines) columns.push_back({"COMMAND", false});
  for (const ListedRun& run : runs) {
    std::size_t c = 0;
    const auto cell = [&](std::string value) { columns[c++].cells.push_back(std::move(value)); };
    const bool known = run.state != State::kDamaged;
    const std::string name = format::printable(run.name);
    cell(layout.cut ? format::shorten_middle(name, kNameColumns) : name);
    if (jobs) cell(run.job.empty() ? "-" : format::printable(run.job));
    cell(start_of(run, layout.two_lines));
    cell(known ? std::to_string(run.run.ranks) : "-");
    cell(known ? std::to_string(run.run.nodes) : "-");
    cell(known ? format::seconds(run.run.elapsed_s) : "-");
    cell(run.efficiency.parallel ? fmt::format("{:.0f} %", 100 * *run.efficiency.parallel) : "-");
    if (layout.two_lines) continue;
    const std::string command = command_of(run);
    cell(command.empty() ? "-" : layout.cut ? format::shorten(command, kCommandColumns) : command);
  }
  for (Column& column : columns) {
    column.width = column.title.size();
    for (const std::string& value : column.cells)
      column.width = std::max(column.width, format::columns(value));
  }
  text::Page page(layout.width, colour);
  const auto line_of = [&](const auto& value_of) {
    std::string line;
    for (const Column& column : columns) {
      const std::string value = value_of(column);
      line +=
          (column.number ? format::pad_left(value, column.width) : format::pad_right(value, column.width)) +
          "  ";
    }
    return line;
  };
  page.line({{line_of([](const Column& column) { return column.title; }) +
                  (layout.two_lines ? "" : "WORST FINDING"),
              text::Style::kDim}});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string line = line_of([i](const Column& column) { return column.cells[i]; });
    const text::Span finding{finding_of(runs[i]), finding_style(runs[i])};
    if (!layout.two_lines) {
      page.line({{line}, finding});
      continue;
    }
    page.line(line);
    const std::string command = command_of(runs[i]);
    const std::size_t room = layout.width - 4;
    const std::size_t for_command =
        std::max(room / 2, room - std::min(room, format::columns(format::printable(finding.text)) + 2));
    page.line({{"    "},
               {command.empty() ? "" : format::shorten(format::printable(command), for_command) + "  ",
                text::Style::kDim},
               finding});
  }
  return page.take();
}

int print_json(const std::vector<ListedRun>& runs, const std::string& directory) {
  Output output;
  const report::JsonSink sink = [&](std::string_view piece) { output(piece); };
  report::JsonWriter out(sink);
  using report::text_or_null;
  out.object([&] {
    out("schema", "clusterprof.ls/1")("directory", directory);
    out.rows("runs", runs, [&](const ListedRun& listed) {
      const report::RunInfo& run = listed.run;
      const bool known = listed.state != State::kDamaged;
      out("run", listed.name)("id", text_or_null(run.id))("job", text_or_null(listed.job));
      out("state", listed.state == State::kMerged      ? "merged"
                   : listed.state == State::kNotMerged ? "not merged"
                                                       : "damaged");
      out("error", text_or_null(listed.error))("command", run.command);
      out("start_utc", report::utc_or_null(run.start_utc_ns));
      const auto number = [&](std::size_t value) { return known ? std::optional(value) : std::nullopt; };
      out("ranks", number(run.ranks))("nodes", number(run.nodes));
      out("elapsed_s", known ? std::optional(run.elapsed_s) : std::nullopt);
      out("complete", known ? std::optional(run.complete) : std::nullopt);
      out("run_state", known ? std::optional(std::string(name_of(run.state))) : std::nullopt);
      out("as_of_s", run.as_of_s)("snapshot_utc", report::utc_or_null(run.snapshot_utc_ns));
      out.object("efficiency", [&] {
        const report::Efficiency& e = listed.efficiency;
        out("parallel", e.parallel)("load_balance", e.load_balance)("communication", e.communication);
        out("serialization", e.serialization)("transfer", e.transfer);
      });
      out("efficiency_above_one", report::above_one(listed.efficiency));
      out("bottleneck", text_or_null(listed.bottleneck));
      if (!listed.finding) {
        out("finding", nullptr);
        return;
      }
      out.object("finding", [&] {
        const report::Finding& finding = *listed.finding;
        const report::SourceLocation& place = finding.place;
        out("kind", name_of(finding.kind))("severity", name_of(finding.severity))("share", finding.share);
        out("gain_method", name_of(gain_method(finding)));
        out("gain_s", finding.gain_s)("text", listed.finding_text)("file", text_or_null(place.file));
        out("line", place.line == 0 ? std::nullopt : std::optional(place.line));
        out("function", text_or_null(place.function))("rank", finding.rank);
      });
    });
  });
  out.finish();
  return output.finish();
}

}  // namespace

int list_runs(const ListOptions& options) {
  const std::string directory = options.directory.empty() ? run_root().string() : options.directory;
  std::vector<ListedRun> runs;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!may_be_run(*entry)) continue;
    if (!options.job.empty() && !run_is_of_job(entry->path(), options.job)) continue;
    const Result<std::vector<fs::path>> shards = aggregator::list_shards(entry->path());
    if (!shards) continue;  // a directory we may not read is none of our runs
    if (shards.value().empty() && !fs::exists(entry->path() / aggregator::kProfileName, ignored)) continue;
    runs.push_back(listed(entry->path(), shards.value()));
  }
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return complain(kNothingFound, directory + ": nothing found: there is no such directory");
  if (error) return complain(kBadInput, directory + ": cannot be read: " + error.message());
  if (runs.empty())
    return complain(kNothingFound, directory + ": nothing found: no runs in it" +
                                       (options.job.empty() ? std::string() : " of job " + options.job));
  sort(runs, options);
  if (options.json) return print_json(runs, directory);

  // A terminal gets what fits it, a file or a program whole lines.
  Layout layout;
  if (::isatty(STDOUT_FILENO) == 1) {
    const int columns = std::max(columns_of(STDOUT_FILENO), 80);
    layout = {static_cast<std::size_t>(columns), columns < kOneLine, true};
  }
  return print(table_of(runs, layout, wants_colour(STDOUT_FILENO, options.colour)));
}

}  // namespace clusterprof::cli
