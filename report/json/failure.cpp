// SPDX-License-Identifier: BSD-3-Clause
#include "report/json/failure.hpp"

#include <optional>
#include <string>
#include <vector>

#include "report/analysis/choose_failure.hpp"
#include "report/format/names.hpp"
#include "report/words/hang.hpp"
#include "report/words/phrases.hpp"

namespace clusterprof::report {
namespace {

void write_place(JsonWriter& out, const SourceLocation& place) {
  out("op", text_or_null(place.op))("file", text_or_null(place.file))("line", or_null(place.line));
  out("function", text_or_null(place.function));
}

}  // namespace

void write_verdict(JsonWriter& out, const Analysis& run) {
  out("verdict", text_or_null(words::what_is_wrong(run, format::ShortPaths(run))));
}

void write_waiting(JsonWriter& out, const std::vector<HangWait>& waiting) {
  out.rows("waiting", waiting, [&](const HangWait& wait) {
    out("ranks", wait.ranks);
    write_place(out, wait.place);
    out("communicator", text_or_null(wait.communicator))("sequence", wait.sequence);
    out("missing_ranks", wait.missing_ranks)("for_s", wait.for_s);
    out.rows("missing", wait.missing, [&](const MissingRanks& missing) {
      out("ranks", missing.ranks)("state", name_of(missing.state));
      write_place(out, missing.place);
      out("for_s", missing.for_s)("status", missing.exit_status)("signal", missing.exit_signal);
    });
  });
}

void write_failure(JsonWriter& out, const Analysis& analysis) {
  if (!analysis.failure) {
    out("failure", nullptr);
    return;
  }
  const Failure& failure = *analysis.failure;
  const bool is_hang = failure.kind == FailureKind::kDeadlock || failure.kind == FailureKind::kHang;
  const Hang hang = is_hang && analysis.hang ? *analysis.hang : Hang();
  out.object("failure", [&] {
    out("kind", name_of(failure.kind))("rank", failure.rank < 0 ? std::nullopt : std::optional(failure.rank));
    out("status", failure.status)("signal", failure.signal);
    out("address", failure.address ? std::optional(address_text(*failure.address)) : std::nullopt);
    out("instruction", text_or_null(failure.instruction))("stack_overflow", failure.stack_overflow)(
        "ended_by_mpi", failure.ended_by_mpi);
    out("abort_code", failure.abort_code)("exception", text_or_null(failure.exception));
    out("message", text_or_null(failure.message));
    out("file", text_or_null(failure.place.file))("line", or_null(failure.place.line));
    out("function", text_or_null(failure.place.function));
    std::vector<std::string> path;
    for (const SourceLocation& frame : failure.call_path) path.push_back(words::frame(frame));
    out("call_path", path)("stderr_tail", failure.stderr_tail);
    write_waiting(out, hang.waiting);
    out("cycle", hang.cycle);
    out.rows("mismatch", is_hang ? hang.mismatch : failure.mismatch, [&](const MismatchedRanks& group) {
      out("ranks", group.ranks)("op", group.op)("root", group.root)("bytes", group.bytes);
    });
  });
}

}  // namespace clusterprof::report
