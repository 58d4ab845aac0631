// SPDX-License-Identifier: BSD-3-Clause
// What changes of the program would gain: which are worth a try, and what findings and renderers make of it.
#include "report/analysis/gains.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using testing::find_kind;
using Json = nlohmann::json;

std::vector<std::string> changes_of(const Analysis& analysis,
                                    const shard::ShardData& data = testing::training_run()) {
  std::vector<std::string> changes;
  for (const GainCandidate& candidate : gain_candidates(analysis, FunctionNames(data)))
    changes.push_back(candidate.change);
  return changes;
}

void add_function(shard::ShardData& data, const char* name, const char* file) {
  shard::PathInterner interner(data);
  shard::Frame frame;
  frame.name = interner.string(name), frame.file = interner.string(file);
  interner.frame(frame);
}

profile::PredictedGain predicted(std::string change, double gain_s, double error_s = 0.1) {
  profile::PredictedGain row;
  row.change = std::move(change);
  row.gain_s = gain_s, row.predicted_s = 10 - gain_s, row.error_s = error_s;
  return row;
}

profile::Gains gains(std::vector<profile::PredictedGain> rows) {
  profile::Gains all;
  all.elapsed_s = 10.5, all.replayed_s = 10;
  all.candidates = all.tried = static_cast<std::uint32_t>(rows.size());
  all.rows = std::move(rows);
  return all;
}

std::string text_of_gains(const Analysis& analysis) {
  TextOptions options;
  options.width = 120;
  options.sections = {"gains"};
  return render_text(analysis, options);
}

TEST(GainCandidates, ChangesOfFindingsComeFirst) {
  const Analysis a = analyse(testing::training_run());
  const std::vector<std::string> changes = changes_of(a);
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes.front(), "rank 3 = mean") << "the one rank that works longer than the mean";
  EXPECT_EQ(std::count(changes.begin(), changes.end(), "rank 3 = mean"), 1);
  EXPECT_NE(std::find(changes.begin(), changes.end(), "latency x0.5"), changes.end());
  for (const std::string& change : changes) EXPECT_EQ(change.find("<module>"), std::string::npos) << change;
}

TEST(GainCandidates, DoNotDependOnPredictions) {
  Analysis a = analyse(testing::training_run());
  std::vector<std::string> before = changes_of(a);
  apply_gains(a, gains({predicted("io x0", 4), predicted("rank 3 = mean", 0.01)}));
  std::vector<std::string> after = changes_of(a);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  EXPECT_EQ(before, after);
}

TEST(GainCandidates, AFunctionOfSeveralFilesIsNone) {
  const auto has = [](const std::vector<std::string>& changes, const std::string& part) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const std::string& change) { return change.find(part) != std::string::npos; });
  };
  Analysis a = analyse(testing::training_run());
  FunctionRow row;
  row.kind = shard::FrameKind::kNative;
  row.name = "solve", row.file = "/src/solve.c";
  row.active_self_s = row.active_total_s = 5;
  a.functions.push_back(row);
  shard::ShardData data = testing::training_run();
  add_function(data, "solve", "/src/solve.c");
  EXPECT_TRUE(has(changes_of(a, data), "function solve x0.5"));
  EXPECT_TRUE(has(changes_of(a, data), "line /home/u/examples/train.py:"));
  // No function of this view is in the other file, but the name is the same in all views.
  add_function(data, "solve", "/elsewhere/train.py");
  EXPECT_FALSE(has(changes_of(a, data), "function solve"));
  EXPECT_TRUE(has(changes_of(a, data), "line /home/u/examples/train.py:")) << "told apart from the other one";
}

// A view that folds frames may show one function of a name only, or none; what was predicted is still of that
// finding.
TEST(Gains, OfFindingsDoNotDependOnTheFunctionsOfAView) {
  Analysis a = analyse(testing::training_run());
  Finding finding;
  finding.kind = FindingKind::kDelay, finding.severity = Severity::kHigh;
  finding.rank = 3, finding.ranks = {2, 3}, finding.gain_s = 5;
  finding.place.function = "gradient";
  a.findings.push_back(finding);
  a.functions.clear();
  apply_gains(a, gains({predicted("balance function gradient", 4, 0.2)}));
  ASSERT_NE(find_kind(a, FindingKind::kDelay), nullptr);
  EXPECT_EQ(find_kind(a, FindingKind::kDelay)->change, "balance function gradient");
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kDelay)->gain_s, 4);
}

// The threads of a team wait for the last one, and so may other ranks.
TEST(Gains, OfUnequalThreadsAreThoseOfTheReplay) {
  Analysis a = analyse(testing::training_run());
  Finding finding;
  finding.kind = FindingKind::kOpenMpImbalance, finding.severity = Severity::kHigh;
  finding.rank = 1, finding.gain_s = 5;
  finding.place.function = "gradient", finding.place.file = "/home/u/examples/train.py";
  a.findings.insert(a.findings.begin(), finding);
  EXPECT_EQ(changes_of(a).front(), "balance function gradient");
  apply_gains(a, gains({predicted("balance function gradient", 4, 0.2)}));
  ASSERT_NE(find_kind(a, FindingKind::kOpenMpImbalance), nullptr);
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kOpenMpImbalance)->gain_s, 4);
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kOpenMpImbalance)->gain_error_s, 0.2);
}

// Without any input and output the run gains no less than without those of one rank, or small ones.
TEST(Gains, OfSomeInputAndOutputAreAtMostThoseOfAll) {
  for (const FindingKind kind : {FindingKind::kRankIo, FindingKind::kSmallIo}) {
    Analysis a;
    Finding& finding = a.findings.emplace_back();
    finding.kind = kind, finding.severity = Severity::kLow;
    finding.rank = 0, finding.gain_s = 5;
    apply_gains(a, gains({predicted("io x0", 6)}));
    EXPECT_EQ(a.findings[0].change, "");
    EXPECT_DOUBLE_EQ(*a.findings[0].gain_s, 5);
    apply_gains(a, gains({predicted("io x0", 1)}));
    EXPECT_EQ(a.findings[0].change, "io x0");
    EXPECT_DOUBLE_EQ(*a.findings[0].gain_s, 1);
  }
}

TEST(GainCandidates, CallsAreNamedWithTheWholePath) {
  Analysis a = analyse(testing::training_run());
  MpiCallRow call;
  call.op = "MPI_Barrier", call.file = "/src/lib/solve.c", call.line = 7, call.time_s = 10;
  a.mpi_calls.push_back(call);
  const std::vector<std::string> changes = changes_of(a);
  EXPECT_NE(std::find(changes.begin(), changes.end(), "call MPI_Barrier /src/lib/solve.c:7 removed"),
            changes.end());
}

TEST(GainCandidates, OfARankSayWhatItIsLateIn) {
  Analysis a = analyse(testing::training_run());
  const auto add_cause = [&](std::int32_t rank, const char* op, const char* function, std::uint32_t line) {
    SourceLocation place;
    place.op = op, place.function = function, place.file = "/home/u/train.py", place.line = line;
    RootCauseRow& cause = a.root_functions.emplace_back();
    cause.rank = rank, cause.place = static_cast<LocationIndex>(a.places.size());
    a.places.push_back(place);
  };
  a.root_functions.clear();
  add_cause(2, "", "other", 12);
  add_cause(3, "MPI_Send", "sends", 13);
  add_cause(3, "", std::string(shard::kRunnableName).c_str(), 0);  // no code of the program
  add_cause(3, "", "clean", 36);
  add_cause(3, "", "less", 37);
  const std::vector<GainCandidate> all = gain_candidates(a, FunctionNames(testing::training_run()));
  const auto rank_3 = std::find_if(all.begin(), all.end(), [](const GainCandidate& candidate) {
    return candidate.change == "rank 3 = mean";
  });
  ASSERT_NE(rank_3, all.end());
  EXPECT_EQ(rank_3->rank, 3);
  EXPECT_EQ(rank_3->function, "clean");
  EXPECT_EQ(rank_3->file, "/home/u/train.py");
  EXPECT_EQ(rank_3->line, 36u);

  profile::PredictedGain row = predicted("rank 3 = mean", 2.5, 0.2);
  row.rank = 3, row.function = rank_3->function, row.file = rank_3->file, row.line = rank_3->line;
  apply_gains(a, gains({row}));
  const std::string text = text_of_gains(a);
  EXPECT_NE(text.find("rank 3 = mean (clean() train.py:36)"), std::string::npos) << text;
}

TEST(GainCandidates, RegionsOfTheProgramAreTried) {
  Analysis a = analyse(testing::training_run());
  a.regions.clear();
  const auto add_region = [&](std::vector<std::string> names, const char* domain, double share) {
    RegionRow& row = a.regions.emplace_back();
    row.names = std::move(names), row.domain = domain, row.share = share;
  };
  add_region({"epoch"}, "", 0.95);
  add_region({"epoch", "load"}, "", 0.2);
  add_region({"epoch", "step"}, "", 0.4);
  add_region({"epoch", "rare"}, "", 0.01);
  add_region({"gemm"}, "NVTX", 0.3);
  std::vector<std::string> regions;
  for (const std::string& change : changes_of(a))
    if (change.starts_with("region ")) regions.push_back(change);
  EXPECT_EQ(regions, (std::vector<std::string>{"region step x0.5", "region load x0.5"}))
      << "longest first; not what nearly everything is in, nor what a library names";
}

TEST(Gains, OfFindingsAreThoseOfTheReplay) {
  Analysis a = analyse(testing::training_run());
  ASSERT_NE(find_kind(a, FindingKind::kLoadImbalance), nullptr);
  const double estimate = *find_kind(a, FindingKind::kMpiTime)->gain_s;
  apply_gains(a, gains({predicted("function gradient x0.5", 3), predicted("rank 3 = mean", 2.5, 0.2)}));
  const Finding& imbalance = *find_kind(a, FindingKind::kLoadImbalance);
  EXPECT_DOUBLE_EQ(*imbalance.gain_s, 2.5);
  EXPECT_DOUBLE_EQ(*imbalance.gain_error_s, 0.2);
  EXPECT_EQ(words::gain(imbalance), "To gain: 2.50 s +/- 200 ms (predicted by replay: rank 3 = mean).");
  const Finding& mpi = *find_kind(a, FindingKind::kMpiTime);
  EXPECT_DOUBLE_EQ(*mpi.gain_s, estimate) << "no change makes its cause go away";
  EXPECT_EQ(words::gain(mpi), "To gain: at most 1.00 s (estimated from sums).");

  const Json document = Json::parse(render_json(a));
  for (const Json& finding : document["findings"]) {
    if (finding["kind"] == "load_imbalance") {
      EXPECT_EQ(finding["gain_method"], "replay");
      EXPECT_EQ(finding["gain_error_s"], 0.2);
      EXPECT_EQ(finding["change"], "rank 3 = mean");
    } else if (finding["kind"] == "mpi_time") {
      EXPECT_EQ(finding["gain_method"], "sums");
      EXPECT_TRUE(finding["gain_error_s"].is_null());
      EXPECT_TRUE(finding["change"].is_null());
    }
  }
}

TEST(Gains, AReplayThatGainsNothingSaysSo) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", -0.5)}));
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kLoadImbalance)->gain_s, 0) << "schema: 0 or more";
  EXPECT_NE(text_of_gains(a).find("No change that was tried gains anything."), std::string::npos);
  EXPECT_TRUE(Json::parse(render_json(a))["whatif"]["candidates"].empty());
}

TEST(Gains, SumsOfProgramsWithoutMpiLeaveFindingsAsTheyAre) {
  Analysis a = analyse(testing::training_run());
  const double before = *find_kind(a, FindingKind::kLoadImbalance)->gain_s;
  profile::Gains all = gains({predicted("rank 3 = mean", 1)});
  all.from_sums = true;
  apply_gains(a, all);
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kLoadImbalance)->gain_s, before);
  EXPECT_EQ(Json::parse(render_json(a))["whatif"]["method"], "sums");
}

TEST(Gains, FindingsAreInTheOrderOfTheirGains) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", 0.1)}));
  for (std::size_t i = 1; i < a.findings.size(); ++i) {
    const Finding &before = a.findings[i - 1], &after = a.findings[i];
    if (before.severity != after.severity) continue;
    EXPECT_GE(before.gain_s.value_or(0), after.gain_s.value_or(0)) << i;
  }
}

// The rank's whole excess is gone with the change, but this cause is only a part of it.
TEST(Gains, AChangeThatGainsMoreThanTheCauseCostsLeavesTheEstimate) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", 9, 0.2)}));
  const Finding& imbalance = *find_kind(a, FindingKind::kLoadImbalance);
  EXPECT_NEAR(*imbalance.gain_s, 2.925, 1e-9);
  EXPECT_FALSE(imbalance.gain_error_s);
  EXPECT_EQ(words::gain(imbalance), "To gain: at most 2.92 s (estimated from sums).");
}

TEST(Gains, SomePerCentMoreThanTheCauseCostsAreTheSame) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", 3, 0.2)}));
  const Finding& imbalance = *find_kind(a, FindingKind::kLoadImbalance);
  EXPECT_DOUBLE_EQ(*imbalance.gain_s, 3);
  EXPECT_EQ(imbalance.change, "rank 3 = mean");
}

TEST(Gains, WhatIsLessThanItsErrorIsNotSure) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", 0.1, 0.2)}));
  EXPECT_EQ(words::gain(*find_kind(a, FindingKind::kLoadImbalance)),
            "To gain: 100 ms +/- 200 ms, which may be nothing (predicted by replay: rank 3 = mean).");
}

TEST(Gains, TheRankingIsInTextAndJson) {
  Analysis a = analyse(testing::training_run());
  EXPECT_TRUE(Json::parse(render_json(a))["whatif"].is_null());
  profile::Gains all =
      gains({predicted("rank 3 = mean", 2.5, 0.2), predicted("io x0", 0.05), predicted("latency x0.5", 0)});
  all.candidates = 9;
  apply_gains(a, all);
  const std::string text = text_of_gains(a);
  EXPECT_NE(text.find("7.50 s"), std::string::npos) << text;
  EXPECT_NE(text.find("-25.0 %"), std::string::npos) << "of the 10 s of the replay without changes: " << text;
  EXPECT_NE(text.find("200 ms"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3 = mean"), std::string::npos) << text;
  EXPECT_EQ(text.find("latency"), std::string::npos) << "it gains nothing: " << text;
  EXPECT_NE(text.find("Replayed: 3 of 9 changes"), std::string::npos) << text;
  EXPECT_EQ(text.find("Refused"), std::string::npos) << text;

  const Json whatif = Json::parse(render_json(a))["whatif"];
  EXPECT_EQ(whatif["method"], "replay");
  EXPECT_EQ(whatif["replayed_s"], 10);
  EXPECT_EQ(whatif["elapsed_s"], 10.5);
  EXPECT_EQ(whatif["to_try"], 9);
  EXPECT_EQ(whatif["tried"], 3);
  ASSERT_EQ(whatif["candidates"].size(), 2u);
  EXPECT_EQ(whatif["candidates"][0]["change"], "rank 3 = mean");
  EXPECT_EQ(whatif["candidates"][0]["gain_s"], 2.5);
  EXPECT_EQ(whatif["candidates"][0]["predicted_s"], 7.5);
  EXPECT_EQ(whatif["candidates"][0]["error_s"], 0.2);
  EXPECT_TRUE(whatif["candidates"][0]["rank"].is_null());
}

TEST(Gains, RefusedChangesAreToldWithTheirReasons) {
  Analysis a = analyse(testing::training_run());
  profile::Gains all = gains({predicted("rank 3 = mean", 2.5, 0.2)});
  all.candidates = 6;
  for (int i = 1; i <= 5; ++i) all.refused_changes.push_back({"change " + std::to_string(i), "no reason"});
  apply_gains(a, all);
  const std::string text = text_of_gains(a);
  EXPECT_NE(text.find("Refused: 5 of 6 changes."), std::string::npos) << text;
  EXPECT_NE(text.find("change 3: no reason"), std::string::npos) << text;
  EXPECT_EQ(text.find("change 4"), std::string::npos) << text;
  EXPECT_EQ(text.find("Replayed:"), std::string::npos) << "the run was not too long: " << text;
  const Json whatif = Json::parse(render_json(a))["whatif"];
  EXPECT_EQ(whatif["tried"], 1);
  ASSERT_EQ(whatif["refused_changes"].size(), 5u);
  EXPECT_EQ(whatif["refused_changes"][4]["change"], "change 5");
  EXPECT_EQ(whatif["refused_changes"][4]["reason"], "no reason");
}

TEST(Gains, StretchesThatStandForTheRunAreTold) {
  Analysis a = analyse(testing::training_run());
  profile::Gains all = gains({predicted("rank 3 = mean", 2.5, 0.2)});
  apply_gains(a, all);
  EXPECT_TRUE(Json::parse(render_json(a))["whatif"]["stretches"].is_null());
  EXPECT_EQ(text_of_gains(a).find("stretches"), std::string::npos);
  all.stretches = 11, all.stretches_s = 0.8;
  apply_gains(a, all);
  const std::string text = text_of_gains(a);
  EXPECT_NE(text.find("from 11 complete stretches, 800 ms of 10.5"), std::string::npos) << text;
  const Json stretches = Json::parse(render_json(a))["whatif"]["stretches"];
  EXPECT_EQ(stretches["count"], 11);
  EXPECT_EQ(stretches["time_s"], 0.8);
}

TEST(Gains, ARefusalIsTold) {
  Analysis a = analyse(testing::training_run());
  const double before = *find_kind(a, FindingKind::kLoadImbalance)->gain_s;
  profile::Gains refused;
  refused.candidates = 4;
  refused.refused = "the run cannot be replayed: MPI events were lost";
  apply_gains(a, refused);
  EXPECT_NE(text_of_gains(a).find("Not predicted: the run cannot be replayed: MPI events were lost."),
            std::string::npos);
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kLoadImbalance)->gain_s, before);
  const Json whatif = Json::parse(render_json(a))["whatif"];
  EXPECT_EQ(whatif["refused"], refused.refused);
  EXPECT_TRUE(whatif["method"].is_null());
  EXPECT_TRUE(whatif["replayed_s"].is_null());
}

TEST(Gains, AreStoredWithTheAnalysis) {
  Analysis a = analyse(testing::training_run());
  apply_gains(a, gains({predicted("rank 3 = mean", 2.5, 0.2)}));
  const std::optional<Analysis> again = decode(encode(a));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->gains, a.gains);
  EXPECT_EQ(render_json(*again), render_json(a));
}

// A merge has the lines one at a time; the verb has them all.
TEST(Gains, AMergePredictsTheSameCandidates) {
  shard::ShardData data = testing::training_run();
  aggregator::correct_times(data);  // as analyse() of tests does
  const shard::InMemoryRows rows(data);
  std::vector<std::string> asked;
  const auto builder = [&] {
    AnalysisBuilder made(data);
    rows.for_each_rank([&](const shard::RankRows& rank) { made.add(rank); });
    made.predict_with([&](const Analysis&, const std::vector<GainCandidate>& candidates) {
      for (const GainCandidate& candidate : candidates) asked.push_back(candidate.change);
      return gains({predicted("rank 3 = mean", 2.5, 0.2)});
    });
    return made;
  };
  const Analysis a = builder().finish();
  EXPECT_EQ(asked, changes_of(analyse(data)));
  EXPECT_DOUBLE_EQ(*find_kind(a, FindingKind::kLoadImbalance)->gain_s, 2.5);
  const std::optional<Analysis> stored = decode(builder().finish_encoded());
  ASSERT_TRUE(stored);
  EXPECT_EQ(render_json(*stored), render_json(a));
}

}  // namespace
}  // namespace clusterprof::report
