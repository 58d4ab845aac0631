// SPDX-License-Identifier: BSD-3-Clause
// Explains a merged profile to people (text, banner) and to programs (JSON).
//
// analyse() computes every number once; the renderers only lay them out. Nothing here does I/O,
// throws on odd input or keeps a reference to its arguments. Output depends on nothing but the
// arguments (no locale, no time, no terminal). Reentrant. docs/metrics.md defines every number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"

namespace clusterprof::report {

struct TextOptions {
  int width = 80;                     // columns; below 40 counts as 40
  bool colour = false;                // ANSI colours
  std::vector<std::string> sections;  // of section_names(), in their own order; empty: all, some shortened
  std::size_t rows = 15;              // of the long tables
  bool unicode = false;               // block characters where they say more
};

// The names render_text() knows, in the order in which it prints them.
const std::vector<std::string>& section_names();

// Computes the numbers of a run whose matrix rows do not fit into memory: takes them a rank at a time. The
// result depends neither on the order of ranks nor on how they were divided among builders that then absorb
// each other, to the last bit: what is added up over ranks is added up as integers. Memory: that of the head,
// of call paths and of the analysis, not of the rows.
class AnalysisBuilder {
 public:
  // `head` must outlive the builder; rows that it may have in its matrix tables are not looked at.
  explicit AnalysisBuilder(const shard::ShardData& head, FrameMode frames = FrameMode::kFolded);
  ~AnalysisBuilder();
  AnalysisBuilder(AnalysisBuilder&&) noexcept;
  AnalysisBuilder& operator=(AnalysisBuilder&&) noexcept;

  // Each rank at most once; one without rows need not be added.
  void add(const shard::RankRows& rows);

  // What was added so far, as plain bytes for absorb() of a builder over an equal head in another process of
  // the same program.
  [[nodiscard]] std::vector<std::byte> state() const;
  // Error: these are no such bytes; the builder is then of no use any more.
  [[nodiscard]] Result<void> absorb(std::span<const std::byte> state);

  // Once.
  [[nodiscard]] Analysis finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// An analysis as plain bytes, for reports that need not compute it again. They mean something to the same
// version of the program alone: decode() gives nothing for those of another one, and for damaged ones.
// rank_timelines: false leaves out Timeline::ranks, which is more than all the rest and of use only to
// section "timeline" and JSON.
std::vector<std::byte> encode(const Analysis& analysis);
std::optional<Analysis> decode(std::span<const std::byte> bytes, bool rank_timelines = true);

// Indices that point outside their tables are ignored; see shard validation for diagnostics.
// The same of rows that are elsewhere.
Analysis analyse(const shard::ShardData& head, const shard::RowSource& rows,
                 FrameMode frames = FrameMode::kFolded);

// The same of a region alone, by its full name ("epoch/step"): every time is what was spent in it, and what
// is not known of regions is left out. Empty: there is no such region.
std::optional<Analysis> analyse_region(const shard::ShardData& head, const shard::RowSource& rows,
                                       std::string_view name, FrameMode frames = FrameMode::kFolded);

// Ends with a newline. Valid UTF-8 without control characters other than newline and, with
// `colour`, our own escape sequences, whatever the names in the profile are.
std::string render_text(const Analysis& analysis, const TextOptions& options);

// At most 25 lines of at most max(width, 40) columns, for the end of a run. `run_dir` as the
// user would type it. `html`: the page that was made, or how to make it; empty: says nothing of it.
std::string render_banner(const Analysis& analysis, std::string_view run_dir, int width,
                          std::string_view html = {});

// One line of at most 255 characters of printable ASCII, and a newline: for the comment of a batch job, or
// the subject of a mail.
std::string render_oneline(const Analysis& analysis);

// One JSON document (schema clusterprof.report/1, see report/json/report.schema.json), with a
// final newline.
std::string render_json(const Analysis& analysis);
// The same in pieces, as it is made.
using JsonSink = std::function<void(std::string_view)>;
void render_json(const Analysis& analysis, const JsonSink& sink);

}  // namespace clusterprof::report
