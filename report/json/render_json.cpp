// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/report.hpp"
#include "report/text/format.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::ordered_json;
using shard::Category;

constexpr std::size_t index(Category category) { return static_cast<std::size_t>(category); }

// Nanoseconds are what was measured; more digits would only be noise.
double number(double value) { return std::round(value * 1e9) / 1e9; }

Json number_or_null(const std::optional<double>& value) { return value ? Json(number(*value)) : Json(); }

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json text_or_null(const std::string& value) { return value.empty() ? Json() : Json(value); }
Json line_or_null(std::uint32_t line) { return line == 0 ? Json() : Json(line); }

const char* kind_name(shard::FrameKind kind) {
  switch (kind) {
    case shard::FrameKind::kPython:
      return "python";
    case shard::FrameKind::kNative:
      return "native";
    case shard::FrameKind::kMpi:
      return "mpi";
    case shard::FrameKind::kKernel:
      return "kernel";
  }
  return "native";
}

Json utc_or_null(std::int64_t ns) {
  if (ns == 0) return Json();
  std::string time = text::utc(ns);  // "2026-11-21 13:45:02 UTC"
  time[10] = 'T';
  return time.substr(0, 19) + "Z";
}

Json dropped_json(const Analysis& a) {
  Json dropped = Json::object();
  for (const auto& [reason, count] : a.run.dropped) dropped[reason] = count;
  return dropped;
}

Json run_json(const Analysis& a) {
  const RunInfo& run = a.run;
  return {{"id", run.id},
          {"command", run.command},
          {"start_utc", utc_or_null(run.start_utc_ns)},
          {"elapsed_s", number(run.elapsed_s)},
          {"nodes", run.nodes},
          {"ranks", run.ranks},
          {"world_size", line_or_null(run.world_size)},
          {"missing_ranks", run.missing_ranks},
          {"rate_hz", run.rate_hz},
          {"clock", run.clock},
          {"samples", run.samples},
          {"dropped", dropped_json(a)},
          {"complete", run.complete},
          {"version", run.version},
          {"mpi_library", text_or_null(run.mpi_library)},
          {"notes", run.notes}};
}

Json activities_json(const OptionalActivitySeconds& seconds) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kActivities; ++i)
    out[std::string(kActivityKeys[i]) + "_s"] = number_or_null(seconds[i]);
  return out;
}

// Parts of the self time of a function or line: the categories, and those activities that are not one.
template <typename Row>
void add_parts(const Analysis& a, const Row& row, Json& out) {
  for (const Category c : {Category::kPython, Category::kNative, Category::kSystem, Category::kMpi,
                           Category::kIo, Category::kIdle})
    out[std::string(shard::kCategoryNames[index(c)]) + "_s"] = number(row.category_s[index(c)]);
  for (const Activity part : {Activity::kGilWait, Activity::kGarbageCollection, Activity::kImport,
                              Activity::kPageFault, Activity::kSleep, Activity::kLock}) {
    const bool known = a.activity_s[index(part)].has_value();
    out[std::string(kActivityKeys[index(part)]) + "_s"] =
        known ? Json(number(row.activity_s[index(part)])) : Json();
  }
}

Json seconds_by_name(const Analysis& a, const std::map<std::string, double>& seconds) {
  if (a.run.samples == 0) return Json();
  Json out = Json::object();
  for (const auto& [name, value] : seconds) out[name] = number(value);
  return out;
}

Json quality_json(const Analysis& a) {
  const Quality& q = a.quality;
  return {{"samples", a.run.samples},
          {"rate_reached_hz", number_or_null(q.rate_reached_hz)},
          {"handler_median_s", number_or_null(q.handler_median_s)},
          {"handler_p99_s", number_or_null(q.handler_p99_s)},
          {"dropped", dropped_json(a)},
          {"truncated", q.truncated},
          {"merges_tried", q.merges_tried},
          {"merges_failed", q.merges_failed},
          {"merge_success_percent", q.merge_success ? Json(number(100 * *q.merge_success)) : Json()}};
}

Json nodes_json(const Analysis& a) {
  Json out = Json::array();
  for (const NodeInfo& node : a.nodes)
    out.push_back({{"name", node.name},
                   {"ranks", node.ranks},
                   {"elapsed_s", number(node.elapsed_s)},
                   {"cpu_s", number(node.cpu_s)},
                   {"collector_cpu_s", number(node.collector_cpu_s)}});
  return out;
}

Json ranks_json(const Analysis& a) {
  Json out = Json::array();
  for (const RankInfo& rank : a.ranks) {
    const auto category = [&](Category c) { return number_or_null(rank.category_s[index(c)]); };
    out.push_back({{"rank", rank.rank},
                   {"node", rank.node < a.nodes.size() ? Json(a.nodes[rank.node].name) : Json()},
                   {"pid", rank.pid},
                   {"elapsed_s", number(rank.elapsed_s)},
                   {"cpu_s", number_or_null(rank.cpu_s)},
                   {"samples", rank.samples},
                   {"threads", rank.threads},
                   {"processes", rank.processes},
                   {"python_s", category(Category::kPython)},
                   {"native_s", category(Category::kNative)},
                   {"system_s", category(Category::kSystem)},
                   {"mpi_s", category(Category::kMpi)},
                   {"io_s", category(Category::kIo)},
                   {"idle_s", category(Category::kIdle)},
                   {"activities", activities_json(rank.activity_s)},
                   {"useful_s", number_or_null(rank.useful_s)},
                   {"mpi_wait_s", number_or_null(rank.mpi_wait_s)},
                   {"mpi_transfer_s", number_or_null(rank.mpi_transfer_s)},
                   {"max_rss_bytes", or_null(rank.max_rss_bytes)},
                   {"read_bytes", or_null(rank.read_bytes)},
                   {"write_bytes", or_null(rank.write_bytes)},
                   {"exit",
                    {{"status", or_null(rank.exit_status)},
                     {"signal", or_null(rank.exit_signal)},
                     {"lost", rank.lost}}}});
  }
  return out;
}

Json functions_json(const Analysis& a) {
  Json out = Json::array();
  for (const FunctionRow& row : a.functions) {
    out.push_back(
        {{"name", row.name},
         {"file", text_or_null(row.file)},
         {"line", line_or_null(row.line)},
         {"kind", kind_name(row.kind)},
         {"module", text_or_null(row.module)},
         {"self_s", number(row.self_s)},
         {"total_s", number(row.total_s)},
         {"active_self_s", number(row.active_self_s)},
         {"active_total_s", number(row.active_total_s)},
         {"rank_min_s", number(row.spread.min_s)},
         {"rank_mean_s", number(row.spread.mean_s)},
         {"rank_max_s", number(row.spread.max_s)},
         {"rank_max", row.spread.max_rank},
         {"imbalance", row.spread.mean_s > 0 ? Json(number(row.spread.max_s / row.spread.mean_s)) : Json()}});
    add_parts(a, row, out.back());
  }
  return out;
}

Json lines_json(const Analysis& a) {
  Json out = Json::array();
  for (const LineRow& row : a.lines) {
    out.push_back({{"file", row.file},
                   {"line", row.line},
                   {"function", row.function},
                   {"self_s", number(row.self_s)},
                   {"total_s", number(row.total_s)}});
    add_parts(a, row, out.back());
  }
  return out;
}

Json mpi_json(const Analysis& a) {
  if (!a.mpi_watched) return Json::object();
  Json calls = Json::array(), matrix = Json::array(), sizes = Json::array();
  for (const MpiCallRow& row : a.mpi_calls)
    calls.push_back({{"op", row.op},
                     {"file", text_or_null(row.file)},
                     {"line", line_or_null(row.line)},
                     {"function", text_or_null(row.function)},
                     {"count", row.count},
                     {"time_s", number(row.time_s)},
                     {"wait_s", nullptr},
                     {"sent_bytes", row.sent_bytes},
                     {"recv_bytes", row.recv_bytes},
                     {"rank_min_s", number(row.spread.min_s)},
                     {"rank_mean_s", number(row.spread.mean_s)},
                     {"rank_max_s", number(row.spread.max_s)},
                     {"rank_max", row.spread.max_rank}});
  for (const shard::MatrixCell& cell : a.matrix)
    matrix.push_back({{"src", cell.source},
                      {"dst", cell.destination},
                      {"messages", cell.messages},
                      {"bytes", cell.bytes}});
  for (const MpiSizeRow& row : a.mpi_sizes)
    sizes.push_back({{"op", row.op}, {"le_bytes", row.le_bytes}, {"count", row.count}});
  return {{"calls", std::move(calls)}, {"matrix", std::move(matrix)}, {"sizes", std::move(sizes)}};
}

Json counters_json(const Analysis& a) {
  Json unavailable = Json::object(), ranks = Json::array();
  for (const auto& [name, reason] : a.unavailable_counters) unavailable[name] = reason;
  for (const RankCounters& row : a.rank_counters) {
    Json rank = {{"rank", row.rank}};
    for (const auto& [name, value] : row.values) rank[name] = value;
    ranks.push_back(std::move(rank));
  }
  return {{"available", a.counters}, {"unavailable", std::move(unavailable)}, {"ranks", std::move(ranks)}};
}

Json bottleneck_json(const Analysis& a) {
  Json out = Json::array();
  for (const Bottleneck& row : a.bottlenecks)
    out.push_back({{"scope", row.rank ? "rank" : "run"},
                   {"rank", or_null(row.rank)},
                   {"class", row.kind},
                   {"share", number(row.share)},
                   {"evidence", row.evidence}});
  return out;
}

Json findings_json(const Analysis& a) {
  Json out = Json::array();
  for (const Finding& row : a.findings)
    out.push_back({{"severity", row.severity},
                   {"share", number_or_null(row.share)},
                   {"text", row.text},
                   {"file", text_or_null(row.file)},
                   {"line", line_or_null(row.line)},
                   {"rank", or_null(row.rank)}});
  return out;
}

}  // namespace

std::string render_json(const Analysis& a) {
  const Json document = {{"schema", "clusterprof.report/1"},
                         {"run", run_json(a)},
                         {"nodes", nodes_json(a)},
                         {"ranks", ranks_json(a)},
                         {"efficiency",
                          {{"parallel", number_or_null(a.efficiency.parallel)},
                           {"load_balance", number_or_null(a.efficiency.load_balance)},
                           {"communication", number_or_null(a.efficiency.communication)},
                           {"serialization", number_or_null(a.efficiency.serialization)},
                           {"transfer", number_or_null(a.efficiency.transfer)}}},
                         {"activities", activities_json(a.activity_s)},
                         {"native_modules", seconds_by_name(a, a.native_modules)},
                         {"system_calls", seconds_by_name(a, a.system_calls)},
                         {"functions", functions_json(a)},
                         {"lines", lines_json(a)},
                         {"mpi", mpi_json(a)},
                         {"counters", counters_json(a)},
                         {"quality", quality_json(a)},
                         {"bottleneck", bottleneck_json(a)},
                         {"findings", findings_json(a)}};
  // Names are bytes of the program; what is not UTF-8 in them becomes U+FFFD.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace clusterprof::report
