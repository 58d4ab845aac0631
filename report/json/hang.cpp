// SPDX-License-Identifier: BSD-3-Clause
#include "report/json/hang.hpp"

#include <string>
#include <vector>

#include "report/words/phrases.hpp"

namespace clusterprof::report {
namespace {

void write_place(JsonWriter& out, const SourceLocation& place) {
  out("op", text_or_null(place.op))("file", text_or_null(place.file))("line", or_null(place.line));
  out("function", text_or_null(place.function));
}

}  // namespace

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

void write_deadlock(JsonWriter& out, const Hang& hang) {
  out.object("failure", [&] {
    out("kind", "deadlock")("rank", hang.rank < 0 ? std::nullopt : std::optional(hang.rank));
    for (const char* const of_ends :
         {"status", "signal", "address", "instruction", "abort_code", "exception", "message"})
      out(of_ends, nullptr);
    out("file", text_or_null(hang.place.file))("line", or_null(hang.place.line));
    out("function", text_or_null(hang.place.function));
    std::vector<std::string> path;
    for (const SourceLocation& frame : hang.call_path) path.push_back(words::frame(frame));
    out("call_path", path)("stderr_tail", nullptr);
    write_waiting(out, hang.waiting);
    out("cycle", hang.cycle);
    out.rows("mismatch", hang.mismatch, [&](const MismatchedRanks& group) {
      out("ranks", group.ranks)("op", group.op)("root", group.root);
    });
  });
}

}  // namespace clusterprof::report
