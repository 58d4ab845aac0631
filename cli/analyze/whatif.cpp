// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/whatif.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "aggregator/shard_files.hpp"
#include "aggregator/whatif/whatif.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "formats/shard/shard_reader.hpp"
#include "report/analysis/base_name.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"
#include "report/text/table.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
using report::base_name;
namespace format = report::format;
namespace text = report::text;
using aggregator::whatif::Change;
using aggregator::whatif::Outcome;
using aggregator::whatif::parse_change;
using aggregator::whatif::Prediction;
using aggregator::whatif::TimeRow;
using aggregator::whatif::WhatIf;

// Candidates are made of what takes at least this share of the ranks' time, and of so many of each kind.
constexpr double kLeastShare = 0.02;
constexpr std::size_t kOfEachKind = 5;
// What nearly everything is below (main(), <module>) is no candidate, nor what mostly calls others: a change takes
// what is called with it.
constexpr double kNearlyAll = 0.9, kLeastOwn = 0.5;
// A rank is a candidate if it works so much longer than the mean.
constexpr double kLongerThanMean = 1.05;

struct Candidate {
  Change change;
  std::string file, function;
  std::uint32_t line = 0;
  std::optional<std::int32_t> rank;
  Prediction prediction;
  double gain_s = 0;
};

Result<void> read_shards(const fs::path& run, WhatIf& whatif) {
  const Result<std::vector<fs::path>> shards = aggregator::list_shards(run);
  if (!shards) return shards.error();
  if (shards.value().empty())
    return Error{run.string() + ": it has no shards (node-*.h5), which a replay needs", ErrorKind::kNotFound};
  for (const fs::path& path : shards.value()) {
    Result<shard::ShardData> shard = shard::read_shard(path);
    if (!shard) return shard.error();
    whatif.add(std::move(shard).value());
  }
  return whatif.prepare();
}

// What may be worth a try, as the report has it: its functions and lines with most time, ranks that work
// longest, barriers, the network and input and output.
class Candidates {
 public:
  explicit Candidates(const report::Analysis& analysis) : a_(analysis) {
    for (const report::Seconds& s : a_.category_s) all_s_ += s.value_or(0);
  }

  std::vector<Candidate> make() {
    functions();
    lines();
    ranks();
    barriers();
    if (takes_time(shard::Category::kMpi)) {
      add("latency x0.5", {});
      add("bandwidth x2", {});
    }
    if (takes_time(shard::Category::kIo)) add("io x0", {});
    return std::move(candidates_);
  }

 private:
  [[nodiscard]] bool takes_time(shard::Category category) const {
    return a_.category_s[static_cast<std::size_t>(category)].value_or(0) > kLeastShare * all_s_;
  }

  template <typename Row>
  [[nodiscard]] bool is_a_part(const Row& row) const {
    return row.active_self_s >= kLeastShare * all_s_ && row.active_total_s < kNearlyAll * all_s_ &&
           row.active_self_s >= kLeastOwn * row.active_total_s;
  }

  // Of names that are no change when they are written down, nothing is tried.
  void add(const std::string& text, Candidate candidate) {
    if (!tried_.insert(text).second) return;
    Result<Change> change = parse_change(text);
    if (!change) return;
    candidate.change = std::move(change).value();
    candidates_.push_back(std::move(candidate));
  }

  void functions() {
    std::size_t taken = 0;
    // A change names a function without its file, and a line without the file's directory.
    std::map<std::string_view, std::size_t> named;
    for (const report::FunctionRow& row : a_.functions) ++named[row.name];
    for (const report::FunctionRow& row : a_.functions) {
      const bool is_code = row.kind == shard::FrameKind::kPython || row.kind == shard::FrameKind::kNative;
      if (!is_code || row.file.empty() || !is_a_part(row) || named[row.name] > 1) continue;
      if (++taken > kOfEachKind) return;
      Candidate candidate;
      candidate.file = row.file, candidate.function = row.name, candidate.line = row.line;
      add(fmt::format("function {} x0.5", row.name), candidate);
      if (a_.ranks.size() > 1) add(fmt::format("balance function {}", row.name), candidate);
    }
  }

  void lines() {
    std::size_t taken = 0;
    std::map<std::string_view, std::set<std::string_view>> files;
    for (const report::LineRow& row : a_.lines) files[base_name(row.file)].insert(row.file);
    for (const report::LineRow& row : a_.lines) {
      if (row.line == 0 || row.file.empty() || !is_a_part(row) || files[base_name(row.file)].size() > 1) continue;
      if (++taken > kOfEachKind) return;
      Candidate candidate;
      candidate.file = row.file, candidate.function = row.function, candidate.line = row.line;
      add(fmt::format("line {}:{} x0.5", base_name(row.file), row.line), std::move(candidate));
    }
  }

  void ranks() {
    std::vector<const report::RankInfo*> longest;
    for (const report::RankInfo& rank : a_.ranks)
      if (rank.useful_s && a_.mean_useful_s && *rank.useful_s > kLongerThanMean * *a_.mean_useful_s)
        longest.push_back(&rank);
    std::sort(longest.begin(), longest.end(), [](const auto* a, const auto* b) {
      return *a->useful_s != *b->useful_s ? *a->useful_s > *b->useful_s : a->rank < b->rank;
    });
    if (longest.size() > kOfEachKind) longest.resize(kOfEachKind);
    for (const report::RankInfo* rank : longest) {
      Candidate candidate;
      candidate.rank = rank->rank;
      add(fmt::format("rank {} = mean", rank->rank), std::move(candidate));
    }
  }

  void barriers() {
    std::size_t taken = 0;
    for (const report::MpiCallRow& call : a_.mpi_calls) {
      if (call.op != "MPI_Barrier" || call.line == 0 || call.time_s < kLeastShare * all_s_) continue;
      if (++taken > kOfEachKind) return;
      Candidate candidate;
      candidate.file = call.file, candidate.function = call.function, candidate.line = call.line;
      add(fmt::format("call MPI_Barrier {}:{} removed", base_name(call.file), call.line),
          std::move(candidate));
    }
  }

  const report::Analysis& a_;
  double all_s_ = 0;
  std::set<std::string> tried_;
  std::vector<Candidate> candidates_;
};

// Largest gain first; those that gain nothing are left out.
std::vector<Candidate> rank(std::vector<Candidate> candidates, const WhatIf& whatif) {
  std::vector<Candidate> ranked;
  for (Candidate& candidate : candidates) {
    Result<Prediction> prediction = whatif.predict({candidate.change});
    if (!prediction) continue;
    candidate.prediction = std::move(prediction).value();
    candidate.gain_s = whatif.replayed().elapsed_s - candidate.prediction.outcome.elapsed_s;
    if (candidate.gain_s > 0) ranked.push_back(std::move(candidate));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Candidate& a, const Candidate& b) { return a.gain_s > b.gain_s; });
  return ranked;
}

// --- JSON -------------------------------------------------------------------------------------------------

void write_rows(report::JsonWriter& out, std::string_view name, const std::vector<TimeRow>& rows) {
  out.rows(name, rows, [&](const TimeRow& row) {
    out("rank", row.rank < 0 ? std::nullopt : std::optional(row.rank));
    out("name", report::text_or_null(row.name))("caller", report::text_or_null(row.caller));
    out("file", report::text_or_null(row.file))("line", report::or_null(row.line))("time_s", row.time_s);
  });
}

void write_outcome(report::JsonWriter& out, std::string_view name, const Outcome& outcome) {
  out.object(name, [&] {
    out("elapsed_s", outcome.elapsed_s)("useful_mean_s", outcome.useful_mean_s);
    out("useful_max_s", outcome.useful_max_s)("wait_s", outcome.wait_s)("parallel", outcome.parallel);
    out("load_balance", outcome.load_balance)("communication", outcome.communication);
    write_rows(out, "waits", outcome.waits);
    write_rows(out, "critical_path", outcome.critical);
  });
}

int print_json(const WhatIf& whatif, const std::vector<Change>& changes,
               const std::optional<Prediction>& prediction, const std::vector<Candidate>& candidates) {
  Output output;
  const report::JsonSink sink = [&](std::string_view piece) { output(piece); };
  report::JsonWriter out(sink);
  out.object([&] {
    out("schema", "clusterprof.whatif/1")("method", whatif.is_from_sums() ? "sums" : "replay");
    out("elapsed_s", whatif.elapsed_s())("replayed_s", whatif.replayed().elapsed_s);
    out("predicted_s", prediction ? std::optional(prediction->outcome.elapsed_s) : std::nullopt);
    out("error_s", prediction ? std::optional(prediction->error_s) : std::nullopt);
    std::vector<std::string> asked;
    for (const Change& change : changes) asked.push_back(change.text);
    out("changes", asked);
    write_outcome(out, "replayed", whatif.replayed());
    if (prediction)
      write_outcome(out, "predicted", prediction->outcome);
    else
      out("predicted", nullptr);
    out.rows("candidates", candidates, [&](const Candidate& candidate) {
      out("change", candidate.change.text)("predicted_s", candidate.prediction.outcome.elapsed_s);
      out("gain_s", candidate.gain_s)("error_s", candidate.prediction.error_s);
      out("file", report::text_or_null(candidate.file))("line", report::or_null(candidate.line));
      out("function", report::text_or_null(candidate.function))("rank", candidate.rank);
    });
  });
  out.finish();
  return output.finish();
}

// --- text -------------------------------------------------------------------------------------------------

std::string change_of(double before_s, double after_s) {
  return before_s > 0 ? fmt::format("{:+.1f} %", 100 * (after_s - before_s) / before_s) : std::string("-");
}

class WhatIfText {
 public:
  WhatIfText(const WhatIf& whatif, const WhatIfOptions& options)
      : whatif_(whatif),
        rows_(options.top),
        page_(static_cast<std::size_t>(std::max(columns_of(STDOUT_FILENO), 80)),
              wants_colour(STDOUT_FILENO, options.colour)) {}

  std::string predicted(const std::vector<Change>& changes, const Prediction& prediction) {
    head();
    for (const Change& change : changes) page_.paragraph({"  "}, change.text);
    page_.blank();
    const double before = whatif_.elapsed_s(), after = prediction.outcome.elapsed_s;
    page_.line({{fmt::format("  {} -> {} ({}, +/- {})", format::seconds(before), format::seconds(after),
                             change_of(before, after), format::seconds(prediction.error_s)),
                 text::Style::kTitle}});
    const Outcome &was = whatif_.replayed(), &is = prediction.outcome;
    page_.section("Efficiency", "with the time in MPI_Init and MPI_Finalize");
    text::Table table({{"", text::Table::Align::kLeft}, {"recorded"}, {"predicted"}});
    const auto shares = [&](const char* name, double a, double b) {
      table.row({name, format::percent(a), format::percent(b)});
    };
    shares("parallel", was.parallel, is.parallel);
    shares("load balance", was.load_balance, is.load_balance);
    shares("communication", was.communication, is.communication);
    if (!whatif_.is_from_sums())
      table.row({"waiting, all ranks", format::seconds(was.wait_s), format::seconds(is.wait_s)});
    table.print(page_);
    rows("Waiting", "predicted, all ranks", is.waits);
    rows("Critical path", "predicted", is.critical);
    return page_.take();
  }

  std::string ranked(const std::vector<Candidate>& candidates) {
    head();
    page_.section("What it would gain", "predicted, +/-: 95 %");
    if (candidates.empty()) page_.line("  No change that was tried gains anything.");
    text::Table table(
        {{"elapsed"}, {"change"}, {"+/-"}, {"change of the program", text::Table::Align::kLeft}});
    for (std::size_t i = 0; i < std::min(rows_, candidates.size()); ++i) {
      const Candidate& candidate = candidates[i];
      const double after = candidate.prediction.outcome.elapsed_s;
      table.row({format::seconds(after), change_of(whatif_.elapsed_s(), after),
                 format::seconds(candidate.prediction.error_s),
                 candidate.change.text +
                     (candidate.file.empty() || candidate.change.line != 0
                          ? std::string()
                          : fmt::format(" ({}:{})", base_name(candidate.file), candidate.line))},
                candidate.gain_s > candidate.prediction.error_s ? text::Style::kPlain : text::Style::kDim);
    }
    if (!candidates.empty()) table.print(page_);
    return page_.take();
  }

 private:
  void head() {
    page_.section("clusterprof whatif", whatif_.is_from_sums() ? "from sums of times: no MPI" : "");
    page_.paragraph({"  "}, fmt::format("recorded {}, replayed {}", format::seconds(whatif_.elapsed_s()),
                                        format::seconds(whatif_.replayed().elapsed_s)));
  }

  void rows(std::string_view title, std::string_view remark, const std::vector<TimeRow>& rows) {
    if (rows.empty()) return;
    page_.section(title, remark);
    text::Table table({{"time"}, {"rank"}, {"where", text::Table::Align::kLeft}});
    for (std::size_t i = 0; i < std::min(rows_, rows.size()); ++i) {
      const TimeRow& row = rows[i];
      std::string where =
          row.name.empty() ? "code that is not known" : format::function_label(row.name, row.kind);
      if (!row.caller.empty()) where += " <- " + row.caller;
      if (!row.file.empty()) where += fmt::format(" {}:{}", base_name(row.file), row.line);
      table.row({format::seconds(row.time_s), row.rank < 0 ? "all" : std::to_string(row.rank), where});
    }
    table.print(page_);
  }

  const WhatIf& whatif_;
  std::size_t rows_;
  text::Page page_;
};

}  // namespace

int whatif(const WhatIfOptions& options) {
  std::vector<Change> changes;
  for (const std::string& asked : options.changes) {
    Result<Change> change = parse_change(asked);
    if (!change) return complain(kBadUsage, "whatif: --change: " + change.error().message);
    changes.push_back(std::move(change).value());
  }
  const Result<fs::path> directory = run_directory(options.run);
  if (!directory) return complain(directory.error());
  WhatIf whatif;
  if (const Result<void> read = read_shards(directory.value(), whatif); !read) return complain(read.error());

  std::optional<Prediction> prediction;
  std::vector<Candidate> candidates;
  if (!changes.empty()) {
    Result<Prediction> predicted = whatif.predict(changes);
    if (!predicted) return complain(predicted.error());
    prediction = std::move(predicted).value();
  } else {
    const Result<report::Analysis> analysis = stored_analysis(directory.value(), false);
    if (!analysis) return complain(analysis.error());
    candidates = rank(Candidates(analysis.value()).make(), whatif);
  }
  if (options.json) return print_json(whatif, changes, prediction, candidates);
  WhatIfText page(whatif, options);
  return print(prediction ? page.predicted(changes, *prediction) : page.ranked(candidates));
}

}  // namespace clusterprof::cli
