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
#include "report/diff/diff_format.hpp"
#include "report/history/history_format.hpp"

namespace clusterprof::report {
namespace {

using Json = nlohmann::json;
using shard::Category;
using testing::ProfileBuilder;

constexpr std::int64_t kDay_ns = std::int64_t{86'400} * 1'000'000'000;
const FollowedMetric kElapsed{FollowedKind::kRun, "elapsed", ""};
const FollowedMetric kStep{FollowedKind::kSelf, "step", "train.py"};

HistoryRun run_of(std::size_t day, double elapsed_s, double step_s, const std::string& commit = "") {
  HistoryRun run;
  run.name = "run-" + std::to_string(day);
  run.id = "id-" + std::to_string(day);
  run.command = {"python3", "train.py"};
  run.start_utc_ns = (20'000 + static_cast<std::int64_t>(day)) * kDay_ns;
  run.ranks = 4, run.nodes = 1;
  run.elapsed_s = elapsed_s;
  run.complete = run.has_functions = true;
  run.seen_findings.set();
  run.version = "0.2.0";
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
  EXPECT_NE(text.find("elapsed: 10.0 s -> 11.0 s (+10.0 %), along with step train.py +1.00 s, commit bbbb"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("step train.py: 4.01 s -> 5.01 s (+24.9 %), commit bbbb, OMP_NUM_THREADS 4 -> 2"),
            std::string::npos)
      << text;
  std::string json;
  render_history_json(history, [&](std::string_view piece) { json += piece; });
  const Json document = Json::parse(json);
  EXPECT_EQ(document["schema"], "clusterprof.history/1");
  EXPECT_EQ(document["runs"].size(), 12u);
  EXPECT_EQ(document["runs"][11]["commit"], "bbbb");
  EXPECT_EQ(document["false_alarm"], 0.01);
  ASSERT_EQ(document["changes"][0]["functions"].size(), 1u);
  EXPECT_EQ(document["changes"][0]["functions"][0]["metric"], "function:step");
  EXPECT_NEAR(document["changes"][0]["functions"][0]["after"].get<double>(), 5.01, 1e-9);
  EXPECT_TRUE(document["changes"][1]["functions"].empty());
  ASSERT_EQ(document["numbers"].size(), 2u);
  EXPECT_EQ(document["numbers"][1]["metric"], "function:step");
  EXPECT_EQ(document["numbers"][1]["values"].size(), 12u);
  EXPECT_NEAR(document["numbers"][1]["values"][0].get<double>(), 4.01, 1e-9);
  EXPECT_EQ(document["changes"][1]["metric"], "function:step");
  EXPECT_EQ(document["changes"][1]["commit"], "bbbb");
  EXPECT_NEAR(document["changes"][1]["after"].get<double>(), 5.01, 1e-9);
  EXPECT_EQ(document["changes"][1]["at"], document["runs"][6]["start_utc"]);
  const std::string page = render_history_html(history);
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_NE(page.find("Self time of functions"), std::string::npos);
}

// The first run with the new commit did not end. The change is between those before and behind it.
TEST(History, ACommitIsAsBeforeIfTheRunThatIsComparedHadIt) {
  const auto said = [](std::vector<HistoryRun> runs) {
    const History of = report::history(std::move(runs));
    EXPECT_FALSE(of.series.at(0).changes.empty());
    return change_text(of.series.at(0), of.series.at(0).changes.at(0));
  };
  std::vector<HistoryRun> runs = slower();
  runs.push_back(run_of(6, 3, 1, "bbbb"));
  runs.back().name += "-killed";
  runs.back().complete = false;
  EXPECT_EQ(said(runs).find("as before"), std::string::npos) << said(runs);
  EXPECT_NE(said(runs).find("commit bbbb"), std::string::npos) << said(runs);
  for (HistoryRun& run : runs) run.settings.at(0).value = "aaaa";
  EXPECT_NE(said(runs).find("commit aaaa as before"), std::string::npos) << said(runs);
  runs.back().settings.at(0).value = "bbbb";
  EXPECT_NE(said(runs).find("commit aaaa as before"), std::string::npos) << said(runs);
}

const FollowedNumber* number_of(const HistorySeries& series, const FollowedMetric& metric) {
  for (const FollowedNumber& number : series.numbers)
    if (number.metric == metric) return &number;
  return nullptr;
}

// Twelve runs of about 10 s, of which `before` and `after` are further numbers of the first and the last six.
using Metrics = std::vector<std::pair<FollowedMetric, double>>;
HistorySeries twelve(const Metrics& before, const Metrics& after, double elapsed_after = 10) {
  std::vector<HistoryRun> runs;
  for (std::size_t day = 1; day <= 12; ++day) {
    const double wobble = 1 + 0.001 * static_cast<double>(day % 3);
    runs.push_back(run_of(day, (day > 6 ? elapsed_after : 10) * wobble, 4 * wobble));
    for (const auto& [metric, value] : day > 6 ? after : before)
      runs.back().metrics.emplace_back(metric, value * wobble);
  }
  return history(std::move(runs)).series.front();
}

TEST(History, FunctionsChangeWithoutTheRun) {
  const FollowedMetric slower{FollowedKind::kSelf, "slower", "a.c"},
      faster{FollowedKind::kSelf, "faster", "a.c"};
  const HistorySeries series = twelve({{slower, 1}, {faster, 2}}, {{slower, 2}, {faster, 1}});
  ASSERT_EQ(series.changes.size(), 2u);
  for (const HistoryChange& change : series.changes) {
    EXPECT_EQ(change.run, 6u);
    EXPECT_TRUE(change.metric == slower || change.metric == faster);
  }
}

TEST(History, FunctionsThatComeAndGoAreChanges) {
  const FollowedMetric comes{FollowedKind::kSelf, "comes", "a.c"}, goes{FollowedKind::kTotal, "goes", "a.c"};
  const HistorySeries series = twelve({{goes, 2}}, {{comes, 1}});
  ASSERT_EQ(series.changes.size(), 2u);
  for (const HistoryChange& change : series.changes) {
    EXPECT_EQ(change.run, 6u);
    EXPECT_NEAR(change.metric == comes ? change.point.after : change.point.before,
                change.metric == comes ? 1 : 2, 0.01);
    EXPECT_NEAR(change.metric == comes ? change.point.before : change.point.after, 0, 1e-9);
  }
  // Of runs without samples nothing is known.
  std::vector<HistoryRun> runs;
  for (std::size_t day = 1; day <= 12; ++day) {
    runs.push_back(run_of(day, 10 + 0.01 * static_cast<double>(day % 3), 4));
    if (day > 6) continue;
    runs.back().has_functions = false;
    runs.back().metrics.resize(1);
  }
  const HistorySeries partly = history(std::move(runs)).series.front();
  ASSERT_NE(number_of(partly, kStep), nullptr);
  EXPECT_EQ(number_of(partly, kStep)->values.size(), 6u);
  EXPECT_TRUE(partly.changes.empty());
}

// What is not among the largest may have as much as the smallest of them.
TEST(History, FunctionsThatAreNotKeptAreNotZero) {
  const FollowedMetric comes{FollowedKind::kSelf, "comes", "a.c"};
  Metrics many;
  for (std::size_t f = 1; f < kMostSelf; ++f)
    many.push_back({{FollowedKind::kSelf, "f" + std::to_string(f), "a.c"}, 0.2});
  Metrics after = many;
  after.back() = {comes, 0.25};
  const HistorySeries series = twelve(many, after);
  const FollowedNumber* const number = number_of(series, comes);
  ASSERT_NE(number, nullptr);
  EXPECT_NEAR(number->values.front(), 0.2, 0.001);
  EXPECT_NEAR(number->values.back(), 0.25, 0.001);
}

// Each run may have others, so that a long series has any number of them.
TEST(History, ABoundedNumberOfFunctionsIsFollowed) {
  const auto of = [](FollowedKind kind, std::size_t f) {
    return FollowedMetric{kind, "f" + std::to_string(1000 + f), "a.c"};
  };
  Metrics many;
  for (std::size_t f = 0; f < kMostFollowed + 20; ++f) {
    many.push_back({of(FollowedKind::kSelf, f), 0.2 + 0.001 * static_cast<double>(f)});
    many.push_back({of(FollowedKind::kTotal, f), 0.5});
  }
  const HistorySeries series = twelve(many, many);
  std::size_t self = 0, total = 0;
  double of_functions = 0;
  for (const FollowedNumber& number : series.numbers) {
    self += number.metric.kind == FollowedKind::kSelf ? 1 : 0;
    total += number.metric.kind == FollowedKind::kTotal ? 1 : 0;
    if (is_function(number.metric)) of_functions += number.test.false_alarm;
  }
  EXPECT_EQ(self, kMostFollowed);
  EXPECT_EQ(total, kMostFollowed);
  EXPECT_EQ(series.left_out, 41u) << "step() is one more";
  EXPECT_EQ(number_of(series, of(FollowedKind::kSelf, 0)), nullptr) << "the least";
  EXPECT_NE(number_of(series, of(FollowedKind::kSelf, kMostFollowed + 19)), nullptr);
  EXPECT_NEAR(of_functions, kFalseAlarm / 2 * 200 / 241, 1e-9) << "as if all were followed";
  EXPECT_TRUE(std::is_sorted(series.numbers.begin(), series.numbers.end(),
                             [](const auto& a, const auto& b) { return a.metric < b.metric; }));
  const std::string said =
      "Of functions only the 100 largest self times and the 100 largest total times are followed; 41 are "
      "not.";
  TextOptions options;
  options.width = 160;
  EXPECT_NE(render_history_text({{series}, {}}, options).find(said), std::string::npos);
  EXPECT_NE(render_history_html({{series}, {}}).find(said), std::string::npos);
  std::string json;
  render_history_json({{series}, {}}, [&](std::string_view piece) { json += piece; });
  EXPECT_EQ(Json::parse(json)["series"][0]["left_out"], 41);
  EXPECT_EQ(render_history_text({{twelve({}, {})}, {}}, options).find("are followed"), std::string::npos);
}

TEST(History, SmallFunctionsAndCallersOfEverythingAreNotFollowed) {
  const FollowedMetric small{FollowedKind::kSelf, "small", "a.c"}, main{FollowedKind::kTotal, "main", "a.c"};
  const HistorySeries series = twelve({{small, 0.05}, {main, 9.5}}, {{small, 0.09}, {main, 9.9}});
  EXPECT_EQ(number_of(series, small), nullptr) << "below 1 %";
  EXPECT_EQ(number_of(series, main), nullptr);
  EXPECT_NE(number_of(series, kStep), nullptr);
}

// A run of 10 s with a deep stack: work() calls functions of which each has nearly all of its time. It has
// `ms`, and the rest is rest()'s.
HistoryRun deep_run(std::size_t day, std::uint64_t ms) {
  ProfileBuilder b(1);
  std::uint32_t at = b.path({b.python("work", "/home/a/train.py", 5, 1)});
  for (std::size_t f = 0; f < 15; ++f)
    at = b.child(at, b.python("inner" + std::to_string(f), "/home/a/train.py", 20, 10));
  b.sampled(0, at, Category::kPython, ms + day % 3 * 10);
  b.sampled(0, b.path({b.python("rest", "/home/a/train.py", 90, 80)}), Category::kPython, 10'000 - ms);
  b.lasts(10'000 + day % 3 * 10);
  b.data.run.start_utc_ns += static_cast<std::int64_t>(day) * kDay_ns;
  return history_run(analyse(b.data), "run-" + std::to_string(day));
}

// The functions that call nearly everything are many, and not all of them are kept.
TEST(History, FunctionsThatGrowToNearlyAllAreNotGone) {
  const FollowedMetric work{FollowedKind::kTotal, "work", "train.py"};
  std::vector<HistoryRun> runs;
  for (std::size_t day = 1; day <= 12; ++day) runs.push_back(deep_run(day, day > 6 ? 9500 : 5000));
  const HistorySeries series = history(runs).series.front();
  ASSERT_EQ(series.runs.size(), 12u);
  const auto is_kept = [&](const HistoryRun& run) {
    return std::any_of(run.metrics.begin(), run.metrics.end(),
                       [&](const auto& metric) { return metric.first == work; });
  };
  ASSERT_TRUE(is_kept(series.runs.front()));
  ASSERT_FALSE(is_kept(series.runs.back())) << "callers of less are smaller";
  EXPECT_EQ(series.runs.front().more_callers.size(), 0u);
  EXPECT_EQ(series.runs.back().more_callers.size(), 16 - kMostCallers);
  ASSERT_NE(number_of(series, work), nullptr);
  EXPECT_EQ(number_of(series, work)->values.size(), 6u) << "later, what it has is not known";
  for (const HistoryChange& change : series.changes) EXPECT_NE(change.metric, work);
  // Where it is really gone, that is told.
  for (std::size_t day = 6; day < 12; ++day) {
    runs[day] = deep_run(day + 1, 9500);
    std::erase(runs[day].more_callers, hash_of(work));
  }
  bool is_gone = false;
  const History with_a_gone_one = history(runs);
  for (const HistoryChange& change : with_a_gone_one.series.front().changes)
    is_gone = is_gone || (change.metric == work && std::abs(change.point.after) < 1e-9);
  EXPECT_TRUE(is_gone);
}

// Times of functions are sums over threads, so shares are of the time of all threads.
TEST(History, SharesAreOfTheTimeOfAllThreads) {
  ProfileBuilder b(1);
  const auto loop = b.path({b.native("loop", "/u/a.out", "/u/a.c", 5)});
  const auto other = b.path({b.native("other", "/u/a.out", "/u/a.c", 9)});
  for (const bool is_main : {true, false, false, false}) {
    b.sampled(0, loop, Category::kNative, 3000, is_main);
    b.sampled(0, other, Category::kNative, 7000, is_main);
  }
  b.lasts(10'000);
  const HistoryRun run = history_run(analyse(b.data), "mine");
  EXPECT_NEAR(run.threads_s, 40, 0.01) << "four threads of 10 s";
  std::vector<HistoryRun> runs(4, run);
  for (std::size_t r = 0; r < runs.size(); ++r)
    runs[r].start_utc_ns += static_cast<std::int64_t>(r) * kDay_ns;
  const HistorySeries series = history(runs).series.front();
  const FollowedMetric followed{FollowedKind::kTotal, "loop", "a.c"};
  ASSERT_NE(number_of(series, followed), nullptr) << "12 s of 40 s are not nearly all of 10 s";
  EXPECT_NEAR(number_of(series, followed)->values[0], 12, 0.01);
  // One in a thousand threads, with 3 % of the run's length, is far below 1 % of what they do.
  for (HistoryRun& each : runs) {
    each.threads_s = 10'000;
    each.metrics.push_back({{FollowedKind::kSelf, "small", "a.c"}, 0.3});
  }
  EXPECT_EQ(number_of(history(runs).series.front(), {FollowedKind::kSelf, "small", "a.c"}), nullptr);
}

// Nine threads take 2 s longer each, as the run does. What takes 2 s longer in all of them together is not
// why.
TEST(History, WhatExplainsAChangeIsComparedWithAllThreads) {
  const FollowedMetric shared{FollowedKind::kTotal, "shared", "a.c"},
      everywhere{FollowedKind::kTotal, "everywhere", "a.c"};
  std::vector<HistoryRun> runs;
  for (std::size_t day = 1; day <= 12; ++day) {
    const bool is_late = day > 6;
    const double wobble = 1 + 0.001 * static_cast<double>(day % 3);
    runs.push_back(run_of(day, (is_late ? 12 : 10) * wobble, 4));
    runs.back().threads_s = (is_late ? 118 : 100) * wobble;
    runs.back().metrics.push_back({shared, (is_late ? 6 : 4) * wobble});
    runs.back().metrics.push_back({everywhere, (is_late ? 50 : 32) * wobble});
  }
  const HistorySeries series = history(std::move(runs)).series.front();
  ASSERT_EQ(series.changes[0].metric, kElapsed);
  ASSERT_EQ(series.changes[0].functions.size(), 1u);
  EXPECT_EQ(series.changes[0].functions[0].metric, everywhere);
}

TEST(History, FindingsOfRunsThatCannotHaveThemAreNotZero) {
  const FollowedMetric finding{FollowedKind::kFinding, "memory_imbalance", ""};
  const auto series_of = [&](const auto& earlier) {
    std::vector<HistoryRun> runs;
    for (std::size_t day = 1; day <= 12; ++day) {
      runs.push_back(run_of(day, 10, 4));
      if (day > 6)
        runs.back().metrics.emplace_back(finding, 0.2);
      else
        earlier(runs.back());
    }
    return std::move(history(std::move(runs)).series.front());
  };
  EXPECT_EQ(series_of([](HistoryRun&) {}).changes.size(), 1u) << "it has come";
  const HistorySeries unseen = series_of([](HistoryRun& run) {
    run.seen_findings[static_cast<std::size_t>(FindingKind::kMemoryImbalance)] = false;
  });
  EXPECT_TRUE(unseen.changes.empty()) << "recorded without --memory";
  EXPECT_EQ(number_of(unseen, finding)->values.size(), 6u);
  for (const char* version : {"0.1.9", "", "unknown"})
    EXPECT_TRUE(series_of([&](HistoryRun& run) { run.version = version; }).changes.empty()) << version;
  EXPECT_EQ(series_of([](HistoryRun& run) { run.version = "0.10.0"; }).changes.size(), 1u) << "it is newer";
  EXPECT_EQ(version_numbers("0.10.2"), (std::vector<std::uint64_t>{0, 10, 2}));
  EXPECT_EQ(version_numbers("1.2-rc3"), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_TRUE(version_numbers("synthetic").empty());
}

TEST(History, WhichFindingsARunWouldShow) {
  const auto seen = [](const Analysis& analysis, FindingKind kind) {
    return bool{seen_findings(analysis)[static_cast<std::size_t>(kind)]};
  };
  Analysis sampled = analyse(testing::training_run());
  EXPECT_FALSE(seen(sampled, FindingKind::kDelay)) << "without MPI events";
  EXPECT_FALSE(seen(sampled, FindingKind::kMemoryImbalance)) << "without --memory";
  EXPECT_EQ(history_run(sampled, "mine").seen_findings, seen_findings(sampled));
  EXPECT_EQ(history_run(sampled, "mine").version, "0.1.0");
  sampled.findings.clear();
  EXPECT_TRUE(seen(sampled, FindingKind::kImports));
  EXPECT_TRUE(seen(sampled, FindingKind::kFileIo));
  EXPECT_TRUE(seen(sampled, FindingKind::kMpiTime));
  sampled.memory.emplace();
  EXPECT_TRUE(seen(sampled, FindingKind::kMemoryImbalance));
  sampled.run.samples = 0;
  EXPECT_FALSE(seen(sampled, FindingKind::kFileIo));

  Analysis waits = analyse(testing::delayed_run());
  waits.findings.clear();
  EXPECT_TRUE(seen(waits, FindingKind::kDelay));
  EXPECT_FALSE(seen(waits, FindingKind::kMpiTime)) << "told by its causes";
  const auto show = [&](FindingKind kind, std::size_t number = 1) {
    waits.findings.assign(number, Finding{});
    for (Finding& finding : waits.findings) finding.kind = kind;
  };
  show(FindingKind::kDelay);
  EXPECT_FALSE(seen(waits, FindingKind::kLoadImbalance)) << "the delay may explain it";
  EXPECT_TRUE(seen(waits, FindingKind::kDelay)) << "there would be others";
  show(FindingKind::kDelay, thresholds::kMaxDelays);
  EXPECT_FALSE(seen(waits, FindingKind::kDelay)) << "there may be more";
  show(FindingKind::kImports);
  EXPECT_TRUE(seen(waits, FindingKind::kFileIo));
  waits.findings[0].joined.emplace_back().kind = FindingKind::kFileIo;
  EXPECT_FALSE(seen(waits, FindingKind::kFileIo));
  show(FindingKind::kImports, thresholds::kMaxFindings);
  for (Finding& finding : waits.findings) finding.severity = Severity::kLow;
  EXPECT_TRUE(seen_findings(waits).none()) << "some may be left out";
  waits.findings.back().severity = Severity::kInfo;
  EXPECT_TRUE(seen(waits, FindingKind::kMutualWaiting));
}

TEST(History, FindingsAreFollowed) {
  const FollowedMetric finding{FollowedKind::kFinding, "delay exchange", "solver.c"};
  HistorySeries series = twelve({}, {{finding, 0.2}});
  ASSERT_EQ(series.changes.size(), 1u);
  EXPECT_EQ(series.changes[0].metric, finding);
  EXPECT_EQ(series.changes[0].point.before, 0);
  EXPECT_EQ(condition_name(finding), "finding:delay exchange");
  EXPECT_NE(render_history_text({{series}, {}}, {}).find("finding delay exchange solver.c: 0.0 % -> 20.0 %"),
            std::string::npos)
      << render_history_text({{series}, {}}, {});
  // It comes and goes with little.
  EXPECT_TRUE(twelve({}, {{finding, 0.015}}).changes.empty());
}

TEST(History, NamesTheFunctionsOfAChangeOfTheRun) {
  const FollowedMetric most{FollowedKind::kSelf, "sleep", "libc.so"},
      some{FollowedKind::kSelf, "some", "a.c"}, less{FollowedKind::kSelf, "less", "a.c"},
      work{FollowedKind::kTotal, "work", "a.py"}, outer{FollowedKind::kTotal, "outer", "a.py"};
  const HistorySeries series = twelve({{most, 1}, {some, 0.5}, {less, 1}, {work, 1.2}, {outer, 2}},
                                      {{most, 3}, {some, 0.6}, {less, 0.8}, {work, 3.2}, {outer, 4}}, 12);
  ASSERT_FALSE(series.changes.empty());
  ASSERT_EQ(series.changes[0].metric, kElapsed);
  std::vector<FollowedMetric> named;
  for (const FunctionChange& function : series.changes[0].functions) named.push_back(function.metric);
  EXPECT_EQ(named, (std::vector<FollowedMetric>{work, most, some}))
      << "the innermost caller that explains it, and what grew by itself; not step(), which did not change";
  EXPECT_NEAR(series.changes[0].functions[1].before, 1, 0.01);
  EXPECT_NEAR(series.changes[0].functions[1].after, 3, 0.01);
  // work() calls sleep(): their times are no parts of a sum.
  EXPECT_NE(
      change_text(series, series.changes[0])
          .find(", along with work a.py with what it calls +2.00 s and sleep libc.so +2.00 s and some a.c "),
      std::string::npos)
      << change_text(series, series.changes[0]);
}

TEST(History, FunctionsWithoutFileAreNamedWithoutBlanks) {
  EXPECT_EQ(metric_text({FollowedKind::kSelf, "solve", ""}), "solve");
  EXPECT_EQ(metric_text({FollowedKind::kTotal, "solve", ""}), "solve with what it calls");
  EXPECT_EQ(metric_text({FollowedKind::kFinding, "delay solve", ""}), "finding delay solve");
  EXPECT_EQ(metric_text({FollowedKind::kTotal, "step", "train.py"}), "step train.py with what it calls");
}

// kFalseAlarm is of all numbers of a series together.
TEST(History, FalseAlarmsAreOfAllNumbersTogether) {
  const auto noisy = [](std::mt19937_64& random, std::size_t day) {
    std::normal_distribution<double> normal;
    HistoryRun run = run_of(day, 10 * (1 + 0.03 * normal(random)), 4 * (1 + 0.03 * normal(random)));
    for (int i = 0; i < 10; ++i)
      run.metrics.push_back(
          {{FollowedKind::kEfficiency, "e" + std::to_string(i), ""}, 0.8 * (1 + 0.03 * normal(random))});
    for (int i = 0; i < 20; ++i)
      run.metrics.push_back(
          {{FollowedKind::kSelf, "f" + std::to_string(i), "a.c"}, 0.2 * (1 + 0.05 * normal(random))});
    return run;
  };
  std::mt19937_64 random(8);
  constexpr int kDraws = 1500;
  int alarms = 0;
  HistorySeries series;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<HistoryRun> runs;
    for (std::size_t day = 1; day <= 12; ++day) runs.push_back(noisy(random, day));
    series = std::move(history(std::move(runs)).series.front());
    alarms += series.changes.empty() ? 0 : 1;
  }
  EXPECT_GT(alarms, 0);
  EXPECT_LE(alarms, 29) << "15 are expected at most; 32 numbers of 0.1 % each would have 45";
  double own = 0, of_functions = 0;
  for (const FollowedNumber& number : series.numbers)
    (is_function(number.metric) ? of_functions : own) += number.test.false_alarm;
  EXPECT_NEAR(own, kFalseAlarm / 2, 1e-12);
  EXPECT_NEAR(of_functions, kFalseAlarm / 2, 1e-12);
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
  EXPECT_TRUE(run.has_functions);
  EXPECT_DOUBLE_EQ(run.sample_s, 0.005) << "100 Hz, and the mean of two ranks";
  EXPECT_NEAR(elapsed_s, 3, 1e-6);
}

TEST(History, LibrariesMayHaveOtherVersions) {
  const auto function_of = [](const char* library) {
    ProfileBuilder b(1);
    b.sampled(0, b.path({b.native("solve", library)}), Category::kNative, 1000);
    b.lasts(1000);
    const HistoryRun mine = history_run(analyse(b.data), "mine");
    for (const auto& [metric, value] : mine.metrics)
      if (metric.kind == FollowedKind::kSelf) return metric;
    return FollowedMetric{};
  };
  EXPECT_EQ(function_of("/opt/libfoo.so.1.2.3"), (FollowedMetric{FollowedKind::kSelf, "solve", "libfoo.so"}));
  EXPECT_EQ(function_of("/opt/libfoo.so.1.2.3"), function_of("/opt/libfoo.so.1.2.4"));
  // How it varied is known of its new version, too.
  const auto facts = [](const char* library, std::uint64_t ms) {
    ProfileBuilder b(1);
    b.sampled(0, b.path({b.native("solve", library)}), Category::kNative, ms);
    b.lasts(ms);
    return facts_of(analyse(b.data), library);
  };
  const Diff diff = compare({facts("/opt/libfoo.so.1.2.3", 1000)}, {facts("/opt/libfoo.so.1.2.4", 1200)},
                            {{DiffTable::kFunctions, "solve", "libfoo.so", "self_s", 0.02, 20}});
  ASSERT_EQ(diff.of(DiffTable::kFunctions).size(), 1u);
  EXPECT_TRUE(diff.of(DiffTable::kFunctions)[0].values[0].all.by_history);
}

TEST(History, KeepsABoundedNumberOfFunctions) {
  ProfileBuilder b(1);
  const auto main = b.python("<module>", "/home/a/train.py", 90, 1);
  for (std::uint32_t f = 0; f < 60; ++f)
    b.sampled(0, b.path({main, b.python("f" + std::to_string(f), "/home/a/train.py", 100 + f, 100)}),
              Category::kPython, 100 + 10 * f);
  b.sampled(0, b.path({main, b.python("tiny", "/home/a/train.py", 200, 200)}), Category::kPython, 10);
  b.lasts(60 * 100 + 10 * 59 * 30 + 10);
  const HistoryRun run = history_run(analyse(b.data), "mine");
  std::size_t self = 0, total = 0;
  bool largest = false, caller = false;
  for (const auto& [metric, value] : run.metrics) {
    self += metric.kind == FollowedKind::kSelf ? 1 : 0;
    total += metric.kind == FollowedKind::kTotal ? 1 : 0;
    largest = largest || (metric.kind == FollowedKind::kSelf && metric.name == "f59");
    caller = caller || (metric.kind == FollowedKind::kTotal && metric.name == "<module>");
    EXPECT_NE(metric.name, "tiny");
    EXPECT_NE(metric.name, "f0");
  }
  EXPECT_EQ(self, kMostSelf);
  EXPECT_EQ(total, kMostTotal + 1);
  EXPECT_TRUE(largest);
  EXPECT_TRUE(caller) << "it may have less in other runs";
  EXPECT_TRUE(std::is_sorted(run.metrics.begin(), run.metrics.end()));
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
  EXPECT_EQ(judged(1000, 2000, {}, "elapsed regressed")->undecided, Undecided::kNoiseUnknown);
  EXPECT_FALSE(judged(2000, 1000, {}, "elapsed regressed")->undecided) << "it is better";
  // The old forms take the history, too.
  EXPECT_EQ(judged(1000, 1055, noise, "elapsed>+5%")->holds, false);
  EXPECT_EQ(judged(1000, 1065, noise, "elapsed>+5%")->holds, true);
}

// Samples are counted with an error that is less than runs vary by: it decides nothing.
TEST(History, ARegressionIsNotDecidedBySamplingAlone) {
  const Noise noise = {{DiffTable::kRun, "elapsed", "", "value", 0.02, 20}};
  for (const char* regressed :
       {"function:step regressed", "total:step regressed by 3%", "line:train.py:13 regressed"})
    for (const Noise& known : {Noise(), noise}) {
      const Judgement judgement = *judged(1000, 2000, known, regressed);
      EXPECT_TRUE(judgement.comparison.by_sampling);
      EXPECT_EQ(judgement.comparison.significant, true);
      EXPECT_EQ(judgement.holds, false) << regressed;
      EXPECT_EQ(judgement.undecided, Undecided::kOnlySampling) << regressed;
      EXPECT_FALSE(judgement.within_noise);
      EXPECT_NE(judgement_text(judgement).find(
                    "not decided: how much runs vary is not known, only the error of counting samples"),
                std::string::npos)
          << judgement_text(judgement);
      // Nor does it say that nothing has changed.
      EXPECT_EQ(judged(1000, 1050, known, regressed)->undecided, Undecided::kOnlySampling);
      EXPECT_FALSE(judged(2000, 1000, known, regressed)->undecided) << "it is better";
    }
  EXPECT_EQ(judged(1000, 2000, {}, "function:step>+10%")->holds, true) << "a limit that the user has set";
  const std::string junit = render_junit({*judged(1000, 2000, {}, "function:step regressed")});
  EXPECT_NE(junit.find("failures=\"0\" errors=\"0\" skipped=\"1\""), std::string::npos) << junit;
  EXPECT_NE(junit.find("only the error of counting samples"), std::string::npos) << junit;
  // What is not decided is no test: beside it, the other has all of the 5 %. t(20) of them is 2.086.
  const Diff diff = compare({facts_with(1000, "a")}, {facts_with(1065, "b")}, noise);
  const auto both =
      judge(diff, parse_conditions("elapsed regressed or function:step regressed").value(), false);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].holds, true);
  EXPECT_NEAR(*both[0].comparison.half_width / both[0].comparison.a->mean,
              2.0860 * 0.02 * 1.0325 * std::sqrt(2.0), 1e-5);
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
  Judgement odd = bad;
  odd.file = "/home/a/a:b\x1b[31m\n::error::c.py";
  EXPECT_TRUE(
      render_github({odd}, "/home/a").starts_with("::error file=a%3Ab\\x1b[31m\\x0a%3A%3Aerror%3A%3Ac.py,"))
      << "nothing that a terminal obeys";
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
