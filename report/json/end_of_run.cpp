// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof report --last --json`: schema clusterprof.report_end/1. Its keys are those of the report; what
// is not known of the end of a run alone is absent.
#include "report/words/end_of_run.hpp"

#include "report/format/names.hpp"
#include "report/json/failure.hpp"
#include "report/json/report_document.hpp"

namespace clusterprof::report {

void ReportDocument::write_end(const EndOfRun& last) {
  out_.object([&] {
    out_("schema", "clusterprof.report_end/1");
    const RunInfo& run = a_.run;
    out_.object("run", [&] {
      out_("id", run.id)("command", run.command)("start_utc", utc_or_null(run.start_utc_ns));
      out_("begin_s", last.begin_s)("end_s", last.end_s)("elapsed_s", run.elapsed_s);
      out_("functions_begin_s", last.functions_begin_s);
      out_("nodes", run.nodes)("ranks", run.ranks)("rate_hz", run.rate_hz)("clock", run.clock);
      out_("complete", run.complete)("state", name_of(run.state))("as_of_s", run.as_of_s);
      out_("snapshot_utc", utc_or_null(run.snapshot_utc_ns))("version", run.version);
      out_("left_out", words::what_is_left_out(last));
    });
    out_.rows("ranks", a_.ranks, [&](const RankInfo& rank) {
      out_("rank", rank.rank);
      out_("node", rank.node < a_.nodes.size() ? MaybeText(a_.nodes[rank.node].name) : MaybeText());
      out_("pid", rank.pid)("elapsed_s", rank.elapsed_s);
      for (std::size_t c = 0; c < shard::kCategories; ++c) out_(category_keys_[c], rank.category_s[c]);
      out_("useful_s", rank.useful_s);
      out_.object("exit",
                  [&] { out_("status", rank.exit_status)("signal", rank.exit_signal)("lost", rank.lost); });
    });
    out_.rows("functions", a_.functions, [&](const FunctionRow& row) {
      out_("name", row.name)("file", text_or_null(row.file))("line", or_null(row.line));
      out_("kind", format::frame_kind_name(row.kind))("module", text_or_null(row.module));
      out_("self_s", row.self_s)("total_s", row.total_s);
    });
    out_.object("all_threads",
                [&] { out_("time_s", a_.sampled_s)("without_function_s", a_.without_function_s); });
    windows();
    timeline();
    write_failure(out_, a_);
    findings();
  });
  out_.finish();
}

}  // namespace clusterprof::report
