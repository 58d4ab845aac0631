// SPDX-License-Identifier: BSD-3-Clause
// All views of one profile. After an intended change, run this test with CLUSTERPROF_UPDATE_GOLDEN=1 and read
// the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "profile_builder.hpp"
#include "report/diff/diff.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

void compare(const std::string& name, const std::string& now) {
  const std::string path = std::string(REPORT_GOLDEN_FOLDER) + "/" + name;
  if (std::getenv("CLUSTERPROF_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << now;
    GTEST_SKIP() << "wrote " << path;
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(now, golden.str()) << path;
}

TEST(Golden, Text) { compare("training.txt", render_text(analyse(testing::training_run()), {})); }

TEST(Golden, WideTextWithColours) {
  compare("training-wide-colour.txt", render_text(analyse(testing::training_run()), {120, true, {}, 3}));
}

TEST(Golden, Banner) {
  compare("training-banner.txt",
          render_banner(analyse(testing::training_run()), "clusterprof-train-20231114", 80));
}

TEST(Golden, OneLine) {
  compare("training-oneline.txt", render_oneline(analyse(testing::training_run())));
  compare("resources-oneline.txt", render_oneline(analyse(testing::resources_run())));
  const std::optional<Analysis> step = analyse_region(testing::resources_run(), "epoch/step");
  ASSERT_TRUE(step);
  compare("resources-region-oneline.txt", render_oneline(*step));
}

TEST(Golden, Json) { compare("training.json", render_json(analyse(testing::training_run()))); }

TEST(Golden, ResourcesText) { compare("resources.txt", render_text(analyse(testing::resources_run()), {})); }

TEST(Golden, ResourcesSections) {
  TextOptions options;
  options.sections = {"io", "off-cpu", "regions", "timeline", "nodes", "counters"};
  compare("resources-sections.txt", render_text(analyse(testing::resources_run()), options));
}

TEST(Golden, ResourcesOfARegion) {
  const std::optional<Analysis> step = analyse_region(testing::resources_run(), "epoch/step");
  ASSERT_TRUE(step);
  TextOptions options;
  options.sections = {"summary", "hotspots"};
  compare("resources-region.txt", render_text(*step, options));
}

TEST(Golden, DelayedText) { compare("delayed.txt", render_text(analyse(testing::delayed_run()), {})); }

TEST(Golden, DelayedSections) {
  TextOptions options;
  options.sections = {"comm", "waits"};
  compare("delayed-comm-waits.txt", render_text(analyse(testing::delayed_run()), options));
}

TEST(Golden, DelayedWideSections) {
  TextOptions options;
  options.width = 120;
  options.sections = {"ranks", "comm", "waits"};
  options.unicode = true;
  options.rows = 2;
  compare("delayed-wide.txt", render_text(analyse(testing::delayed_run()), options));
}

TEST(Golden, WideText) {
  TextOptions options;
  options.width = 120;
  compare("training-wide.txt", render_text(analyse(testing::training_run()), options));
}

TEST(Golden, Tree) {
  TextOptions options;
  options.sections = {"tree"};
  compare("training-tree.txt", render_text(analyse(testing::training_run()), options));
  options.width = 120;
  compare("resources-tree-wide.txt", render_text(analyse(testing::resources_run()), options));
}

// Three runs that differ a little against two in which rank 3 has less to do.
Diff training_diff() {
  std::vector<RunFacts> sides[2];
  for (std::uint64_t i = 0; i < 5; ++i) {
    shard::ShardData data = testing::training_run();
    data.run.id += "-" + std::to_string(i + 1);
    for (shard::Value& value : data.values)
      if (data.ranks[value.rank].rank == 3 && value.wall_ns > 1'000'000'000)
        value.wall_ns = value.wall_ns * (i < 3 ? 100 + i : 70 + i) / 100;
    for (shard::Rank& rank : data.ranks) rank.elapsed_ns = rank.elapsed_ns * (i < 3 ? 100 + i : 70 + i) / 100;
    sides[i < 3 ? 0 : 1].push_back(facts_of(analyse(data), "runs/" + std::to_string(i + 1)));
  }
  return report::compare(std::move(sides[0]), std::move(sides[1]));
}

std::vector<Judgement> training_judgements(const Diff& diff) {
  return judge(diff, parse_conditions("elapsed>+5%, parallel<90%").value(), false);
}

TEST(Golden, DiffText) {
  const Diff diff = training_diff();
  compare("diff.txt", render_diff_text(diff, training_judgements(diff), {}));
}

TEST(Golden, DiffWideText) {
  const Diff diff = report::compare({facts_of(analyse(testing::training_run()), "a")},
                                    {facts_of(analyse(testing::delayed_run()), "b")});
  compare("diff-wide-colour.txt", render_diff_text(diff, {}, {120, true, {}, 8}));
}

TEST(Golden, DiffJson) {
  const Diff diff = training_diff();
  std::string json;
  render_diff_json(diff, training_judgements(diff), [&](std::string_view piece) { json += piece; });
  compare("diff.json", json);
}

TEST(Golden, DiffHtml) {
  const Diff diff = training_diff();
  compare("diff.html", render_diff_html(diff, training_judgements(diff)));
}

TEST(Golden, DelayedBanner) {
  compare("delayed-banner.txt", render_banner(analyse(testing::delayed_run()), "clusterprof-train", 80));
}

}  // namespace
}  // namespace clusterprof::report
