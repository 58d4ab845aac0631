// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "profile_builder.hpp"
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
      "const",   "enum", "items", "properties",  "required",    "minimum", "additionalProperties"};
  for (const auto& [keyword, unused] : rule.items())
    if (std::find(kKnown.begin(), kKnown.end(), keyword) == kKnown.end())
      errors.push_back(path + ": the schema uses " + keyword);
  if (rule.contains("$ref")) {
    const std::string target = rule["$ref"].get<std::string>().substr(1);
    check(value, schema.at(Json::json_pointer(target)), schema, path, errors);
    return;
  }
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
  EXPECT_FALSE(document.contains("memory"));
}

TEST(Json, MpiIsAbsentWhereNobodyWatchedIt) {
  ProfileBuilder b(2);
  EXPECT_EQ(report_of(b.data)["mpi"],
            (Json{{"calls", Json::array()}, {"matrix", Json::array()}, {"sizes", Json::array()}}))
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

TEST(Json, AnyBytesInNamesGiveValidJson) {
  ProfileBuilder b(1);
  b.sampled(0, b.path({b.native("a\x1b\xff\"\\\n", "/m.so")}), Category::kNative, 10);
  const Json document = report_of(b.data);
  EXPECT_EQ(document["functions"][0]["name"], "a\x1b\xef\xbf\xbd\"\\\n");
}

TEST(Json, DoesNotDependOnTheOrderOfTheInput) {
  shard::ShardData data = testing::training_run();
  const std::string before = render_json(analyse(data));
  std::reverse(data.values.begin(), data.values.end());
  std::reverse(data.mpi_calls.begin(), data.mpi_calls.end());
  std::reverse(data.matrix.begin(), data.matrix.end());
  std::reverse(data.counter_values.begin(), data.counter_values.end());
  EXPECT_EQ(render_json(analyse(data)), before);
}

}  // namespace
}  // namespace clusterprof::report
