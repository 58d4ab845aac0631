// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/analysis/regions.hpp"
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
Json size_or_null(std::uint64_t bytes) { return bytes == 0 ? Json() : Json(bytes); }

// Without looking for the key, and without the copies that lists in braces take: for what there is much of.
void put(Json& object, const char* key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

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
    case shard::FrameKind::kRegion:
      break;  // is no function
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
          {"spawned_ranks", run.spawned_ranks},
          {"world_size", line_or_null(run.world_size)},
          {"missing_ranks", run.missing_ranks},
          {"rate_hz", run.rate_hz},
          {"clock", run.clock},
          {"region", text_or_null(run.region)},
          {"sample_on", text_or_null(run.sample_on)},
          {"only_regions", run.only_regions},
          {"samples", run.samples},
          {"dropped", dropped_json(a)},
          {"complete", run.complete},
          {"version", run.version},
          {"mpi_library", text_or_null(run.mpi_library)},
          {"notes", run.notes}};
}

Json activities_json(const OptionalActivitySeconds& seconds) {
  Json out = Json::object();
  auto& pairs = out.get_ref<Json::object_t&>();
  pairs.reserve(kActivities);
  for (std::size_t i = 0; i < kActivities; ++i)
    pairs.emplace_back(std::string(kActivityKeys[i]) + "_s", number_or_null(seconds[i]));
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
                   {"collector_cpu_s", number(node.collector_cpu_s)},
                   {"cpus", line_or_null(node.cpus)},
                   {"numa_nodes", line_or_null(node.numa_nodes)},
                   {"memory_bytes", size_or_null(node.memory_bytes)},
                   {"cache_bytes", size_or_null(node.cache_bytes)},
                   {"cpu_model", text_or_null(node.cpu_model)},
                   {"cpu_busy", number_or_null(node.busy)},
                   {"memory_used_bytes", or_null(node.memory_used_bytes)},
                   {"network_received_bytes", or_null(node.received_bytes)},
                   {"network_sent_bytes", or_null(node.sent_bytes)},
                   {"disk_read_bytes", or_null(node.disk_read_bytes)},
                   {"disk_written_bytes", or_null(node.disk_written_bytes)}});
  return out;
}

Json derived_json(const std::vector<Derived>& list) {
  Json out = Json::array();
  for (const Derived& row : list)
    out.push_back(
        {{"name", row.name}, {"value", number(row.value)}, {"unit", row.unit}, {"formula", row.formula}});
  return out;
}

Json amounts_json(const Analysis& a, const CounterAmounts& amounts) {
  Json out = Json::object();
  for (const auto& [counter, value] : amounts) out[a.counters[counter]] = value;
  return out;
}

Json ranks_json(const Analysis& a) {
  Json out = Json::array();
  out.get_ref<Json::array_t&>().reserve(a.ranks.size());
  for (const RankInfo& rank : a.ranks) {
    const auto category = [&](Category c) { return number_or_null(rank.category_s[index(c)]); };
    Json& row = out.emplace_back(Json::object());
    row.get_ref<Json::object_t&>().reserve(40);
    put(row, "rank", rank.rank);
    put(row, "node", rank.node < a.nodes.size() ? Json(a.nodes[rank.node].name) : Json());
    put(row, "pid", rank.pid);
    put(row, "elapsed_s", number(rank.elapsed_s));
    put(row, "paused_s", number(rank.paused_s));
    put(row, "cpu_s", number_or_null(rank.cpu_s));
    put(row, "user_s", number_or_null(rank.user_s));
    put(row, "kernel_s", number_or_null(rank.kernel_s));
    put(row, "samples", rank.samples);
    put(row, "spawned", rank.spawned);
    put(row, "threads", rank.threads);
    put(row, "processes", rank.processes);
    put(row, "python_s", category(Category::kPython));
    put(row, "native_s", category(Category::kNative));
    put(row, "system_s", category(Category::kSystem));
    put(row, "mpi_s", category(Category::kMpi));
    put(row, "io_s", category(Category::kIo));
    put(row, "idle_s", category(Category::kIdle));
    put(row, "activities", activities_json(rank.activity_s));
    put(row, "useful_s", number_or_null(rank.useful_s));
    put(row, "mpi_wait_s", number_or_null(rank.mpi_wait_s));
    put(row, "mpi_transfer_s", number_or_null(rank.mpi_transfer_s));
    put(row, "max_rss_bytes", or_null(rank.max_rss_bytes));
    put(row, "read_bytes", or_null(rank.read_bytes));
    put(row, "write_bytes", or_null(rank.write_bytes));
    put(row, "minor_faults", or_null(rank.minor_faults));
    put(row, "major_faults", or_null(rank.major_faults));
    put(row, "voluntary_switches", or_null(rank.voluntary_switches));
    put(row, "involuntary_switches", or_null(rank.involuntary_switches));
    put(row, "affinity", text_or_null(rank.affinity));
    put(row, "numa", text_or_null(rank.numa));
    put(row, "derived", derived_json(rank.derived));
    put(row, "exit",
        {{"status", or_null(rank.exit_status)}, {"signal", or_null(rank.exit_signal)}, {"lost", rank.lost}});
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
    if (!row.counters.empty()) out.back()["counters"] = amounts_json(a, row.counters);
    if (row.working_set_bytes) {
      out.back()["working_set_bytes"] = std::llround(*row.working_set_bytes);
      out.back()["working_set_is_more"] = row.working_set_is_more;
    }
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
    if (!row.counters.empty()) out.back()["counters"] = amounts_json(a, row.counters);
  }
  return out;
}

Json node_matrix_json(const Analysis& a) {
  const auto name = [&](const std::optional<std::uint32_t>& node) {
    return node && *node < a.nodes.size() ? Json(a.nodes[*node].name) : Json();
  };
  Json out = Json::array();
  for (const NodeCell& cell : a.node_matrix) {
    Json& each = out.emplace_back(Json::object());
    put(each, "src", or_null(cell.source));
    put(each, "dst", or_null(cell.destination));
    put(each, "src_node", name(cell.source));
    put(each, "dst_node", name(cell.destination));
    put(each, "messages", cell.messages);
    put(each, "bytes", cell.bytes);
  }
  return out;
}

void add_place(const Analysis& a, PlaceIndex index, Json& out) {
  const Place& place = a.places[index];
  put(out, "op", text_or_null(place.op));
  put(out, "file", text_or_null(place.file));
  put(out, "line", line_or_null(place.line));
  put(out, "function", text_or_null(place.function));
}

Json wait_parts_json(const Analysis& a, const std::vector<WaitPart>& parts, bool causes) {
  Json out = Json::array();
  for (const WaitPart& part : parts) {
    Json& row = out.emplace_back(Json::object());
    if (causes) put(row, "rank", or_null(part.rank));
    put(row, "wait_s", number(part.wait_s));
    put(row, "count", part.count);
    add_place(a, part.place, row);
    if (part.rest != 0) row["rest"] = part.rest;
  }
  return out;
}

Json waits_json(const Analysis& a) {
  Json out = Json::array();
  for (const WaitRow& row : a.waits) {
    Json& each = out.emplace_back(Json::object());
    put(each, "kind", shard::kWaitKindNames[static_cast<std::size_t>(row.kind)]);
    put(each, "rank", row.rank);
    put(each, "wait_s", number(row.wait_s));
    put(each, "count", row.count);
    put(each, "caused_by", wait_parts_json(a, row.causes, true));
    put(each, "where", wait_parts_json(a, row.where, false));
  }
  return out;
}

Json root_causes_json(const Analysis& a) {
  if (!a.wait_quality) return Json();
  Json out = Json::array();
  for (const RootCauseRow& cause : a.root_causes) {
    Json& row = out.emplace_back(Json{{"rank", cause.rank}});
    add_place(a, cause.place, row);
    row["wait_s"] = number(cause.wait_s);
    row["share"] = number(cause.share);
    row["waiting_ranks"] = cause.waiting_ranks;
  }
  return out;
}

Json critical_path_json(const Analysis& a) {
  if (a.critical_path.empty()) return Json();
  Json out = Json::array();
  for (const CriticalRow& part : a.critical_path) {
    const Place& place = a.places[part.place];
    const bool known = part.place != 0;
    Json& row = out.emplace_back(Json::object());
    add_place(a, part.place, row);
    row["kind"] = !known ? Json() : Json(place.op.empty() ? kind_name(place.kind) : "mpi");
    row["time_s"] = number(part.time_s);
    row["share"] = number(part.share);
    row["mean_s"] = known ? Json(number(part.mean_s)) : Json();
    row["imbalance"] = known && part.mean_s > 0 ? Json(number(part.time_s / part.mean_s)) : Json();
    row["rank_max"] = part.max_rank;
  }
  return out;
}

Json windows_json(const Analysis& a) {
  if (a.windows.empty()) return Json();
  Json out = Json::array();
  for (const WindowRow& row : a.windows)
    out.push_back({{"begin_s", number(row.begin_s)},
                   {"end_s", number(row.end_s)},
                   {"parallel", number(row.parallel)},
                   {"load_balance", number_or_null(row.load_balance)},
                   {"communication", number(row.communication)},
                   {"wait_s", number(row.wait_s)}});
  return out;
}

Json wait_analysis_json(const Analysis& a) {
  if (!a.wait_quality) return Json();
  const WaitQuality& q = *a.wait_quality;
  return {{"operations", q.operations},
          {"events", q.events},
          {"event_level", q.event_level},
          {"messages", q.messages},
          {"unmatched_messages", q.unmatched_messages},
          {"collectives", q.collectives},
          {"unmatched_collectives", q.unmatched_collectives},
          {"clock_error_s", number_or_null(q.clock_error_s)},
          {"clock_violations", q.clock_violations},
          {"worst_violation_s", number(q.worst_violation_s)},
          {"ideal_s", number_or_null(q.ideal_s)}};
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
                     {"wait_s", number_or_null(row.wait_s)},
                     {"sent_bytes", row.sent_bytes},
                     {"recv_bytes", row.recv_bytes},
                     {"rank_min_s", number(row.spread.min_s)},
                     {"rank_mean_s", number(row.spread.mean_s)},
                     {"rank_max_s", number(row.spread.max_s)},
                     {"rank_max", row.spread.max_rank}});
  for (const shard::MatrixCell& cell : a.matrix) {
    Json& each = matrix.emplace_back(Json::object());
    put(each, "src", cell.source);
    put(each, "dst", cell.destination);
    put(each, "messages", cell.messages);
    put(each, "bytes", cell.bytes);
  }
  for (const MpiSizeRow& row : a.mpi_sizes)
    sizes.push_back({{"op", row.op}, {"le_bytes", row.le_bytes}, {"count", row.count}});
  Json out = {{"calls", std::move(calls)},
              {"matrix", std::move(matrix)},
              {"node_matrix", node_matrix_json(a)},
              {"sizes", std::move(sizes)}};
  if (a.wait_quality) out["waits"] = waits_json(a);
  return out;
}

Json counters_json(const Analysis& a) {
  Json unavailable = Json::object(), ranks = Json::array();
  for (const auto& [name, reason] : a.unavailable_counters) unavailable[name] = reason;
  for (const RankCounters& row : a.rank_counters) {
    Json rank = {{"rank", row.rank}};
    for (const auto& [name, value] : row.values) rank[name] = value;
    ranks.push_back(std::move(rank));
  }
  return {{"available", a.counters},
          {"unavailable", std::move(unavailable)},
          {"multiplexed", a.counters_multiplexed},
          {"derived", derived_json(a.derived)},
          {"ranks", std::move(ranks)}};
}

Json io_json(const Analysis& a) {
  if (!a.io) return Json();
  Json files = Json::array(), calls = Json::array(), file_systems = Json::array();
  for (const IoFileRow& row : a.io->files)
    files.push_back({{"path", text_or_null(row.path)},
                     {"file_system", text_or_null(row.file_system)},
                     {"ranks", row.ranks},
                     {"opens", row.opens},
                     {"reads", row.reads},
                     {"writes", row.writes},
                     {"read_bytes", row.read_bytes},
                     {"written_bytes", row.written_bytes},
                     {"read_s", number(row.read_s)},
                     {"write_s", number(row.write_s)},
                     {"sync_s", number(row.sync_s)},
                     {"meta_s", number(row.meta_s)}});
  for (const IoCallRow& row : a.io->calls)
    calls.push_back({{"operation", shard::kIoOperationNames[static_cast<std::size_t>(row.operation)]},
                     {"file", text_or_null(row.file)},
                     {"line", line_or_null(row.line)},
                     {"function", text_or_null(row.function)},
                     {"path", text_or_null(row.path)},
                     {"count", row.count},
                     {"failed", row.failed},
                     {"bytes", row.bytes},
                     {"time_s", number(row.time_s)},
                     {"max_s", number(row.max_s)},
                     {"rank_max", row.max_rank}});
  for (const FileSystemRow& row : a.io->file_systems)
    file_systems.push_back({{"name", text_or_null(row.name)},
                            {"read_bytes", row.read_bytes},
                            {"written_bytes", row.written_bytes},
                            {"read_s", number(row.read_s)},
                            {"write_s", number(row.write_s)},
                            {"sync_s", number(row.sync_s)},
                            {"meta_s", number(row.meta_s)}});
  return {
      {"files", std::move(files)}, {"calls", std::move(calls)}, {"file_systems", std::move(file_systems)}};
}

Json off_cpu_json(const Analysis& a) {
  if (!a.off_cpu) return Json();
  Json out = Json::array();
  for (const OffCpuRow& row : *a.off_cpu)
    out.push_back({{"kind", kOffCpuNames[static_cast<std::size_t>(row.kind)]},
                   {"file", text_or_null(row.file)},
                   {"line", line_or_null(row.line)},
                   {"function", text_or_null(row.function)},
                   {"time_s", number(row.time_s)},
                   {"main_thread_s", number(row.main_thread_s)},
                   {"rank_max", row.max_rank}});
  return out;
}

Json timeline_json(const Analysis& a) {
  if (!a.timeline) return Json();
  const Timeline& timeline = *a.timeline;
  const auto values = [&](const TimelineRow& row) {
    Json out = Json::object();
    for (const auto& [series, bins] : row.values) out[timeline.series[series]] = bins;
    return out;
  };
  Json ranks = Json::array(), nodes = Json::array();
  for (const TimelineRow& row : timeline.ranks)
    ranks.push_back({{"rank", row.rank}, {"values", values(row)}});
  for (const TimelineRow& row : timeline.nodes)
    nodes.push_back({{"name", a.nodes[row.node].name}, {"values", values(row)}});
  return {{"bin_s", number(timeline.bin_s)},     {"bins", timeline.bins},
          {"begin_s", number(timeline.begin_s)}, {"series", timeline.series},
          {"ranks", std::move(ranks)},           {"nodes", std::move(nodes)}};
}

Json regions_json(const Analysis& a) {
  Json out = Json::array();
  for (const RegionRow& row : a.regions) {
    Json& region = out.emplace_back(Json{{"name", region_name(row)},
                                         {"count", row.count},
                                         {"time_s", number_or_null(row.time_s)},
                                         {"min_s", number_or_null(row.min_s)},
                                         {"max_s", number_or_null(row.max_s)},
                                         {"max_n", or_null(row.max_n)},
                                         {"sampled_s", number(row.sampled_s)},
                                         {"share", number(row.share)}});
    for (std::size_t c = 0; c < shard::kCategories; ++c)
      region[std::string(shard::kCategoryNames[c]) + "_s"] = number(row.category_s[c]);
    region["rank_min_s"] = number(row.spread.min_s);
    region["rank_mean_s"] = number(row.spread.mean_s);
    region["rank_max_s"] = number(row.spread.max_s);
    region["rank_max"] = row.spread.max_rank;
    region["efficiency"] = {{"parallel", number_or_null(row.efficiency.parallel)},
                            {"load_balance", number_or_null(row.efficiency.load_balance)},
                            {"communication", number_or_null(row.efficiency.communication)}};
    region["counters"] = amounts_json(a, row.counters);
    region["derived"] = derived_json(row.derived);
    region["bottleneck"] = text_or_null(row.bottleneck);
  }
  return out;
}

Json bottleneck_json(const Analysis& a) {
  Json out = Json::array();
  for (const Bottleneck& row : a.bottlenecks) {
    Json& each = out.emplace_back(Json::object());
    put(each, "scope", !row.region.empty() ? "region" : row.rank ? "rank" : "run");
    put(each, "rank", or_null(row.rank));
    put(each, "region", text_or_null(row.region));
    put(each, "class", row.kind);
    put(each, "share", number(row.share));
    put(each, "evidence", row.evidence);
  }
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
                         {"wait_analysis", wait_analysis_json(a)},
                         {"root_causes", root_causes_json(a)},
                         {"critical_path", critical_path_json(a)},
                         {"efficiency_windows", windows_json(a)},
                         {"counters", counters_json(a)},
                         {"io", io_json(a)},
                         {"off_cpu", off_cpu_json(a)},
                         {"timeline", timeline_json(a)},
                         {"regions", regions_json(a)},
                         {"quality", quality_json(a)},
                         {"bottleneck", bottleneck_json(a)},
                         {"findings", findings_json(a)}};
  // Names are bytes of the program; what is not UTF-8 in them becomes U+FFFD.
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace clusterprof::report
