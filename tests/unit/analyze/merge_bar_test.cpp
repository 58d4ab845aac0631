// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/merge_bar.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace clusterprof::cli {
namespace {

using namespace std::chrono_literals;
using aggregator::MergeProgress;
using Phase = MergeProgress::Phase;

constexpr MergeBar::Clock::time_point kStart{1000s};

// What a merge of `steps` shards in `whole` writes.
std::vector<std::string> written(const MergeBar::Style& style, std::chrono::milliseconds whole, int steps) {
  MergeBar bar(style, kStart);
  std::vector<std::string> texts;
  for (int i = 1; i <= steps; ++i) {
    const std::string text = bar.update(
        {Phase::kRows, static_cast<std::size_t>(i), static_cast<std::size_t>(steps), double(i) / steps},
        kStart + whole * i / steps);
    if (!text.empty()) texts.push_back(text);
  }
  if (const std::string text = bar.finish(); !text.empty()) texts.push_back(text);
  return texts;
}

TEST(MergeBar, PrintsNothingForShortMerges) {
  EXPECT_TRUE(written({true, true, 80}, 999ms, 500).empty());
  EXPECT_TRUE(written({false, false, 80}, 1999ms, 500).empty());
}

TEST(MergeBar, IsOneLineThatIsErasedAtTheEnd) {
  const std::vector<std::string> texts = written({true, false, 80}, 20s, 1000);
  ASSERT_GT(texts.size(), 100u);
  EXPECT_LE(texts.size(), 201u);
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.starts_with("\r"));
    EXPECT_TRUE(text.ends_with("\x1b[K"));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_LE(text.size() - 4, 79u);
  }
  EXPECT_EQ(texts.back(), "\r\x1b[K");
  const auto half = std::find_if(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find(" 50 %") != std::string::npos;
  });
  ASSERT_NE(half, texts.end());
  EXPECT_NE(half->find("10 s, 10 s left"), std::string::npos) << *half;
  EXPECT_NE(half->find("shards, 50"), std::string::npos) << *half;
  const auto full = std::count(half->begin(), half->end(), '#');
  const auto width = half->find(']') - half->find('[') - 1;
  EXPECT_EQ(static_cast<std::size_t>(full), width / 2) << *half;
}

TEST(MergeBar, HasColoursOnlyWhereWanted) {
  const std::string with = written({true, true, 80}, 20s, 100)[5];
  EXPECT_NE(with.find("\x1b[32m"), std::string::npos);
  EXPECT_EQ(written({true, false, 80}, 20s, 100)[5].find("\x1b[32m"), std::string::npos);
}

TEST(MergeBar, FitsNarrowTerminals) {
  for (const std::size_t columns : {1u, 10u, 20u, 40u, 60u, 400u})
    for (const std::string& text : written({true, false, columns}, 30s, 50))
      EXPECT_LE(text.size() - 4, columns - 1) << text;
}

TEST(MergeBar, PrintsALinePerTenthWithoutATerminal) {
  const std::vector<std::string> texts = written({false, false, 80}, 100s, 1000);
  ASSERT_EQ(texts.size(), 9u);
  for (const std::string& text : texts) {
    EXPECT_TRUE(text.starts_with("clusterprof: merging: "));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
  EXPECT_EQ(texts[4], "clusterprof: merging: 50 % after 50 s, 50 s left\n");
  EXPECT_LE(written({false, false, 80}, 4s, 1000).size(), 2u);  // not a line per tenth of a second
}

// Heads take 10 s, MPI events a minute, and the rest 40 s.
TEST(MergeBar, TimeLeftIsByThePhase) {
  MergeBar bar({false, false, 80}, kStart);
  EXPECT_EQ(bar.update({Phase::kHeads, 5, 10, 0.1}, kStart + 5s),
            "clusterprof: merging: 10 % after 5 s, 45 s left\n");
  EXPECT_EQ(bar.update({Phase::kEvents, 0, 10, 0.2}, kStart + 10s),
            "clusterprof: merging: 20 % after 10 s, time left not known\n");
  EXPECT_EQ(bar.update({Phase::kEvents, 9, 10, 0.2}, kStart + 60s), "");
  EXPECT_EQ(bar.update({Phase::kRows, 0, 10, 0.2}, kStart + 70s), "");
  EXPECT_EQ(bar.update({Phase::kRows, 5, 10, 0.6}, kStart + 90s),
            "clusterprof: merging: 60 % after 90 s, 20 s left\n");
  EXPECT_EQ(bar.update({Phase::kWriting, 10, 10, 0.95}, kStart + 110s),
            "clusterprof: merging: 95 % after 1:50 min, 3 s left\n");
}

TEST(MergeBar, ShowsLongTimes) {
  MergeBar bar({false, false, 80}, kStart);
  EXPECT_EQ(bar.update({Phase::kRows, 1, 10, 0.1}, kStart + 1000s),
            "clusterprof: merging: 10 % after 16:40 min, 2:30 h left\n");
}

}  // namespace
}  // namespace clusterprof::cli
