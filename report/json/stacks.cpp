// SPDX-License-Identifier: BSD-3-Clause
#include "report/stacks.hpp"

#include "report/json/failure.hpp"

namespace clusterprof::report {

void render_stacks_json(const StacksReport& report, const JsonSink& sink) {
  JsonWriter out(sink);
  const RunInfo& run = report.run.run;
  out.object([&] {
    out("schema", "clusterprof.stacks/1")("state", name_of(run.state))("as_of_s", run.as_of_s);
    write_failure(out, report.run);
    write_verdict(out, report.run);
    write_waiting(out, report.run.hang ? report.run.hang->waiting : std::vector<HangWait>());
    out.rows("classes", report.stacks.classes, [&](const StackClass& row) {
      out("ranks", row.ranks)("threads", row.threads);
      out.rows("frames", report.stacks.frames(row.node), [&](const SourceLocation* frame) {
        out("function", text_or_null(frame->function))("file", text_or_null(frame->file));
        out("line", or_null(frame->line));
      });
      out("op", text_or_null(row.op))("unmoved_s", row.unmoved_s);
    });
  });
  out.finish();
}

}  // namespace clusterprof::report
