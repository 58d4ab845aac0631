// SPDX-License-Identifier: BSD-3-Clause
// What is said of the end of a run alone: bins of ranks and of call paths from some time on.
#include "report/analysis/end_of_run.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

// 8 bins of 1.024 s. Rank 0 runs Python until the sixth, rank 1 until the seventh; then they are idle.
struct TwoRanks : ProfileBuilder {
  TwoRanks() : ProfileBuilder(2) {
    data.time_axis = {1024 * kMs, data.run.start_utc_ns};
    const std::uint32_t main = path({python("main", "a.py", 3, 1)});
    const std::uint32_t work = child(main, python("work", "a.py", 9, 8));
    const std::uint32_t rest = child(main, python("rest", "a.py", 20, 18));
    data.strings.emplace_back("python_ns");
    data.strings.emplace_back("idle_ns");
    const auto names = static_cast<std::uint32_t>(data.strings.size());
    data.series = {{names - 2, shard::SeriesKind::kSum}, {names - 1, shard::SeriesKind::kSum}};
    for (const std::uint32_t r : {0u, 1u}) {
      const std::uint32_t busy = r == 0 ? 6 : 7;
      for (std::uint32_t bin = 0; bin < busy; ++bin) data.rank_series.push_back({r, 0, bin, 1024 * kMs});
      for (std::uint32_t bin = busy; bin < 8; ++bin) data.rank_series.push_back({r, 1, bin, 1024 * kMs});
      sampled(r, work, Category::kPython, busy * 1024);
      sampled(r, rest, Category::kIdle, (8 - busy) * 1024);
    }
    lasts(8 * 1024);
    // Bins twice as wide.
    data.path_axis = {2048 * kMs, data.run.start_utc_ns};
    data.path_series = {{work, 0, 4096 * kMs},
                        {work, 1, 4096 * kMs},
                        {work, 2, 4096 * kMs},
                        {work, 3, 1024 * kMs},
                        {rest, 3, 3072 * kMs}};
  }
};

TEST(EndOfRun, HasWholeBinsOfRanksAndFunctions) {
  const TwoRanks run;
  const Analysis whole = analyse(run.data);
  // 2 s before the end lies in the sixth bin of 8, and in the last but one of the wide ones.
  const std::optional<Analysis> end = analyse_end(run.data, whole, 2.1);
  ASSERT_TRUE(end && end->last);
  EXPECT_DOUBLE_EQ(end->last->begin_s, 5 * 1.024);
  EXPECT_DOUBLE_EQ(end->last->end_s, 8 * 1.024);
  EXPECT_DOUBLE_EQ(*end->last->functions_begin_s, 4 * 1.024);
  ASSERT_EQ(end->ranks.size(), 2u);
  EXPECT_NEAR(*end->ranks[0].category_s[testing::kPythonIndex], 1.024, 1e-6);
  EXPECT_NEAR(*end->ranks[0].category_s[testing::kIdleIndex], 2 * 1.024, 1e-6);
  EXPECT_NEAR(*end->ranks[1].category_s[testing::kPythonIndex], 2 * 1.024, 1e-6);
  EXPECT_NEAR(*end->category_s[testing::kPythonIndex], 3 * 1.024, 1e-6);
  EXPECT_NEAR(end->rank_seconds, 6 * 1.024, 1e-6);
  EXPECT_EQ(end->timeline->bins, 3u);
  ASSERT_EQ(end->functions.size(), 3u);
  EXPECT_EQ(end->functions[0].name, "work");
  EXPECT_DOUBLE_EQ(end->functions[0].self_s, 5.12);
  EXPECT_EQ(end->functions[1].name, "rest");
  EXPECT_EQ(end->functions[2].name, "main");
  EXPECT_DOUBLE_EQ(end->functions[2].self_s, 0);
  EXPECT_DOUBLE_EQ(end->functions[2].total_s, 8.192);

  const std::optional<Analysis> shorter = analyse_end(run.data, whole, 1);
  ASSERT_TRUE(shorter);
  EXPECT_DOUBLE_EQ(*shorter->last->functions_begin_s, 6 * 1.024);
  EXPECT_EQ(shorter->functions[0].name, "rest");
}

TEST(EndOfRun, OfMoreThanTheRunIsAllOfIt) {
  const TwoRanks run;
  const Analysis whole = analyse(run.data);
  const std::optional<Analysis> end = analyse_end(run.data, whole, 1000);
  ASSERT_TRUE(end);
  EXPECT_DOUBLE_EQ(end->last->begin_s, 0);
  for (std::size_t c = 0; c < shard::kCategories; ++c)
    EXPECT_NEAR(end->category_s[c].value_or(0), whole.category_s[c].value_or(0), 1e-6) << c;
}

TEST(EndOfRun, SaysNothingOfWhatIsKnownOfTheWholeRunOnly) {
  const TwoRanks run;
  const Analysis end = *analyse_end(run.data, analyse(run.data), 2);
  const std::string json = render_json(end);
  EXPECT_NE(json.find("\"clusterprof.report_end/1\""), std::string::npos);
  for (const char* key :
       {"\"samples\"", "\"mpi\"", "\"cpu_s\"", "\"lines\"", "\"efficiency\"", "\"rank_max_s\""})
    EXPECT_EQ(json.find(key), std::string::npos) << key;
  const std::string text = render_text(end, {});
  EXPECT_NE(text.find("the last 2.05 s, from 6.14 s after the start"), std::string::npos) << text;
  EXPECT_EQ(text.find("efficiency"), std::string::npos);
}

TEST(EndOfRun, HasTheSectionsThatAreAskedFor) {
  const TwoRanks run;
  const std::optional<Analysis> end = analyse_end(run.data, analyse(run.data), 2.1);
  ASSERT_TRUE(end);
  const std::vector<std::pair<std::string, std::string>> titles{{"summary", "Main threads by category"},
                                                                {"ranks", "\nRanks"},
                                                                {"hotspots", "\nHotspots"},
                                                                {"timeline", "\nOver time"}};
  ASSERT_EQ(section_names_of_end().size(), titles.size());
  for (std::size_t i = 0; i < titles.size(); ++i) {
    EXPECT_EQ(section_names_of_end()[i], titles[i].first);
    TextOptions options;
    options.sections = {titles[i].first};
    const std::string text = render_text(*end, options);
    EXPECT_NE(text.find("the last "), std::string::npos) << text;
    for (const auto& [name, title] : titles)
      EXPECT_EQ(text.find(title) != std::string::npos, name == titles[i].first) << name << text;
  }
}

TEST(EndOfRun, IsNotKnownWithoutATimeline) {
  TwoRanks run;
  run.data.time_axis = {};
  EXPECT_FALSE(analyse_end(run.data, analyse(run.data), 2));
}

}  // namespace
}  // namespace clusterprof::report
