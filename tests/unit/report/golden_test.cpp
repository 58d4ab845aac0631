// SPDX-License-Identifier: BSD-3-Clause
// One profile, what people and programs see of it. After a wanted change: run this test with
// CLUSTERPROF_UPDATE_GOLDEN=1 and read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "profile_builder.hpp"
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

TEST(Golden, DelayedBanner) {
  compare("delayed-banner.txt", render_banner(analyse(testing::delayed_run()), "clusterprof-train", 80));
}

}  // namespace
}  // namespace clusterprof::report
