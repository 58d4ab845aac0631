// SPDX-License-Identifier: BSD-3-Clause
// `clusterprof query RUN functions`: functions by self time, all ranks.
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

#include "cli/analyze/query_parts.hpp"
#include "cli/analyze/run_lookup.hpp"
#include "cli/analyze/stored_analysis.hpp"
#include "report/format/names.hpp"
#include "report/report.hpp"

namespace clusterprof::cli {

int query_functions(const QueryOptions& options) {
  const Result<std::filesystem::path> directory = run_directory(options.run);
  if (!directory) return complain(directory.error());
  Result<report::Analysis> read = stored_analysis(directory.value(), false);
  if (!read) return complain(read.error());
  const report::Analysis& analysis = read.value();
  if (!options.json) {
    report::TextOptions text;
    text.width = columns_of(STDOUT_FILENO);
    text.colour = wants_colour(STDOUT_FILENO);
    text.unicode = wants_unicode();
    text.sections = {"hotspots"};
    if (options.top != 0) text.rows = options.top;
    return print(report::render_text(analysis, text));
  }
  const auto known = [](const std::string& text) {
    return text.empty() ? std::optional<std::string>() : std::optional(text);
  };
  QueryJson json("functions");
  json("functions", analysis.functions.size());
  json.rows("top", rows_of(options, analysis.functions.size()), [&](std::size_t i) {
    const report::FunctionRow& row = analysis.functions[i];
    json("name", row.name)("file", known(row.file));
    json("line", row.line == 0 ? std::optional<std::uint32_t>() : std::optional(row.line));
    json("kind", report::format::frame_kind_name(row.kind))("module", known(row.module));
    json("self_s", row.self_s)("total_s", row.total_s)("cpu_s", row.cpu_s)("rank_min_s", row.spread.min_s);
    json("rank_mean_s", row.spread.mean_s)("rank_max_s", row.spread.max_s)("rank_max", row.spread.max_rank);
    const report::RankSpread& active = row.active_spread;
    json("active_self_s", row.active_self_s)("active_total_s", row.active_total_s);
    json("active_rank_min_s", active.min_s)("active_rank_mean_s", active.mean_s);
    json("active_rank_max_s", active.max_s)("active_rank_max", active.max_rank);
  });
  return json.print();
}

}  // namespace clusterprof::cli
