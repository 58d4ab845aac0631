// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/whatif.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "aggregator/whatif/whatif.hpp"
#include "base/base_name.hpp"
#include "base/workers.hpp"
#include "cli/analyze/gains.hpp"
#include "cli/analyze/output.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"
#include "report/json/gains.hpp"
#include "report/json/json_writer.hpp"
#include "report/report.hpp"
#include "report/text/gains.hpp"
#include "report/text/table.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;
namespace format = report::format;
namespace text = report::text;
using aggregator::whatif::Change;
using aggregator::whatif::Outcome;
using aggregator::whatif::parse_change;
using aggregator::whatif::Prediction;
using aggregator::whatif::TimeRow;
using aggregator::whatif::WhatIf;

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
               const std::optional<Prediction>& prediction, const profile::Gains& gains) {
  Output output;
  const report::JsonSink sink = [&](std::string_view piece) { output(piece); };
  report::JsonWriter out(sink);
  out.object([&] {
    out("schema", "clusterprof.whatif/1")(
        "method", name_of(whatif.is_from_sums() ? report::GainMethod::kSums : report::GainMethod::kReplay));
    out("elapsed_s", whatif.elapsed_s())("replayed_s", whatif.replayed().elapsed_s);
    out("predicted_s", prediction ? std::optional(prediction->outcome.elapsed_s) : std::nullopt);
    out("error_s", prediction ? std::optional(prediction->error_s) : std::nullopt);
    const auto stretches = whatif.stretches();
    report::write_stretches(out, stretches ? stretches->count : 0, stretches ? stretches->time_s : 0);
    std::vector<std::string> asked;
    for (const Change& change : changes) asked.push_back(change.text);
    out("changes", asked);
    write_outcome(out, "replayed", whatif.replayed());
    if (prediction)
      write_outcome(out, "predicted", prediction->outcome);
    else
      out("predicted", nullptr);
    report::write_gains(out, gains);
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
    if (const auto stretches = whatif_.stretches())
      page_.paragraph({"  "}, text::stretches_told(stretches->count, stretches->time_s, whatif_.elapsed_s()));
    for (const Change& change : changes) page_.paragraph({"  "}, change.text);
    page_.blank();
    const double before = whatif_.elapsed_s(), after = prediction.outcome.elapsed_s;
    page_.line({{fmt::format("  {} -> {} ({}, +/- {})", format::seconds(before), format::seconds(after),
                             change_of(before, after), format::seconds(prediction.error_s)),
                 text::Style::kTitle}});
    const Outcome &was = whatif_.replayed(), &is = prediction.outcome;
    page_.section("Efficiency", "with the time in MPI_Init and MPI_Finalize, without pauses");
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

  std::string ranked(const profile::Gains& gains) {
    head();
    text::print_ranking(page_, gains, rows_);
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
  WhatIf whatif(useful_threads());
  const std::uint64_t most = options.max_events == 0 ? most_events() : options.max_events;
  if (const Result<void> read = read_shards_of(directory.value(), most, whatif); !read)
    return complain(read.error());

  std::optional<Prediction> prediction;
  profile::Gains gains;
  if (!changes.empty()) {
    Result<Prediction> predicted = whatif.predict(changes);
    if (!predicted) return complain(predicted.error());
    prediction = std::move(predicted).value();
  } else {
    Result<AnalysedRun> run = analysed_run(directory.value(), false);
    if (!run) return complain(run.error());
    const Result<const shard::ShardData*> head = run.value().profile.head();
    if (!head) return complain(head.error());
    gains =
        gains_of(whatif, report::gain_candidates(run.value().analysis, report::FunctionNames(*head.value())));
  }
  if (options.json) return print_json(whatif, changes, prediction, gains);
  WhatIfText page(whatif, options);
  return print(prediction ? page.predicted(changes, *prediction) : page.ranked(gains));
}

}  // namespace clusterprof::cli
