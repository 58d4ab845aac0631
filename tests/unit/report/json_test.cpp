// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "as_sampled.hpp"
#include "base/command_text.hpp"
#include "profile_builder.hpp"
#include "report/format/characters.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::ProfileBuilder;

Json load_schema() {
  std::ifstream file(REPORT_SCHEMA);
  return Json::parse(file);
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  ADD_FAILURE() << "the schema uses type " << type;
  return false;
}

// The part of JSON Schema that our schema uses. Stricter in one point: a key that the schema
// does not describe is an error, so that the schema cannot fall behind. Appends "path: what".
void check(const Json& value, const Json& rule, const Json& schema, const std::string& path,
           std::vector<std::string>& errors) {
  static const std::vector<std::string> kKnown = {
      "$schema", "$id",  "title", "description", "definitions", "$ref",    "type",
      "const",   "enum", "items", "properties",  "required",    "minimum", "additionalProperties",
      "maxItems"};
  for (const auto& [keyword, unused] : rule.items())
    if (std::find(kKnown.begin(), kKnown.end(), keyword) == kKnown.end())
      errors.push_back(path + ": the schema uses " + keyword);
  if (rule.contains("$ref")) {
    const std::string target = rule["$ref"].get<std::string>().substr(1);
    check(value, schema.at(Json::json_pointer(target)), schema, path, errors);
    return;
  }
  if (rule.contains("maxItems") && value.size() > rule["maxItems"].get<std::size_t>())
    errors.push_back(path + ": maxItems");
  if (rule.contains("const") && value != rule["const"]) errors.push_back(path + ": const");
  if (rule.contains("enum") &&
      std::find(rule["enum"].begin(), rule["enum"].end(), value) == rule["enum"].end())
    errors.push_back(path + ": enum");
  if (rule.contains("type")) {
    const Json types = rule["type"].is_array() ? rule["type"] : Json::array({rule["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return has_type(value, t); })) {
      errors.push_back(path + ": type");
      return;
    }
  }
  if (rule.contains("minimum") && value.is_number() && value < rule["minimum"])
    errors.push_back(path + ": minimum");
  if (value.is_array() && rule.contains("items"))
    for (std::size_t i = 0; i < value.size(); ++i)
      check(value[i], rule["items"], schema, path + "/" + std::to_string(i), errors);
  if (!value.is_object()) return;
  for (const Json& key : rule.value("required", Json::array()))
    if (!value.contains(key)) errors.push_back(path + ": lacks " + key.get<std::string>());
  const Json properties = rule.value("properties", Json::object());
  for (const auto& [key, part] : value.items()) {
    if (properties.contains(key))
      check(part, properties[key], schema, path + "/" + key, errors);
    else if (rule.contains("additionalProperties"))
      check(part, rule["additionalProperties"], schema, path + "/" + key, errors);
    else
      errors.push_back(path + ": the schema does not describe " + key);
  }
}

std::vector<std::string> errors_of(const Json& document) {
  static const Json kSchema = load_schema();
  std::vector<std::string> errors;
  check(document, kSchema, kSchema, "", errors);
  return errors;
}

Json report_of(const shard::ShardData& data) { return Json::parse(render_json(analyse(data))); }

TEST(Json, FollowsItsSchema) {
  const std::vector<std::string> none;
  EXPECT_EQ(errors_of(report_of(testing::training_run())), none);
  EXPECT_EQ(errors_of(report_of(testing::delayed_run())), none);
  EXPECT_EQ(errors_of(report_of(testing::resources_run())), none);
  EXPECT_EQ(errors_of(report_of(shard::ShardData{})), none);
  EXPECT_EQ(errors_of(report_of(ProfileBuilder(3).data)), none);
}

TEST(Json, TheSchemaCheckFindsWhatIsWrong) {
  Json document = report_of(testing::training_run());
  document["ranks"][1].erase("mpi_s");
  document["ranks"][2]["pid"] = "12";
  document["functions"][0]["kind"] = "magic";
  document["run"]["elapsed_s"] = -1;
  document["lines"][0]["surprise"] = 1;
  document["counters"]["unavailable"]["X"] = 3;
  const std::vector<std::string> expected = {"/counters/unavailable/X: type",
                                             "/functions/0/kind: enum",
                                             "/lines/0: the schema does not describe surprise",
                                             "/ranks/1: lacks mpi_s",
                                             "/ranks/2/pid: type",
                                             "/run/elapsed_s: minimum"};
  EXPECT_EQ(errors_of(document), expected);
}

TEST(Json, WhatIsNotMeasuredIsNull) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= shard::kMpiUnwatched;
  const Json document = report_of(b.data);
  const Json& rank = document["ranks"][0];
  for (const char* key : {"cpu_s", "python_s", "native_s", "system_s", "mpi_s", "io_s", "idle_s", "useful_s",
                          "mpi_wait_s", "mpi_transfer_s", "max_rss_bytes", "read_bytes", "write_bytes"})
    EXPECT_TRUE(rank[key].is_null()) << key;
  EXPECT_TRUE(rank["exit"]["status"].is_null());
  EXPECT_EQ(rank["exit"]["lost"], false);
  for (const auto& [key, value] : document["efficiency"].items()) EXPECT_TRUE(value.is_null()) << key;
  EXPECT_EQ(document["efficiency_above_one"], Json::array());
  for (const char* key : {"minor_faults", "involuntary_switches", "user_s", "affinity", "numa"})
    EXPECT_TRUE(rank[key].is_null()) << key;
  for (const char* key : {"io", "off_cpu", "timeline"}) EXPECT_TRUE(document[key].is_null()) << key;
  EXPECT_TRUE(document["nodes"][0]["cpus"].is_null());
  EXPECT_EQ(document["counters"]["derived"], Json::array());
  for (const char* key : {"wait_analysis", "root_causes", "critical_path", "efficiency_windows"})
    EXPECT_TRUE(document[key].is_null()) << key;
  EXPECT_TRUE(report_of(testing::training_run())["mpi"]["calls"][0]["wait_s"].is_null());
  EXPECT_FALSE(document.contains("memory"));
}

TEST(Json, MpiIsNullWhereItWasNotWatched) {
  ProfileBuilder b(2);
  EXPECT_EQ(report_of(b.data)["mpi"], (Json{{"calls", Json::array()},
                                            {"calls_under_way", Json::array()},
                                            {"errors", Json::array()},
                                            {"matrix", Json::array()},
                                            {"node_matrix", Json::array()},
                                            {"open_requests", Json::array()},
                                            {"sizes", Json::array()},
                                            {"unmatched", Json::array()},
                                            {"collectives", Json::array()},
                                            {"collective_matrix", Json::array()},
                                            {"collective_node_matrix", Json::array()}}))
      << "watched for, and there was nothing; waits are not measured";
  b.data.ranks[0].flags |= shard::kMpiUnwatched;
  EXPECT_TRUE(report_of(b.data)["mpi"].contains("calls")) << "rank 1 was watched";
  b.data.ranks[1].flags |= shard::kMpiUnwatched;
  EXPECT_EQ(report_of(b.data)["mpi"], Json::object());
  EXPECT_EQ(errors_of(report_of(b.data)), std::vector<std::string>());
}

TEST(Json, NumbersOfTheTrainingRun) {
  const Json document = report_of(testing::training_run());
  EXPECT_EQ(document["run"]["start_utc"], "2023-11-14T22:13:20Z");
  EXPECT_EQ(document["run"]["dropped"], (Json{{"ring_full", 7}}));
  EXPECT_EQ(document["nodes"][1]["ranks"], (Json{2, 3}));
  EXPECT_EQ(document["ranks"][3]["mpi_s"], 1.0);
  EXPECT_EQ(document["ranks"][3]["useful_s"], 9.0);
  EXPECT_EQ(document["efficiency"]["load_balance"], 0.675);
  EXPECT_EQ(document["efficiency"]["communication"], 0.9);
  const Json& call = document["mpi"]["calls"][0];
  EXPECT_EQ(call["op"], "MPI_Allreduce");
  EXPECT_EQ(call["file"], "/home/u/examples/train.py");
  EXPECT_EQ(call["line"], 88);
  EXPECT_EQ(call["function"], "step");
  EXPECT_EQ(call["count"], 1200);
  EXPECT_EQ(call["time_s"], 15.3);
  EXPECT_EQ(call["sent_bytes"], 9'600'000);
  EXPECT_EQ(call["rank_max"], 0);
  EXPECT_EQ(document["counters"]["ranks"][1],
            (Json{{"rank", 1}, {"PAPI_TOT_INS", 31'000'000'000}, {"PAPI_TOT_CYC", 20'000'000'000}}));
  for (const char* table : {"functions", "lines"})
    for (std::size_t i = 1; i < document[table].size(); ++i)
      EXPECT_GE(document[table][i - 1]["self_s"], document[table][i]["self_s"]) << table;
  for (const Json& rank : document["ranks"]) {
    double sum = 0;
    for (const char* key : {"python_s", "native_s", "system_s", "mpi_s", "io_s", "idle_s"})
      sum += rank[key].get<double>();
    EXPECT_NEAR(sum, rank["elapsed_s"].get<double>(), 1e-6);
  }
}

TEST(Json, FunctionsHaveTheirTimeOverRanksWithIdleHelperThreadsAndWithout) {
  ProfileBuilder b(2);
  const auto worker = b.native("worker", "/a.out", "a.c", 3);
  b.sampled(0, b.path({worker}), Category::kNative, 4000);
  b.sampled(1, b.path({worker}), Category::kNative, 6000);
  b.sampled(0, b.path({worker, b.native("futex", "/lib/libc.so.6")}), Category::kIdle, 80'000, false);
  const Json functions = report_of(testing::as_sampled(b.data))["functions"];
  const auto row = std::find_if(functions.begin(), functions.end(),
                                [](const Json& function) { return function["name"] == "worker"; });
  ASSERT_NE(row, functions.end());
  EXPECT_EQ((*row)["rank_max"], 0);
  EXPECT_NEAR((*row)["rank_max_s"].get<double>(), 84, 1e-9);
  EXPECT_NEAR((*row)["active_total_s"].get<double>(), 10, 1e-9);
  EXPECT_EQ((*row)["active_rank_max"], 1);
  EXPECT_NEAR((*row)["active_rank_min_s"].get<double>(), 4, 1e-9);
  EXPECT_NEAR((*row)["active_rank_mean_s"].get<double>(), 5, 1e-9);
  EXPECT_NEAR((*row)["active_rank_max_s"].get<double>(), 6, 1e-9);
  EXPECT_NEAR((*row)["active_imbalance"].get<double>(), 1.2, 1e-9);
  for (const Json& function : functions)
    if (function["name"] == "futex") EXPECT_TRUE(function["active_imbalance"].is_null());
}

TEST(Json, NumbersOfTheDelayedRun) {
  const Json document = report_of(testing::delayed_run());
  const Json& waits = document["mpi"]["waits"];
  ASSERT_EQ(waits.size(), 5u);
  EXPECT_EQ(waits[0]["kind"], "late_sender");
  EXPECT_EQ(waits[0]["rank"], 1);
  EXPECT_EQ(waits[0]["wait_s"], 0.85);
  EXPECT_EQ(waits[0]["count"], 30);
  EXPECT_EQ(waits[0]["caused_by"], Json::array({{{"rank", 0},
                                                 {"wait_s", 0.85},
                                                 {"count", 30},
                                                 {"op", nullptr},
                                                 {"file", "/home/u/train.py"},
                                                 {"line", 50},
                                                 {"function", "prepare"}}}));
  EXPECT_EQ(waits[1]["caused_by"][0]["op"], "MPI_Recv");
  EXPECT_EQ(waits[1]["caused_by"][0]["function"], "relay");
  EXPECT_EQ(waits[1]["where"][0]["op"], "MPI_Recv");
  EXPECT_FALSE(waits[1]["where"][0].contains("rank"));
  EXPECT_EQ(waits[2]["kind"], "wait_at_nxn");
  EXPECT_EQ(waits[2]["caused_by"].size(), 2u);
  EXPECT_EQ(document["mpi"]["calls"][0]["wait_s"], 16.5);
  EXPECT_EQ(document["ranks"][0]["mpi_wait_s"], 5.5);
  EXPECT_EQ(document["ranks"][0]["mpi_transfer_s"], 0.4);
  EXPECT_EQ(document["ranks"][3]["mpi_wait_s"], 0.0) << "measured";
  EXPECT_EQ(document["efficiency"]["transfer"], 0.94);
  EXPECT_EQ(
      document["mpi"]["node_matrix"][1],
      (Json{
          {"src", 0}, {"dst", 1}, {"src_node", "n0"}, {"dst_node", "n1"}, {"messages", 30}, {"bytes", 240}}));
  EXPECT_EQ(document["root_causes"][0], (Json{{"rank", 3},
                                              {"op", nullptr},
                                              {"file", "/home/u/data.py"},
                                              {"line", 41},
                                              {"function", "load_batch"},
                                              {"wait_s", 12.0},
                                              {"share", 0.3},
                                              {"waiting_ranks", 3}}));
  const Json& critical = document["critical_path"];
  EXPECT_EQ(critical[0]["kind"], "python");
  EXPECT_EQ(critical[0]["time_s"], 4.5);
  EXPECT_NEAR(critical[0]["imbalance"].get<double>(), 4.5 / ((4.5 + 3 * 0.075) / 4), 1e-6);
  for (const Json& row : critical) {
    if (!row["op"].is_null()) {
      EXPECT_EQ(row["kind"], "mpi");
    }
    if (row["function"].is_null()) {
      EXPECT_TRUE(row["kind"].is_null() && row["mean_s"].is_null() && row["imbalance"].is_null()) << row;
    }
  }
  EXPECT_EQ(document["efficiency_windows"][9], (Json{{"begin_s", 9.0},
                                                     {"end_s", 10.0},
                                                     {"parallel", 0.25},
                                                     {"load_balance", 0.277777778},
                                                     {"communication", 0.9},
                                                     {"wait_s", 3.6},
                                                     {"hybrid_parallel", nullptr},
                                                     {"openmp_parallel", nullptr}}));
  EXPECT_EQ(document["wait_analysis"], (Json{{"operations", 1320},
                                             {"events", 1380},
                                             {"event_level", 0},
                                             {"messages", 60},
                                             {"unmatched_messages", 0},
                                             {"collectives", 300},
                                             {"unmatched_collectives", 0},
                                             {"clock_error_s", 1.8e-6},
                                             {"clock_violations", 0},
                                             {"worst_violation_s", 0.0},
                                             {"ideal_s", 9.4}}));
}

TEST(Json, NumbersOfTheResourcesRun) {
  const Json document = report_of(testing::resources_run());
  const Json& io = document["io"];
  ASSERT_EQ(io["files"].size(), 2u);
  EXPECT_EQ(io["files"][0], (Json{{"path", "/scratch/run/out.dat"},
                                  {"file_system", "ext4 /"},
                                  {"ranks", 2},
                                  {"opens", 0},
                                  {"reads", 0},
                                  {"writes", 24'000},
                                  {"read_bytes", 0},
                                  {"written_bytes", 960'000},
                                  {"meta_calls", 0},
                                  {"read_s", 0.0},
                                  {"write_s", 1.0},
                                  {"sync_s", 3.0},
                                  {"meta_s", 0.0}}));
  EXPECT_EQ(io["calls"][0], (Json{{"operation", "sync"},
                                  {"mpi", nullptr},
                                  {"background", false},
                                  {"file", "/u/bound.c"},
                                  {"line", 72},
                                  {"function", "store"},
                                  {"library_function", nullptr},
                                  {"path", "/scratch/run/out.dat"},
                                  {"count", 24'000},
                                  {"failed", 0},
                                  {"bytes", 0},
                                  {"time_s", 3.0},
                                  {"max_s", 0.005},
                                  {"longest_rank", 0},
                                  {"rank_max", 0}}));
  EXPECT_EQ(io["file_systems"][0]["read_bytes"], 10'000'000);
  EXPECT_EQ(document["off_cpu"][0], (Json{{"kind", "sleep"},
                                          {"file", "/u/bound.c"},
                                          {"line", 80},
                                          {"function", "rest"},
                                          {"library_function", nullptr},
                                          {"time_s", 4.0},
                                          {"main_thread_s", 4.0},
                                          {"rank_max", 0}}));
  const Json& timeline = document["timeline"];
  EXPECT_EQ(timeline["bin_s"], 1.024);
  EXPECT_EQ(timeline["bins"], 11) << "to the end of the ranks";
  EXPECT_EQ(timeline["begin_s"], -0.5);
  EXPECT_EQ(timeline["ranks"][1]["values"]["rss_bytes"], (Json{10, 400, 400}));
  EXPECT_EQ(timeline["nodes"][0]["values"]["network_received_bytes"], (Json{1000, 2000}));
  const Json& step = document["regions"][1];
  EXPECT_EQ(step["name"], "epoch/step");
  EXPECT_EQ(step["count"], 60);
  EXPECT_EQ(step["time_s"], 10.0);
  EXPECT_EQ(step["max_n"], 7);
  EXPECT_EQ(step["native_s"], 10.0);
  EXPECT_EQ(step["counters"], (Json{{"page-faults", 6'000'001}}));
  EXPECT_EQ(step["bottleneck"], "memory");
  EXPECT_EQ(document["functions"][0]["name"], "sweep");
  EXPECT_EQ(document["functions"][0]["counters"], (Json{{"page-faults", 4'000'001}}));
  EXPECT_NEAR(document["functions"][0]["working_set_bytes"].get<double>(), 1536.0 * 262144,
              0.4 * 1536 * 262144);
  for (const Json& row : document["functions"])
    EXPECT_TRUE(row["name"] != "epoch" && row["name"] != "of a file")
        << "regions and descriptors are no functions";
  EXPECT_EQ(document["ranks"][1]["affinity"], "1");
  EXPECT_EQ(document["nodes"][0]["memory_used_bytes"], 3'000'000'000);
  EXPECT_NEAR(document["nodes"][0]["cpu_busy"].get<double>(), 7.2 / 20, 1e-9);
}

TEST(Json, ClocksThatCannotBeComparedHaveNoError) {
  shard::ShardData data = testing::delayed_run();
  data.wait_analysis.clock_error_ns = shard::kClocksApart;
  const Json document = report_of(data);
  EXPECT_TRUE(document["wait_analysis"]["clock_error_s"].is_null());
  EXPECT_EQ(errors_of(document), std::vector<std::string>());
}

TEST(Json, NoWaitingIsNotTheSameAsNoAnalysis) {
  ProfileBuilder b(2);
  b.called(0, b.path({b.native("main", "/a.out", "a.c", 5), b.mpi("MPI_Barrier")}), 1, 10);
  b.data.wait_analysis.done = true;
  for (shard::Rank& rank : b.data.ranks) rank.flags |= shard::kWaitKnown;
  const Json document = report_of(b.data);
  EXPECT_EQ(document["mpi"]["waits"], Json::array());
  EXPECT_EQ(document["root_causes"], Json::array());
  EXPECT_EQ(document["mpi"]["calls"][0]["wait_s"], 0.0);
  EXPECT_EQ(document["ranks"][0]["mpi_wait_s"], 0.0);
  EXPECT_TRUE(document["critical_path"].is_null()) << "there is always one, so this is not known";
  EXPECT_TRUE(document["efficiency_windows"].is_null());
  EXPECT_TRUE(document["efficiency"]["serialization"].is_null());
  EXPECT_TRUE(document["wait_analysis"]["ideal_s"].is_null());
  EXPECT_EQ(errors_of(document), std::vector<std::string>());
}

TEST(Json, CausesBeyondTheBoundAreOneEntry) {
  ProfileBuilder b(20);
  const auto receive = b.path({b.native("main", "/a.out", "a.c", 5), b.mpi("MPI_Recv")});
  b.called(0, receive, 19, 9000);
  for (std::uint32_t r = 1; r < 20; ++r) b.waited(0, receive, shard::WaitKind::kLateSender, r, 0, 100);
  const Json document = report_of(b.data);
  const Json& causes = document["mpi"]["waits"][0]["caused_by"];
  ASSERT_EQ(causes.size(), 17u);
  EXPECT_EQ(causes[16], (Json{{"rank", nullptr},
                              {"wait_s", 0.3},
                              {"count", 3},
                              {"op", nullptr},
                              {"file", nullptr},
                              {"line", nullptr},
                              {"function", nullptr},
                              {"rest", 3}}));
  EXPECT_FALSE(causes[15].contains("rest"));
  EXPECT_EQ(errors_of(document), std::vector<std::string>());
}

TEST(Json, AnyBytesInNamesGiveValidJson) {
  ProfileBuilder b(1);
  b.sampled(0, b.path({b.native("a\x1b\xff\"\\\n", "/m.so")}), Category::kNative, 10);
  const Json document = report_of(b.data);
  EXPECT_EQ(document["functions"][0]["name"], "a\x1b\xef\xbf\xbd\"\\\n");
}

TEST(Json, EveryRankHasItsCommand) {
  ProfileBuilder b(5);
  b.data.run.command = {"./a", "x y"};
  for (const std::size_t rank : {0, 1, 4})
    b.data.ranks[rank].command = b.string(command_text({"./a", "x y"}));
  b.data.ranks[2].command = b.string(command_text({"./b", ""}));
  const Json document = report_of(b.data);
  EXPECT_EQ(document["run"]["commands"], Json::parse(R"([{"command": ["./a", "x y"], "ranks": [0, 1, 4]},
                                                         {"command": ["./b", ""], "ranks": [2]}])"));
  EXPECT_EQ(document["ranks"][2]["command"], Json::parse(R"(["./b", ""])"));
  EXPECT_TRUE(document["ranks"][3]["command"].is_null());
  EXPECT_EQ(document["run"]["command"], Json::parse(R"(["./a", "x y"])"));
}

// The document may be shown in a terminal.
TEST(Json, HasNoCharactersThatTerminalsObey) {
  ProfileBuilder b(1);
  const std::string name = "a\u009b31m\u202e\x7f\x1b";
  b.sampled(0, b.path({b.native(name, "/m\u202e.so")}), Category::kNative, 10);
  b.data.run.command = {"./a", "\u2066x"};
  const std::string text = render_json(analyse(b.data));
  std::string shown = text;
  std::erase(shown, '\n');
  EXPECT_EQ(format::printable(shown), shown);
  EXPECT_EQ(Json::parse(text)["functions"][0]["name"], name);
}

TEST(Json, BackwardOperatorsAreToldApartByTheLineOfTheirForwardOne) {
  testing::ProfileBuilder b(1);
  for (const std::uint32_t line : {57u, 61u, 0u}) {
    shard::Frame frame = b.region("MmBackward0");
    frame.module = b.string("PyTorch");
    frame.file = b.string(line != 0 ? "/u/model.py" : "");
    frame.line = line;
    const std::uint32_t at = b.path({frame});
    b.data.region_times.push_back({0, at, line + 1, 80 * testing::kMs, testing::kMs, 9 * testing::kMs, -1});
  }
  const Json document = report_of(b.data);
  EXPECT_EQ(errors_of(document), std::vector<std::string>());
  const Json regions = document["regions"];
  ASSERT_EQ(regions.size(), 3u);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint32_t line = i == 0 ? 57 : 61;
    EXPECT_EQ(regions[i]["name"], "MmBackward0");
    EXPECT_EQ(regions[i]["count"], line + 1);
    EXPECT_EQ(regions[i]["forward"]["file"], "/u/model.py");
    EXPECT_EQ(regions[i]["forward"]["line"], line);
    EXPECT_EQ(regions[i]["library"], true);
  }
  EXPECT_FALSE(regions[2].contains("forward"));
}

TEST(Json, DoesNotDependOnTheOrderOfTheInput) {
  shard::ShardData data = testing::training_run();
  const std::string before = render_json(analyse(data));
  std::reverse(data.values.begin(), data.values.end());
  std::reverse(data.mpi_calls.begin(), data.mpi_calls.end());
  std::reverse(data.matrix.begin(), data.matrix.end());
  std::reverse(data.counter_values.begin(), data.counter_values.end());
  EXPECT_EQ(render_json(analyse(data)), before);

  data = testing::resources_run();
  const std::string resources = render_json(analyse(data));
  std::reverse(data.values.begin(), data.values.end());
  std::reverse(data.io_calls.begin(), data.io_calls.end());
  std::reverse(data.path_counters.begin(), data.path_counters.end());
  std::reverse(data.region_times.begin(), data.region_times.end());
  std::reverse(data.data_accesses.begin(), data.data_accesses.end());
  std::reverse(data.rank_series.begin(), data.rank_series.end());
  EXPECT_EQ(render_json(analyse(data)), resources);

  data = testing::delayed_run();
  const std::string delayed = render_json(analyse(data)), text = render_text(analyse(data), {});
  std::reverse(data.wait_states.begin(), data.wait_states.end());
  std::reverse(data.root_causes.begin(), data.root_causes.end());
  std::reverse(data.critical_times.begin(), data.critical_times.end());
  std::reverse(data.time_windows.begin(), data.time_windows.end());
  EXPECT_EQ(render_json(analyse(data)), delayed);
  EXPECT_EQ(render_text(analyse(data), {}), text);
}

}  // namespace
}  // namespace clusterprof::report
