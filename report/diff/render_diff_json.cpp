// SPDX-License-Identifier: BSD-3-Clause
#include "report/diff/diff.hpp"
#include "report/format/names.hpp"
#include "report/json/json_writer.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

class DiffDocument {
 public:
  DiffDocument(const Diff& diff, const JsonSink& sink) : d_(diff), out_(sink) {}

  void write(const std::vector<Judgement>& judgements) {
    out_.object([&] {
      out_("schema", "clusterprof.diff/1");
      runs("a", d_.a);
      runs("b", d_.b);
      out_("confidence", kConfidence)("ranks_differ", d_.ranks_differ);
      out_("commands_differ", d_.commands_differ);
      for (std::size_t t = 0; t < kDiffTables; ++t) table(static_cast<DiffTable>(t));
      out_.object("findings", [&] {
        findings("came", d_.appeared);
        findings("went", d_.disappeared);
        findings("stayed", d_.persisting);
      });
      out_.rows("conditions", judgements, [&](const Judgement& judgement) { condition(judgement); });
    });
    out_.finish();
  }

 private:
  void runs(std::string_view name, const std::vector<RunFacts>& runs) {
    out_.rows(name, runs, [&](const RunFacts& run) {
      out_("run", run.name)("id", run.id)("command", run.command);
      out_("start_utc", utc_or_null(run.start_utc_ns))("nodes", run.nodes)("ranks", run.ranks);
      out_("complete", run.complete)("version", run.version);
    });
  }

  void sample(std::string_view name, const std::optional<Sample>& sample) {
    if (!sample) {
      out_(name, nullptr);
      return;
    }
    out_.object(name, [&] {
      out_("runs", sample->runs)("mean", sample->mean)("half_width", sample->half_width);
      out_("min", sample->min)("max", sample->max);
    });
  }

  void comparison(const Comparison& c) {
    sample("a", c.a);
    sample("b", c.b);
    out_("difference", c.difference)("half_width", c.half_width);
    out_("noise", !c.half_width ? MaybeText()
                                : MaybeText(c.by_sampling  ? "sampling"
                                            : c.by_history ? "history"
                                                           : "runs"));
    out_("relative", c.relative)("significant", c.significant);
  }

  void value(std::string_view name, const ComparedValue& value) {
    out_.object(name, [&] {
      out_("unit", name_of(value.unit));
      comparison(value.all);
      if (value.per_rank) out_.object("per_rank", [&] { comparison(*value.per_rank); });
    });
  }

  void table(DiffTable table) {
    out_.rows(kDiffTableNames[static_cast<std::size_t>(table)], d_.of(table), [&](const ComparedRow& row) {
      const Subject& s = row.subject;
      switch (table) {
        case DiffTable::kFunctions:
          out_("name", s.name)("file", text_or_null(s.file))("line", or_null(s.line));
          out_("kind", format::frame_kind_name(s.kind))("module", text_or_null(s.module));
          break;
        case DiffTable::kLines:
          out_("file", s.file)("line", s.line)("line_in_a", or_null(row.line_in_a));
          out_("function", s.function);
          break;
        case DiffTable::kMemory:
          out_("domain", s.name)("file", text_or_null(s.file))("line", or_null(s.line));
          out_("line_in_a", or_null(row.line_in_a))("function", text_or_null(s.function));
          break;
        case DiffTable::kMemoryLabels:
          out_("space", s.space)("label", text_or_null(s.name));
          break;
        case DiffTable::kMpiCalls:
          out_("op", s.name)("file", text_or_null(s.file))("line", or_null(s.line));
          out_("line_in_a", or_null(row.line_in_a))("function", text_or_null(s.function));
          break;
        default:
          out_("name", s.name);
      }
      for (const ComparedValue& compared : row.values) value(compared.key, compared);
    });
  }

  void findings(std::string_view name, const std::vector<FindingChange>& changes) {
    out_.rows(name, changes, [&](const FindingChange& change) {
      const Finding& finding = change.finding;
      out_("kind", name_of(finding.kind))("severity", name_of(finding.severity));
      out_("text", words::sentences(finding, *change.names))("file", text_or_null(finding.place.file));
      out_("line", or_null(finding.place.line))("function", text_or_null(finding.place.function));
      out_("rank", finding.rank);
      out_("a_runs", change.a_runs)("b_runs", change.b_runs);
      out_("a_share", change.a_share)("b_share", change.b_share);
      out_("a_gain_s", change.a_gain_s)("b_gain_s", change.b_gain_s);
      out_("gain_method", change.gains_differ ? MaybeText("differ") : name_of(change.gain_method));
    });
  }

  void condition(const Judgement& judgement) {
    out_("condition", judgement.condition.text)("holds", judgement.holds);
    out_("within_noise", judgement.within_noise)("undecided", judgement.undecided.has_value());
    out_("undecided_because", judgement.undecided ? MaybeText(name_of(*judgement.undecided)) : MaybeText());
    out_("b_runs", judgement.b_runs)("b_runs_alike", judgement.b_runs_alike);
    out_("subject", text_or_null(judgement.subject));
    out_("unit", name_of(judgement.unit))("per_rank", judgement.per_rank);
    comparison(judgement.comparison);
  }

  const Diff& d_;
  JsonWriter out_;
};

}  // namespace

void render_diff_json(const Diff& diff, const std::vector<Judgement>& judgements, const JsonSink& sink) {
  DiffDocument(diff, sink).write(judgements);
}

}  // namespace clusterprof::report
