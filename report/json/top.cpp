// SPDX-License-Identifier: BSD-3-Clause
#include "report/top.hpp"

#include <array>
#include <string>

#include "report/format/names.hpp"
#include "report/json/failure.hpp"

namespace clusterprof::report {
namespace {

void write_categories(JsonWriter& out, const OptionalCategorySeconds& seconds) {
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    out(std::string(shard::kCategoryNames[c]) + "_s", seconds[c]);
}

}  // namespace

void render_top_json(const Top& top, const JsonSink& sink) {
  JsonWriter out(sink);
  const Analysis& run = top.run;
  const auto node_name = [&](std::uint32_t node) {
    return text_or_null(node < run.nodes.size() ? run.nodes[node].name : std::string_view());
  };
  out.object([&] {
    out("schema", "clusterprof.top/1")("id", run.run.id);
    out("state", name_of(run.run.state))("as_of_s", run.run.as_of_s)("window_s", top.window_s);
    write_failure(out, run);
    write_verdict(out, run);
    write_waiting(out, run.hang ? run.hang->waiting : std::vector<HangWait>());
    std::size_t row = 0;
    out.rows("nodes", run.nodes, [&](const NodeInfo& node) {
      const TopNode& now = top.nodes[row++];
      out("name", node.name)("state", name_of(node.state))("as_of_s", node.as_of_s)("ranks", node.ranks);
      write_categories(out, now.category_s);
      out("rss_bytes", now.rss_bytes)("memory_used_bytes", now.memory_used_bytes);
      out("memory_limit_bytes", now.memory_limit_bytes);
    });
    row = 0;
    out.rows("ranks", run.ranks, [&](const RankInfo& rank) {
      const TopRank& now = top.ranks[row++];
      out("rank", rank.rank)("node", node_name(rank.node))("pid", rank.pid)("window_s", now.window_s);
      write_categories(out, now.category_s);
      out("op", text_or_null(now.place.op))("op_s", now.op_s);
      out("function", text_or_null(now.place.function))("file", text_or_null(now.place.file));
      out("line", or_null(now.place.line));
      out("rss_bytes", now.rss_bytes)("unmoved_s", now.unmoved_s);
      out.object("exit",
                 [&] { out("status", rank.exit_status)("signal", rank.exit_signal)("lost", rank.lost); });
    });
    out.rows("functions", top.functions, [&](const FunctionRow& function) {
      out("name", function.name)("file", text_or_null(function.file))("line", or_null(function.line));
      out("kind", format::frame_kind_name(function.kind))("module", text_or_null(function.module));
      out("self_s", function.self_s)("total_s", function.total_s);
    });
    out.rows("lines", top.lines, [&](const LineRow& line) {
      out("file", text_or_null(line.file))("line", or_null(line.line))("function",
                                                                       text_or_null(line.function));
      out("self_s", line.self_s)("total_s", line.total_s);
    });
  });
  out.finish();
}

}  // namespace clusterprof::report
