// SPDX-License-Identifier: BSD-3-Clause
// Findings, bottlenecks and the quality of the measurement as JSON.
#include <cmath>
#include <cstdint>
#include <optional>
#include <variant>

#include "report/json/gains.hpp"
#include "report/json/report_document.hpp"
#include "report/words/bottlenecks.hpp"
#include "report/words/findings.hpp"

namespace clusterprof::report {
namespace {

template <typename T>
void evidence_value(JsonWriter& out, const char* name, const T& value) {
  out(name, value);
}
void evidence_value(JsonWriter& out, const char* name, double value) {
  constexpr double kExact = 0x1p53;
  if (value == std::floor(value) && std::abs(value) < kExact)
    out(name, static_cast<std::int64_t>(value));
  else
    out(name, value);
}

}  // namespace

void ReportDocument::quality() {
  const Quality& q = a_.quality;
  out_.object("quality", [&] {
    out_("samples", a_.run.samples)("rate_reached_hz", q.rate_reached_hz);
    out_("handler_median_s", q.handler_median_s)("handler_p99_s", q.handler_p99_s);
    out_("recording_s", q.recording_s)("recording_share", q.recording_share);
    dropped();
    out_("truncated", q.truncated)("merges_tried", q.merges_tried)("merges_failed", q.merges_failed);
    out_("merge_success_percent", q.merge_success ? Seconds(100 * *q.merge_success) : Seconds());
    out_("unsampled_threads", q.unsampled_threads)("unsampled_cpu_s", q.unsampled_cpu_s);
  });
}

void ReportDocument::bottleneck() {
  out_.rows("bottleneck", a_.bottlenecks, [&](const Bottleneck& row) {
    out_("scope", !row.region.empty() ? "region" : row.rank ? "rank" : "run")("rank", row.rank);
    out_("region", text_or_null(row.region))("class", row.kind)("share", row.share);
    out_("evidence", words::evidence(row, a_, names_));
    out_.object("numbers", [&] { numbers(row.evidence); });
  });
}

void ReportDocument::numbers(const Evidence& evidence) {
  for (const auto& [key, value] : evidence.entries)
    std::visit([&, name = name_of(key)](const auto& known) { evidence_value(out_, name, known); }, value);
}

void ReportDocument::evidence(const Finding& row) {
  out_.object("evidence", [&] {
    numbers(row.evidence);
    if (row.site)
      out_.object("site", [&] {
        out_("op", text_or_null(row.site->op))("file", text_or_null(row.site->file));
        out_("line", or_null(row.site->line))("function", text_or_null(row.site->function));
      });
    if (!row.held.empty())
      out_.rows("held", row.held, [&](const HeldShare& held) {
        out_("rank", held.rank)("bytes", static_cast<std::uint64_t>(held.bytes));
        out_("file", text_or_null(held.place.file))("line", or_null(held.place.line));
        out_("function", text_or_null(held.place.function));
        out_("library_function", text_or_null(held.place.called));
      });
  });
}

void ReportDocument::findings() {
  out_.rows("findings", a_.findings, [&](const Finding& row) {
    const SourceLocation& place = row.place;
    out_("kind", name_of(row.kind))("severity", name_of(row.severity))("share", row.share);
    out_("gain_s", row.gain_s)("gain_error_s", row.gain_error_s);
    out_("gain_method", name_of(gain_method(row)));
    out_("change", text_or_null(row.change))("estimate", row.is_estimate)("text",
                                                                          words::sentences(row, names_));
    out_("action", row.action == FindingAction::kNone ? MaybeText() : MaybeText(name_of(row.action)));
    evidence(row);
    out_("file", text_or_null(place.file))("line", or_null(place.line));
    out_("function", text_or_null(place.function))("op", text_or_null(place.op));
    out_("library_function", text_or_null(place.called));
    out_("rank", row.rank)("ranks", row.ranks);
    out_.rows("joined", row.joined, [&](const JoinedFinding& other) {
      out_("kind", name_of(other.kind))("share", other.share)("rank", other.rank);
      out_("action", other.action == FindingAction::kNone ? MaybeText() : MaybeText(name_of(other.action)));
      out_("file", text_or_null(other.place.file))("line", or_null(other.place.line));
      out_("function", text_or_null(other.place.function));
      out_("library_function", text_or_null(other.place.called));
      out_.object("evidence", [&] { numbers(other.evidence); });
    });
  });
}

void ReportDocument::gains() {
  if (!a_.gains) {
    out_("whatif", nullptr);
    return;
  }
  const profile::Gains& gains = *a_.gains;
  const bool any = gains.refused.empty() && gains.tried != 0;
  const auto known = [&](double s) { return any ? Seconds(s) : Seconds(); };
  out_.object("whatif", [&] {
    const GainMethod method = gains.from_sums ? GainMethod::kSums : GainMethod::kReplay;
    out_("method", any ? MaybeText(name_of(method)) : MaybeText());
    out_("refused", text_or_null(gains.refused));
    out_("elapsed_s", known(gains.elapsed_s))("replayed_s", known(gains.replayed_s));
    write_stretches(out_, gains.stretches, gains.stretches_s);
    out_("to_try", gains.candidates)("tried", gains.tried);
    write_gains(out_, gains);
  });
}

void write_stretches(JsonWriter& out, std::size_t count, double time_s) {
  if (count == 0)
    out("stretches", nullptr);
  else
    out.object("stretches", [&] { out("count", count)("time_s", time_s); });
}

void write_gains(JsonWriter& out, const profile::Gains& gains) {
  out.rows("candidates", gaining(gains), [&](const profile::PredictedGain& row) {
    out("change", row.change)("predicted_s", row.predicted_s);
    out("gain_s", row.gain_s)("error_s", row.error_s);
    out("file", text_or_null(row.file))("line", or_null(row.line))("function", text_or_null(row.function));
    out("rank", row.rank < 0 ? std::nullopt : std::optional(row.rank));
  });
  out.rows("refused_changes", gains.refused_changes,
           [&](const profile::RefusedChange& row) { out("change", row.change)("reason", row.reason); });
}

}  // namespace clusterprof::report
