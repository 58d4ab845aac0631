// SPDX-License-Identifier: BSD-3-Clause
#include "report/tui/top_screen.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "report/format/characters.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;

// Rank r is on node r / 2. Rank 1 has been asleep for 600 s; the others wait in a barrier for 8 s.
Top top_of(std::int32_t ranks, double as_of_s = 2) {
  Top top;
  top.run.run.id = "run-1";
  top.run.run.ranks = static_cast<std::size_t>(ranks);
  top.run.run.nodes = static_cast<std::size_t>((ranks + 1) / 2);
  top.run.run.state = RunState::kRunning;
  top.run.run.as_of_s = as_of_s;
  top.window_s = 5;
  top.sampled_s = 5.0 * ranks;
  for (std::int32_t n = 0; n < (ranks + 1) / 2; ++n) {
    NodeInfo node;
    node.name = "node" + std::to_string(n);
    node.as_of_s = as_of_s;
    node.state = RunState::kRunning;
    top.run.nodes.push_back(node);
    TopNode now;
    now.window_s = 10;
    now.category_s[static_cast<std::size_t>(Category::kMpi)] = 10;
    now.memory_limit_bytes = 1'000'000'000;
    now.memory_used_bytes = 950'000'000;
    top.nodes.push_back(now);
  }
  for (std::int32_t r = 0; r < ranks; ++r) {
    RankInfo info;
    info.rank = r;
    info.node = static_cast<std::uint32_t>(r / 2);
    top.run.ranks.push_back(info);
    top.run.nodes[info.node].ranks.push_back(r);
    TopRank rank;
    rank.window_s = 5;
    rank.rss_bytes = 1'000'000u * static_cast<std::uint32_t>(r + 1);
    rank.place = {r == 1 ? "" : "MPI_Barrier", r == 1 ? "lost" : "main", "/src/train.py", "",
                  r == 1 ? 20u : 57u,          shard::FrameKind::kPython};
    rank.category_s[static_cast<std::size_t>(r == 1 ? Category::kIdle : Category::kMpi)] = 5;
    rank.unmoved_s = r == 1 ? 600 : 8;
    if (r != 1) rank.op_s = 8;
    rank.stack = r == 1 ? 1 : 0;
    top.ranks.push_back(rank);
  }
  FunctionRow barrier, lost;
  barrier.name = "MPI_Barrier", barrier.kind = shard::FrameKind::kMpi, barrier.self_s = 5.0 * (ranks - 1);
  barrier.total_s = barrier.self_s;
  lost.name = "lost", lost.file = "/src/train.py", lost.line = 19, lost.kind = shard::FrameKind::kPython;
  lost.self_s = lost.total_s = 5;
  FunctionRow main;
  main.name = "main", main.file = "/src/train.py", main.line = 50, main.kind = shard::FrameKind::kPython;
  main.total_s = 5.0 * ranks;
  top.functions = {barrier, lost, main};
  top.entered = {main, barrier, lost};
  top.stacks = {{1, 0}, {2, 0}};  // MPI_Barrier or lost(), called by main()
  Hang hang;
  hang.is_deadlock = true;
  hang.rank = 1;
  HangWait wait;
  for (std::int32_t r = 0; r < ranks; ++r)
    if (r != 1) wait.ranks.push_back(r);
  wait.place = top.ranks[0].place;
  wait.for_s = 8;
  wait.missing_ranks = {1};
  MissingRanks missing;
  missing.ranks = {1};
  missing.state = MissingState::kAsleep;
  missing.place = top.ranks[1].place;
  missing.for_s = 600;
  wait.missing = {missing};
  hang.waiting = {wait};
  top.run.hang = hang;
  return top;
}

class TopScreenTest : public ::testing::Test {
 protected:
  std::vector<std::string> draw(std::size_t columns = 60, std::size_t rows = 20) {
    std::vector<std::string> texts;
    for (const ScreenLine& line : screen.draw(columns, rows)) {
      std::string text;
      for (const text::Span& span : line.spans) text += span.text;
      EXPECT_LE(format::columns(text), columns) << text;
      EXPECT_TRUE(format::is_printable(text)) << text;
      texts.push_back(text);
    }
    EXPECT_EQ(texts.size(), rows);
    return texts;
  }
  std::string drawn(std::size_t columns = 60, std::size_t rows = 20) {
    std::string all;
    for (const std::string& line : draw(columns, rows)) all += line + "\n";
    return all;
  }
  bool has(const std::string& text, std::size_t columns = 60) {
    return drawn(columns).find(text) != std::string::npos;
  }
  void type(const std::string& text) {
    for (const char c : text) EXPECT_TRUE(screen.press(PressedKey::kText, std::string(1, c)));
  }
  TopScreen screen;
};

TEST_F(TopScreenTest, ShowsNothingBeforeAnythingIsKnown) { EXPECT_TRUE(has("nothing yet")); }

TEST_F(TopScreenTest, ShowsRanksAtTheSmallestSize) {
  screen.update(top_of(4));
  const std::vector<std::string> lines = draw();
  EXPECT_NE(lines[0].find("[1 Ranks]"), std::string::npos);
  EXPECT_EQ(lines[1].rfind("Deadlock", 0), 0u) << "the verdict comes first: " << lines[1];
  EXPECT_NE((lines[2] + lines[3]).find("600 s."), std::string::npos) << "all of it: " << lines[3];
  EXPECT_NE(lines[4].find("still"), std::string::npos);
  EXPECT_NE(lines[5].find("MPI_Barrier"), std::string::npos) << lines[5];
  EXPECT_NE(lines[6].find("600 s"), std::string::npos) << lines[6];
  EXPECT_NE(lines[6].find("lost()"), std::string::npos) << lines[6];
  EXPECT_NE(lines[19].find("running, as of 2 s ago"), std::string::npos) << lines[19];
  EXPECT_TRUE(has("node0", 120)) << "with its node where there is room";
}

TEST_F(TopScreenTest, SaysWhatATooSmallScreenNeeds) {
  screen.update(top_of(4));
  EXPECT_NE(drawn(59, 20).find("60 columns and 20 rows"), std::string::npos);
  EXPECT_NE(drawn(60, 19).find("60 columns and 20 rows"), std::string::npos);
  drawn(3, 1);
}

TEST_F(TopScreenTest, SortsByHowLongRanksHaveBeenStill) {
  screen.update(top_of(4));
  type("s");
  EXPECT_NE(draw()[5].find("lost()"), std::string::npos) << "600 s come first";
  type("r");
  EXPECT_NE(draw()[8].find("lost()"), std::string::npos) << "and last";
  type("ss");  // by MPI, by memory
  type("r");
  EXPECT_EQ(draw()[5].substr(0, 7), "     3 ") << draw()[5];
}

TEST_F(TopScreenTest, FilterSortingAndCursorOutlastAnUpdate) {
  screen.update(top_of(300));
  type("/node1");
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("node1", 120));
  EXPECT_FALSE(has("node2", 120));
  type("s");
  screen.press(PressedKey::kDown);
  const std::string before = draw()[19];
  screen.update(top_of(300, 3));
  EXPECT_EQ(draw()[19].substr(before.size() - 6), before.substr(before.size() - 6));
  EXPECT_TRUE(has("as of 3 s ago"));
  screen.press(PressedKey::kBack);
  EXPECT_TRUE(has("node2", 120));
}

TEST_F(TopScreenTest, FrozenItDoesNotChange) {
  screen.update(top_of(4));
  type("f");
  EXPECT_TRUE(screen.is_frozen());
  EXPECT_TRUE(has("frozen"));
  screen.update(top_of(4, 7));
  EXPECT_TRUE(has("as of 2 s ago"));
  type(" ");
  EXPECT_FALSE(screen.is_frozen());
  screen.update(top_of(4, 7));
  EXPECT_TRUE(has("as of 7 s ago"));
}

TEST_F(TopScreenTest, ShowsNodesAndTheirRanks) {
  screen.update(top_of(6));
  type("2");
  EXPECT_TRUE(has("node2"));
  EXPECT_TRUE(has("1.00 GB"));
  screen.press(PressedKey::kDown);
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("[1 Ranks]"));
  EXPECT_TRUE(has("ranks of node1"));
  EXPECT_TRUE(has("1/2")) << "ranks 2 and 3";
}

TEST_F(TopScreenTest, ShowsRanksOfOneNodeAndNotOfThoseNamedLikeIt) {
  screen.update(top_of(30));
  type("2");
  screen.press(PressedKey::kDown);
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("1/2")) << "not those of node10 to node14: " << drawn();
  screen.update(top_of(30, 3));
  EXPECT_TRUE(has("1/2")) << drawn();
  type("/3");
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("1/1")) << "a filter is of these: " << drawn();
  EXPECT_TRUE(has("ranks of node1  /3")) << drawn();
  screen.press(PressedKey::kBack);
  EXPECT_TRUE(has("1/2")) << drawn();
  screen.press(PressedKey::kBack);
  EXPECT_TRUE(has("1/30")) << drawn();
}

TEST_F(TopScreenTest, ShowsRanksInAFunctionAndInWhatItCalls) {
  screen.update(top_of(4));
  type("3s");  // by total time
  EXPECT_TRUE(has("main()")) << drawn();
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("ranks in main()")) << drawn();
  EXPECT_TRUE(has("1/4")) << drawn();
  type("3");
  screen.press(PressedKey::kEnd);
  screen.press(PressedKey::kEnter);
  EXPECT_TRUE(has("ranks in lost()")) << drawn();
  EXPECT_TRUE(has("1/1")) << drawn();
}

TEST_F(TopScreenTest, SaysOfHowManySecondsTimesAre) {
  EXPECT_FALSE(has("the last "));
  screen.update(top_of(4));
  EXPECT_NE(draw()[0].find("the last 5.00 s"), std::string::npos) << draw()[0];
}

TEST_F(TopScreenTest, ShowsFunctionsWithTheirShares) {
  screen.update(top_of(4));
  screen.press(PressedKey::kTab);
  screen.press(PressedKey::kTab);
  EXPECT_TRUE(has("[3 Functions]"));
  EXPECT_TRUE(has("75.0")) << drawn();
  EXPECT_TRUE(has("25.0"));
}

TEST_F(TopScreenTest, SaysThatMembersOfACollectiveDoNotAgree) {
  Top top = top_of(4);
  top.run.hang.reset();
  EXPECT_EQ(draw()[1].find("Deadlock"), std::string::npos);
  Failure failure;
  failure.rank = 2;
  failure.message = "MPI_ERR_TRUNCATE in MPI_Bcast: message truncated";
  failure.mismatch = {{{2}, "MPI_Bcast", std::nullopt, 40}, {{0, 1, 3}, "MPI_Bcast", std::nullopt, 400}};
  top.run.failure = failure;
  screen.update(top);
  EXPECT_TRUE(has(
      "Rank 2 was ended by MPI itself: MPI_ERR_TRUNCATE in MPI_Bcast: message truncated; the operation has "
      "different sizes: MPI_Bcast of 40 bytes on rank 2 against MPI_Bcast of 400 bytes on ranks 0, 1, 3.",
      250));
  EXPECT_TRUE(has(".."));
  type("v");
  EXPECT_TRUE(has("ranks 0, 1, 3.")) << drawn();
}

TEST_F(TopScreenTest, ShowsTheVerdictInFull) {
  Top top = top_of(4);
  HangWait& wait = top.run.hang->waiting.front();
  wait.place.file = "/src/" + std::string(60, 'x') + ".py";
  wait.missing.front().place.file = "/src/" + std::string(60, 'y') + ".py";
  screen.update(top);
  EXPECT_FALSE(has("asleep")) << drawn();
  type("v");
  EXPECT_TRUE(has("asleep")) << drawn();
  screen.press(PressedKey::kDown);
  EXPECT_TRUE(has("[1 Ranks]"));
}

TEST_F(TopScreenTest, SaysThatTheRunHasEnded) {
  Top top = top_of(2);
  top.run.run.state = RunState::kLost;
  top.run.run.as_of_s.reset();
  top.run.ranks[1].exit_signal = 9;
  screen.update(top);
  EXPECT_TRUE(has("INCOMPLETE (lost)"));
  EXPECT_TRUE(has("its last state"));
  EXPECT_TRUE(has("ended by SIGKILL"));
  EXPECT_TRUE(has("ended by SIGKILL, in lost() train.py:20", 120)) << drawn(120);
}

TEST_F(TopScreenTest, FewerRanksThanBeforeKeepTheCursorInside) {
  screen.update(top_of(300));
  screen.press(PressedKey::kEnd);
  EXPECT_TRUE(has("300/300"));
  screen.update(top_of(4));
  EXPECT_TRUE(has("4/4"));
}

TEST_F(TopScreenTest, QIsForLeaving) {
  screen.update(top_of(4));
  EXPECT_TRUE(screen.press(PressedKey::kText, "x"));
  type("/q");
  EXPECT_TRUE(screen.press(PressedKey::kEnter));
  EXPECT_FALSE(screen.press(PressedKey::kText, "q"));
}

}  // namespace
}  // namespace clusterprof::report
