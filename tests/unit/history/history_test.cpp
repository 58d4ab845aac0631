// SPDX-License-Identifier: BSD-3-Clause
#include "report/history/history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../report/profile_builder.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::ProfileBuilder;

constexpr std::int64_t kDay_ns = std::int64_t{86'400} * 1'000'000'000;
const FollowedMetric kElapsed{DiffTable::kRun, "elapsed", "", false};
const FollowedMetric kStep{DiffTable::kFunctions, "step", "train.py", false};

HistoryRun run_of(std::size_t day, double elapsed_s, double step_s, const std::string& commit = "") {
  HistoryRun run;
  run.name = "run-" + std::to_string(day);
  run.id = "id-" + std::to_string(day);
  run.command = {"python3", "train.py"};
  run.start_utc_ns = (20'000 + static_cast<std::int64_t>(day)) * kDay_ns;
  run.ranks = 4, run.nodes = 1;
  run.elapsed_s = elapsed_s;
  run.complete = true;
  run.efficiency.parallel = 0.75;
  if (!commit.empty()) run.settings.push_back({shard::SettingKind::kCommit, "code", commit});
  run.metrics = {{kElapsed, elapsed_s}, {kStep, step_s}};
  return run;
}

// step() is slower from the seventh of twelve days on, by a commit and a variable.
std::vector<HistoryRun> slower() {
  std::vector<HistoryRun> runs;
  for (std::size_t day = 1; day <= 12; ++day) {
    const double wobble = 0.01 * static_cast<double>(day % 3);
    const bool late = day > 6;
    runs.push_back(run_of(day, (late ? 11 : 10) + wobble, (late ? 5 : 4) + wobble, late ? "bbbb" : "aaaa"));
    runs.back().settings.push_back({shard::SettingKind::kVariable, "OMP_NUM_THREADS", late ? "2" : "4"});
  }
  return runs;
}

TEST(History, NamesWhatChangedAndWithWhat) {
  std::vector<HistoryRun> runs = slower();
  std::swap(runs[0], runs[9]);  // in any order
  const History history = report::history(runs);
  ASSERT_EQ(history.series.size(), 1u);
  const HistorySeries& series = history.series[0];
  ASSERT_EQ(series.runs.size(), 12u);
  EXPECT_EQ(series.runs[0].name, "run-1");
  ASSERT_EQ(series.changes.size(), 2u);
  EXPECT_EQ(series.changes[0].metric, kElapsed) << "the run's own first";
  EXPECT_EQ(series.changes[1].metric, kStep);
  for (const HistoryChange& change : series.changes) {
    EXPECT_EQ(change.run, 6u);
    EXPECT_EQ(change.commit, "bbbb");
    ASSERT_EQ(change.settings.size(), 2u);
    EXPECT_EQ(change.settings[0].kind, shard::SettingKind::kCommit);
    EXPECT_EQ(change.settings[1].name, "OMP_NUM_THREADS");
    EXPECT_EQ(change.settings[1].before, "4");
    EXPECT_EQ(change.settings[1].after, "2");
  }
  TextOptions options;
  options.width = 160;
  const std::string text = render_history_text(history, options);
  EXPECT_NE(text.find("since 2024-10-1"), std::string::npos) << text;
  EXPECT_NE(text.find("step train.py: 4.01 s -> 5.01 s (+24.9 %), commit bbbb, OMP_NUM_THREADS 4 -> 2"),
            std::string::npos)
      << text;
  std::string json;
  render_history_json(history, [&](std::string_view piece) { json += piece; });
  const Json document = Json::parse(json);
  EXPECT_EQ(document["schema"], "clusterprof.history/1");
  EXPECT_EQ(document["runs"].size(), 12u);
  EXPECT_EQ(document["runs"][11]["commit"], "bbbb");
  EXPECT_EQ(document["changes"][1]["metric"], "function:step");
  EXPECT_EQ(document["changes"][1]["commit"], "bbbb");
  EXPECT_NEAR(document["changes"][1]["after"].get<double>(), 5.01, 1e-9);
  EXPECT_EQ(document["changes"][1]["at"], document["runs"][6]["start_utc"]);
  const std::string page = render_history_html(history);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST(History, SeriesAreOfOneCommandOnOneNumberOfRanks) {
  std::vector<HistoryRun> runs = {run_of(1, 1, 1), run_of(2, 1, 1), run_of(3, 1, 1), run_of(4, 1, 1)};
  runs[1].ranks = 8;
  runs[3].command.emplace_back("--fast");
  runs.emplace_back().name = "broken";
  runs.back().error = "damaged";
  const History history = report::history(runs);
  ASSERT_EQ(history.series.size(), 3u);
  EXPECT_EQ(history.series[0].ranks, 8u);
  EXPECT_EQ(history.series[1].runs.size(), 2u);
  EXPECT_EQ(history.series[2].runs[0].name, "run-4") << "that with the newest run is the last";
  ASSERT_EQ(history.damaged.size(), 1u);
  EXPECT_NE(render_history_text(history, {}).find("broken: damaged"), std::string::npos);
}

TEST(History, IncompleteRunsAreShownAndDoNotCount) {
  std::vector<HistoryRun> runs = slower();
  for (std::size_t i = 6; i < runs.size(); ++i) runs[i].complete = false;
  const History history = report::history(runs);
  EXPECT_EQ(history.series[0].runs.size(), 12u);
  EXPECT_TRUE(history.series[0].changes.empty());
}

// A run with step(): `ms` of it on each of two ranks.
RunFacts facts_with(std::uint64_t ms, const std::string& name) {
  ProfileBuilder b(2);
  const auto step =
      b.path({b.python("<module>", "/home/a/train.py", 90, 1), b.python("step", "/home/a/train.py", 13, 10)});
  for (std::uint32_t r = 0; r < 2; ++r) b.sampled(r, step, Category::kPython, ms);
  b.lasts(ms);
  b.data.run.id = name;
  return facts_of(analyse(b.data), name);
}

TEST(History, KeepsOfARunWhatIsFollowed) {
  ProfileBuilder b(2);
  const auto step =
      b.path({b.python("<module>", "/home/a/train.py", 90, 1), b.python("step", "/home/a/train.py", 13, 10)});
  b.sampled(0, step, Category::kPython, 3000);
  b.sampled(1, step, Category::kPython, 1000);
  b.lasts(3000);
  b.data.ranks[1].elapsed_ns = 1'000'000'000;
  b.data.settings = {{shard::SettingKind::kCommit, "code", "abc"}};
  const HistoryRun run = history_run(analyse(b.data), "mine");
  EXPECT_EQ(run.name, "mine");
  EXPECT_EQ(run.ranks, 2u);
  EXPECT_NEAR(run.elapsed_s, 3, 1e-6);
  EXPECT_EQ(run.commit(), "abc");
  double step_s = 0, elapsed_s = 0;
  for (const auto& [metric, value] : run.metrics) {
    if (metric == kStep) step_s = value;
    if (metric == kElapsed) elapsed_s = value;
  }
  EXPECT_NEAR(step_s, 2, 0.01) << "of a rank";
  EXPECT_NEAR(elapsed_s, 3, 1e-6);
}

std::optional<Judgement> judged(double a_ms, double b_ms, const Noise& noise, const std::string& expression) {
  const Diff diff = compare({facts_with(static_cast<std::uint64_t>(a_ms), "a")},
                            {facts_with(static_cast<std::uint64_t>(b_ms), "b")}, noise);
  const std::vector<Judgement> judgements = judge(diff, parse_conditions(expression).value(), false);
  return judgements.size() == 1 ? std::optional(judgements[0]) : std::nullopt;
}

TEST(History, ARegressionIsMoreThanNoise) {
  const Noise noise = {{DiffTable::kRun, "elapsed", "", "value", 0.02, 20},
                       {DiffTable::kFunctions, "step", "train.py", "self_s", 0.02, 20}};
  // t(20) × 2 % × √2 = 5.9 % of the mean of both sides
  for (const char* metric : {"elapsed", "function:step"}) {
    const std::string regressed = std::string(metric) + " regressed";
    EXPECT_EQ(judged(1000, 1055, noise, regressed)->holds, false) << metric;
    EXPECT_TRUE(judged(1000, 1055, noise, regressed)->within_noise) << metric;
    EXPECT_EQ(judged(1000, 1065, noise, regressed)->holds, true) << metric;
    EXPECT_EQ(judged(1065, 1000, noise, regressed)->holds, false) << "it is better";
    EXPECT_EQ(judged(1000, 1065, noise, regressed + " by 10%")->holds, false) << metric;
    EXPECT_EQ(judged(1000, 1200, noise, regressed + " by 10%")->holds, true) << metric;
  }
  EXPECT_TRUE(judged(1000, 1065, noise, "elapsed regressed")->comparison.by_history);
  // Runs that do not vary at all: a little more is no regression, unless that is asked for.
  const Noise none = {{DiffTable::kRun, "elapsed", "", "value", 0, 4}};
  EXPECT_EQ(judged(1000, 1010, none, "elapsed regressed")->holds, false);
  EXPECT_FALSE(judged(1000, 1010, none, "elapsed regressed")->undecided);
  EXPECT_EQ(judged(1000, 1010, none, "elapsed regressed by 0.5%")->holds, true);
  EXPECT_EQ(judged(1000, 1030, none, "elapsed regressed")->holds, true);
  // Without a history nothing is known about single runs.
  EXPECT_EQ(judged(1000, 2000, {}, "elapsed regressed")->holds, false);
  EXPECT_TRUE(judged(1000, 2000, {}, "elapsed regressed")->undecided);
  // The old forms take the history, too.
  EXPECT_EQ(judged(1000, 1055, noise, "elapsed>+5%")->holds, false);
  EXPECT_EQ(judged(1000, 1065, noise, "elapsed>+5%")->holds, true);
}

// t(20) of 2.5 % for each of two, which is 2.42: 6.9 % of the mean of both sides.
TEST(History, RegressionsOfSeveralConditionsAreOfAllTogether) {
  const Noise noise = {{DiffTable::kRun, "elapsed", "", "value", 0.02, 20},
                       {DiffTable::kFunctions, "step", "train.py", "self_s", 0.02, 20}};
  const auto both = [&](std::uint64_t b_ms, const char* expression) {
    const Diff diff = compare({facts_with(1000, "a")}, {facts_with(b_ms, "b")}, noise);
    return judge(diff, parse_conditions(expression).value(), false);
  };
  for (const Judgement& one : both(1065, "elapsed regressed or function:step regressed")) {
    EXPECT_EQ(one.holds, false);
    EXPECT_TRUE(one.within_noise);
    EXPECT_NEAR(*one.comparison.half_width / one.comparison.a->mean, 2.4231 * 0.02 * 1.0325 * std::sqrt(2.0),
                1e-5);
  }
  for (const Judgement& one : both(1075, "elapsed regressed or function:step regressed"))
    EXPECT_EQ(one.holds, true);
  EXPECT_EQ(both(1065, "elapsed regressed or elapsed>1h")[0].holds, true) << "a level is no test";
}

TEST(History, RegressionsAreParsed) {
  const auto conditions =
      parse_conditions("elapsed regressed, function:step regressed by 3.5% or total:a b regressed");
  ASSERT_TRUE(conditions);
  ASSERT_EQ(conditions.value().size(), 3u);
  EXPECT_EQ(conditions.value()[0].text, "elapsed regressed");
  EXPECT_NEAR(conditions.value()[0].value, 0.02, 1e-12);
  EXPECT_EQ(conditions.value()[1].name, "step");
  EXPECT_NEAR(conditions.value()[1].value, 0.035, 1e-12);
  EXPECT_EQ(conditions.value()[2].name, "a b");
  EXPECT_TRUE(parse_conditions("runnable regressed or runnable>1s")) << "as documented";
  for (const char* wrong : {"elapsed regressed by", "elapsed regressed by x%", "elapsed regressed by 3",
                            "elapsed regressed by -3%", "read regressed", "counter:x regressed", "regressed"})
    EXPECT_FALSE(parse_conditions(wrong)) << wrong;
}

// docs/diff.md states it.
TEST(History, FalseAlarmsOfRegressions) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  const auto value = [&] { return 1 + 0.03 * normal(random); };
  constexpr int kDraws = 4000;
  int alarms = 0;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<double> earlier(12);
    for (double& one : earlier) one = value();
    const auto noise = noise_of(earlier, find_change_points(earlier));
    ASSERT_TRUE(noise);
    const double a = earlier.back(), b = value();
    const double half_width =
        student_quantile(noise->freedom) * noise->deviation * (a + b) / 2 * std::sqrt(2.0);
    alarms += b - a > half_width ? 1 : 0;
  }
  EXPECT_GT(alarms, kDraws * 0.015);
  EXPECT_LT(alarms, kDraws * 0.04);
}

// docs/ci.md states it, of all conditions of a command together.
TEST(History, FalseAlarmsOfSeveralRegressions) {
  std::mt19937_64 random(6);
  std::normal_distribution<double> normal;
  const auto ms = [&](double mean) {
    return static_cast<std::uint64_t>(std::lround(mean * (1 + 0.03 * normal(random))));
  };
  const auto facts = [&](const std::string& name) {
    RunFacts run;
    run.name = name;
    run.ranks = 1;
    for (int f = 0; f < 5; ++f) {
      Subject subject;
      subject.name = "f" + std::to_string(f);
      run.rows.push_back(
          {DiffTable::kFunctions,
           subject,
           {{"self_s", Unit::kSeconds, Better::kLower, true, true, 0.001 * static_cast<double>(ms(1e6))}}});
    }
    return run;
  };
  Noise noise;
  for (int f = 0; f < 5; ++f)
    noise.push_back({DiffTable::kFunctions, "f" + std::to_string(f), "", "self_s", 0.03, 1000});
  const auto conditions = parse_conditions(
      "function:f0 regressed, function:f1 regressed, function:f2 regressed, function:f3 regressed, "
      "function:f4 regressed");
  ASSERT_TRUE(conditions);
  constexpr int kDraws = 4000;
  int alarms = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Diff diff = compare({facts("a")}, {facts("b")}, noise);
    const std::vector<Judgement> judgements = judge(diff, conditions.value(), false);
    ASSERT_EQ(judgements.size(), 5u);
    alarms +=
        std::any_of(judgements.begin(), judgements.end(), [](const Judgement& one) { return *one.holds; })
            ? 1
            : 0;
  }
  EXPECT_GT(alarms, kDraws * 0.012);
  EXPECT_LT(alarms, kDraws * 0.033) << "each for itself would be 12 %";
}

TEST(History, JudgementsForCi) {
  const Noise noise = {{DiffTable::kFunctions, "step", "train.py", "self_s", 0.02, 20}};
  const Judgement bad = *judged(1000, 1200, noise, "function:step regressed");
  const Judgement undecided = *judged(1000, 1200, {}, "elapsed regressed");
  const Judgement good = *judged(1000, 1000, noise, "elapsed>+5%");
  const std::string github = render_github({bad, undecided, good}, "/home/a");
  EXPECT_TRUE(github.starts_with("::error file=train.py,line=")) << github;
  EXPECT_NE(github.find("\n::warning title="), std::string::npos) << github;
  EXPECT_NE(github.find("\n::notice title="), std::string::npos) << github;
  EXPECT_NE(github.find("20.0 %25"), std::string::npos) << "a per cent sign is quoted: " << github;
  const std::string junit = render_junit({bad, undecided, good});
  EXPECT_NE(junit.find("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("name=\"elapsed&gt;+5%\""), std::string::npos) << junit;
}

TEST(History, Badge) {
  HistoryRun run = run_of(1, 1, 1);
  EXPECT_NE(render_badge(run).find(">75 %<"), std::string::npos);
  run.efficiency.parallel.reset();
  EXPECT_NE(render_badge(run).find(">unknown<"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
