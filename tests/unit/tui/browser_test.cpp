// SPDX-License-Identifier: BSD-3-Clause
#include "report/tui/browser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "report/format/characters.hpp"
#include "report/tui/selected_time.hpp"
#include "report/tui/views.hpp"
#include "tests/support/measured.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::FrameKind;

// Seconds by call path, of ranks 0 and 1:
//   main                    0    0
//     solve                 2    1
//       step                3    1
//         solve             1    1
//           MPI_Send        1    5
//     write_all             1    0
struct TwoRanks {
  Analysis analysis;
  PageData data;

  std::uint32_t function(const char* name, FrameKind kind, const char* file, std::uint32_t line) {
    const auto number = static_cast<std::uint32_t>(data.functions.size());
    data.functions.push_back(
        {name, file, kind == FrameKind::kPython ? "" : "prog", line, kind, shard::kNone});
    PageFrame frame;
    frame.kind = kind;
    frame.name = name;
    frame.file = file;
    frame.line = frame.function_line = line;
    frame.function = number;
    data.frames.push_back(std::move(frame));
    return number;
  }
  std::uint32_t path(std::uint32_t parent, std::uint32_t frame, Category category, double first_s,
                     double second_s) {
    const auto number = static_cast<std::uint32_t>(data.paths.size());
    PagePath path;
    path.parent = parent;
    path.frame = frame;
    path.self_s[static_cast<std::size_t>(category)] = first_s + second_s;
    data.paths.push_back(path);
    own_[0].push_back({0, number, static_cast<float>(first_s), 0});
    own_[1].push_back({1, number, static_cast<float>(second_s), 0});
    return number;
  }

  explicit TwoRanks(bool with_memory = false, bool with_labels = false) {
    const auto main_f = function("main", FrameKind::kNative, "/src/main.c", 3);
    const auto solve_f = function("solve", FrameKind::kPython, "/src/solve.py", 10);
    const auto step_f = function("step", FrameKind::kPython, "/src/solve.py", 20);
    const auto send_f = function("MPI_Send", FrameKind::kMpi, "", 0);
    const auto write_f = function("write_all\x1b[31m", FrameKind::kNative, "/src/out.c", 7);
    data.paths.emplace_back();
    const auto main_p = path(0, main_f, Category::kNative, 0, 0);
    const auto solve_p = path(main_p, solve_f, Category::kPython, 2, 1);
    const auto step_p = path(solve_p, step_f, Category::kPython, 3, 1);
    const auto again_p = path(step_p, solve_f, Category::kPython, 1, 1);
    path(again_p, send_f, Category::kMpi, 1, 5);
    path(main_p, write_f, Category::kIo, 1, 0);
    for (const auto& cells : own_) data.cells.insert(data.cells.end(), cells.begin(), cells.end());
    data.groups = 2;
    data.group_of_rank = data.row_of_rank = {0, 1};
    data.rows = {{0, 0, 1, 0}, {1, 1, 1, 0}};
    data.row_functions = 2;
    data.function_row_s = {8, 8, 7, 8};  // main, solve

    analysis.run.id = "run-1";
    analysis.run.ranks = 2;
    analysis.run.nodes = 1;
    analysis.run.elapsed_s = 8;
    analysis.nodes.emplace_back();
    analysis.nodes[0].name = "node-a";
    for (std::int32_t rank : {0, 1}) {
      RankInfo info;
      info.rank = rank;
      info.elapsed_s = info.recorded_s = 8;
      info.useful_s = rank == 0 ? 7 : 3;
      info.mpi_wait_s = rank == 0 ? 0.5 : 4.5;
      analysis.ranks.push_back(info);
    }
    MpiCallRow call;
    call.op = "MPI_Send";
    call.file = "/src/solve.py";
    call.function = "solve";
    call.line = 12;
    call.count = 4;
    call.time_s = 6;
    analysis.mpi_calls.push_back(call);
    LineRow line;
    line.file = "/src/solve.py";
    line.function = "step";
    line.line = 2;
    line.self_s = line.active_self_s = 4;
    line.total_s = line.active_total_s = 12;
    analysis.lines.push_back(line);
    for (std::int32_t rank : {0, 1}) {
      ProcessGroup group;
      group.rank = rank;
      group.how = ProcessHow::kSpawn;
      group.program = "worker\x1b[31m";
      group.count = 2;
      group.cpu_s = 4 + rank;
      group.top.function = "load";
      group.top.file = group.created_by.file = "/src/solve.py";
      group.top.line = group.created_by.line = 2;
      for (std::int32_t i = 0; i < 2; ++i) {
        ProcessRow row;
        row.rank = rank;
        row.pid = 500 + 10 * rank + i;
        row.how = group.how;
        row.group = static_cast<std::uint32_t>(rank);
        row.exit_signal = i == 0 ? std::optional<std::int32_t>() : 9;
        analysis.processes.push_back(row);
      }
      analysis.process_groups.push_back(group);
    }
    // Three threads of rank 0 and one of rank 1, which has more time.
    for (std::int32_t rank : {0, 1}) {
      ThreadGroup group;
      group.rank = rank;
      group.kind = shard::ThreadKind::kPython;
      group.name = rank == 0 ? "loader-*\x1b[31m" : "writer";
      group.count = rank == 0 ? 3 : 1;
      group.cpu_s = 6 + rank;
      group.cpu_min_s = rank == 0 ? 1 : 7;
      group.cpu_mean_s = rank == 0 ? 2 : 7;
      group.cpu_max_s = rank == 0 ? 3 : 7;
      for (std::uint32_t i = 0; i < group.count; ++i) {
        ThreadRow row;
        row.rank = rank;
        row.tid = 700 + 10 * rank + static_cast<std::int32_t>(i);
        row.group = static_cast<std::uint32_t>(rank);
        row.name = rank == 0 ? "loader-" + std::to_string(i) : "writer";
        row.cpu_s = rank == 0 ? i + 1 : 7;
        row.elapsed_s = 7.5;
        row.top.function = "step";
        row.top.file = "/src/solve.py";
        row.top.line = 2;
        group.top = row.top;
        analysis.threads.push_back(row);
      }
      analysis.thread_groups.push_back(group);
    }
    EventLoopRow loop;
    loop.rank = 1;
    loop.tid = 710;
    loop.thread = "server\x1b[31m";
    loop.kind = LoopKind::kAsyncio;
    loop.blocked_s = 1.25;
    loop.busy_s = 2;
    loop.idle_s = 5;
    for (const char* function : {"dumps", "loads"}) {
      LoopBlockRow block;
      block.time_s = loop.blocks.empty() ? 1 : 0.25;
      block.count = 4;
      block.task = "handle";
      block.place.function = function;
      block.place.file = "/src/solve.py";
      block.place.line = loop.blocks.empty() ? 2 : 3;
      loop.blocks.push_back(block);
    }
    analysis.event_loops.push_back(loop);
    OpenMpRegionRow& region = analysis.openmp.emplace().regions.emplace_back();
    region.place.function = "relax\x1b[31m";
    region.place.file = "/src/solve.py";
    region.place.line = 2;
    region.count = 40;
    region.threads = 4;
    region.thread_s = 8, region.work_s = 6, region.wait_s = 2;
    region.imbalance = 1.25;
    OpenMpConstructRow& barrier = region.constructs.emplace_back();
    barrier.place = region.place;
    barrier.place.line = 3;
    barrier.time_s = barrier.wait_s = 1.5;
    data.sources.push_back({"/src/solve.py", "def solve():\n\tx = 1\nend\n", ""});
    data.lines.push_back({0, 0, {}});
    if (with_memory) hold_memory();
    if (with_labels) hold_labels();
  }

  // Most of the time of step(), and all of hidden(), is in call paths that are too small to be told apart.
  void hide_small_paths() {
    for (const char* const name : {"step", "hidden"}) {
      FunctionRow row;
      row.name = name;
      row.self_s = row.active_self_s = analysis.functions.empty() ? 40 : 8;
      row.total_s = row.active_total_s = analysis.functions.empty() ? 60 : 8;
      analysis.functions.push_back(row);
    }
    data.functions[2].row = 0;
    data.functions.push_back({"hidden", "/src/solve.py", "", 30, FrameKind::kPython, 1});
  }

  // Rank 1 holds most of what step() allocates.
  void hold_memory() {
    HeldMemory& memory = analysis.memory.emplace();
    for (const char* const function : {"step", "solve\x1b[31m"}) {
      MemoryLine line;
      line.function = function;
      line.file = "/src/solve.py";
      line.line = 2;
      line.kind = FrameKind::kPython;
      line.domain = shard::MemoryDomain::kPython;
      line.node_peak_bytes = line.rank_peak_bytes = memory.lines.empty() ? 5'000'000 : 2'000'000;
      line.alloc_bytes = memory.lines.empty() ? 6'000'000 : 9'000'000;
      line.leak = memory.lines.empty();
      memory.lines.push_back(line);
    }
    HeldNode& node = memory.nodes.emplace_back();
    node.peak_bytes = 7'000'000;
    node.held = {{0, 1, 4'000'000}, {1, 0, 2'000'000}, {0, 0, 1'000'000}};
    for (std::int32_t rank : {0, 1}) {
      HeldRank row;
      row.rank = rank;
      row.peak_bytes = rank == 0 ? 3'000'000 : 4'000'000;
      row.peak_at_s = 2.5;
      memory.ranks.push_back(row);
    }
  }

  // In two spaces, of which rank 1 has most of the first.
  void hold_labels() {
    LabelledMemory& memory = analysis.labelled_memory;
    MemorySpaceRow& cuda = memory.spaces.emplace_back();
    cuda.name = "Cuda\x1b[31m";
    cuda.alloc_bytes = 20'000'000;
    cuda.live_end_bytes = 1'500'000;
    cuda.peaks_bytes = 9'000'000;
    cuda.ranks = {{1, 6'000'000, 2.5}, {0, 3'000'000, 1}};
    for (const char* const name : {"grid\x1b[31m", ""}) {
      MemoryLabelRow& label = cuda.labels.emplace_back();
      label.name = name;
      label.peak_bytes = 5'500'000;
      label.space_peak_bytes = *name != 0 ? 8'000'000 : 1'000'000;
      label.max_rank = *name != 0 ? 1 : 0;
      label.max_rank_bytes = label.space_peak_bytes - 500'000;
      label.alloc_bytes = 10'000'000;
    }
    MemorySpaceRow& host = memory.spaces.emplace_back();
    host.name = "Host";
    host.peaks_bytes = 2'000'000;
    host.ranks = {{0, 2'000'000, 3}};
    MemoryLabelRow& tables = host.labels.emplace_back();
    tables.name = "tables of " + std::string(90, 'w');
    tables.peak_bytes = tables.space_peak_bytes = tables.max_rank_bytes = 2'000'000;
    tables.max_rank = 0;
    memory.copies.push_back({"Cuda", "Host", 7, 11'000'000, 1, 6'500'000});
  }

 private:
  std::vector<PageCell> own_[2];
};

std::string text_of(const ScreenLine& line) {
  std::string text;
  for (const text::Span& span : line.spans) text += span.text;
  return text;
}

class BrowserTest : public ::testing::Test {
 protected:
  std::vector<ScreenLine> screen(std::size_t columns = 100, std::size_t rows = 24) {
    return browser.draw(columns, rows);
  }
  std::string all(std::size_t columns = 100, std::size_t rows = 24) {
    std::string text;
    for (const ScreenLine& line : screen(columns, rows)) text += text_of(line) + "\n";
    return text;
  }
  std::string selected() {
    const std::vector<ScreenLine> lines = screen();
    const auto line =
        std::find_if(lines.begin(), lines.end(), [](const ScreenLine& of) { return of.selected; });
    return line == lines.end() ? "" : text_of(*line);
  }
  void type(std::string_view keys) {
    for (const char key : keys) EXPECT_TRUE(browser.press(PressedKey::kText, {&key, 1}));
  }
  bool shows(std::string_view text) { return all().find(text) != std::string::npos; }

  explicit BrowserTest(bool with_memory = false, bool with_labels = false) : run(with_memory, with_labels) {}

  TwoRanks run;
  Browser browser{run.analysis, run.data, true};
};

class BrowserWithMemory : public BrowserTest {
 protected:
  BrowserWithMemory() : BrowserTest(true) {}
};

class BrowserWithLabels : public BrowserTest {
 protected:
  BrowserWithLabels() : BrowserTest(false, true) {}
};

class BrowserWithMemoryAndLabels : public BrowserTest {
 protected:
  BrowserWithMemoryAndLabels() : BrowserTest(true, true) {}
};

TEST(SelectedTimeTest, CountsRecursionOnce) {
  const TwoRanks run;
  const SelectedTime time = selected_time(run.analysis, run.data, {});
  EXPECT_DOUBLE_EQ(time.all_s(), 16);
  EXPECT_DOUBLE_EQ(time.functions[1].self_s, 5);    // solve
  EXPECT_DOUBLE_EQ(time.functions[1].total_s, 15);  // not 15 + 8
  EXPECT_DOUBLE_EQ(time.functions[2].total_s, 12);  // step
  const SelectedTime second = selected_time(run.analysis, run.data, 1);
  EXPECT_DOUBLE_EQ(second.all_s(), 8);
  EXPECT_DOUBLE_EQ(second.functions[3].self_s, 5);
  EXPECT_DOUBLE_EQ(second.functions[4].total_s, 0);
}

TEST(SelectedTimeTest, CallersAndCalleesShareTheTotal) {
  const TwoRanks run;
  const SelectedTime time = selected_time(run.analysis, run.data, {});
  const Neighbours solve = neighbours(run.data, time, 1);
  ASSERT_EQ(solve.callers.size(), 1u);  // the call from step is below another call of solve
  EXPECT_EQ(solve.callers[0].function, 0u);
  EXPECT_DOUBLE_EQ(solve.callers[0].total_s, 15);
  ASSERT_EQ(solve.callees.size(), 2u);
  EXPECT_EQ(solve.callees[0].function, 2u);
  EXPECT_DOUBLE_EQ(solve.callees[0].total_s, 12);
  EXPECT_EQ(solve.callees[1].function, 3u);
  EXPECT_DOUBLE_EQ(solve.callees[1].total_s, 6);
  const Neighbours first = neighbours(run.data, time, 0);
  ASSERT_EQ(first.callers.size(), 1u);
  EXPECT_EQ(first.callers[0].function, shard::kNone);
}

TEST(SelectedTimeTest, FunctionsHaveTheReportsTime) {
  TwoRanks run;
  run.hide_small_paths();
  const SelectedTime all = selected_time(run.analysis, run.data, {});
  EXPECT_DOUBLE_EQ(all.functions[2].self_s, 40);
  EXPECT_DOUBLE_EQ(all.functions[2].total_s, 60);
  EXPECT_DOUBLE_EQ(all.functions[5].self_s, 8);
  EXPECT_DOUBLE_EQ(all.functions[1].total_s, 15) << "solve, of which the report has no row";
  const SelectedTime second = selected_time(run.analysis, run.data, 1);
  EXPECT_DOUBLE_EQ(second.functions[2].self_s, 10) << "of 4 s on its call paths it has 1 s";
  EXPECT_DOUBLE_EQ(second.functions[2].total_s, 25) << "and of 8 s below it 6 s";
  EXPECT_DOUBLE_EQ(second.functions[5].self_s, 4) << "half of all time";
  EXPECT_DOUBLE_EQ(neighbours(run.data, all, 2).total_s, 12) << "of the call paths alone";
}

TEST(ChosenRanksTest, AreNotSearchedForEachRow) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr double kBound_s = 0.5;
#else
  constexpr double kBound_s = 5;
#endif
  constexpr std::int32_t kRanks = 65'536, kRowsOfEach = 8;
  Analysis analysis;
  PageData data;
  for (std::int32_t rank = 0; rank < kRanks; ++rank) {
    analysis.ranks.emplace_back().rank = rank;
    data.group_of_rank.push_back(static_cast<std::uint32_t>(rank));
  }
  tui::Run run(analysis, data, false);
  run.choose(std::uint32_t{kRanks - 1});
  EXPECT_TRUE(test::measured([&](test::Measurements& measurements) {
    const std::clock_t begin = std::clock();
    std::int32_t chosen = 0;
    for (std::int32_t row = 0; row < kRanks * kRowsOfEach; ++row) chosen += run.is_chosen(row / kRowsOfEach);
    EXPECT_EQ(chosen, kRowsOfEach);
    measurements.at_most(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kBound_s,
                         "seconds for all rows");
  }));
}

// By walking up from each of them this takes longer than anybody waits.
TEST(SelectedTimeTest, ManyBelowDeepRecursion) {
  PageData data;
  data.functions.resize(2);
  data.frames.resize(2);
  data.frames[0].function = 0, data.frames[1].function = 1;
  const auto add = [&](std::uint32_t parent, std::uint32_t frame, double self_s) {
    PagePath path;
    path.parent = parent, path.frame = frame, path.self_s[0] = self_s;
    data.paths.push_back(path);
    return static_cast<std::uint32_t>(data.paths.size() - 1);
  };
  data.paths.emplace_back();
  std::uint32_t at = 0;
  for (int i = 0; i < 10'000; ++i) at = add(at, 0, 0);
  at = add(at, 1, 1);
  for (int i = 0; i < 9000; ++i) add(at, 0, 1);
  const SelectedTime time = selected_time(Analysis(), data, {});
  const Neighbours inner = neighbours(data, time, 1);
  ASSERT_EQ(inner.callers.size(), 1u);
  EXPECT_DOUBLE_EQ(inner.callers[0].total_s, 9001);
  ASSERT_EQ(inner.callees.size(), 1u);
  EXPECT_DOUBLE_EQ(inner.callees[0].total_s, 9000);
  const Neighbours outer = neighbours(data, time, 0);
  ASSERT_EQ(outer.callers.size(), 1u);
  EXPECT_EQ(outer.callers[0].function, shard::kNone);
  ASSERT_EQ(outer.callees.size(), 1u);
  EXPECT_DOUBLE_EQ(outer.callees[0].total_s, 9001);
}

TEST_F(BrowserTest, EveryPageFitsEveryScreen) {
  for (const char page : {'1', '2', '3', '4', '5', '6', '7', '8'}) {
    type({&page, 1});
    for (const std::size_t columns : {60u, 80u, 173u}) {
      for (const std::size_t rows : {20u, 50u}) {
        const std::vector<ScreenLine> lines = screen(columns, rows);
        EXPECT_EQ(lines.size(), rows);
        for (const ScreenLine& line : lines) {
          EXPECT_LE(format::columns(text_of(line)), columns) << page << ": " << text_of(line);
          EXPECT_EQ(text_of(line).find('\x1b'), std::string::npos);
        }
      }
    }
  }
}

TEST_F(BrowserTest, TheOpenPageHasItsNameOnNarrowScreens) {
  type("8");
  EXPECT_EQ(text_of(screen(80).at(0)).find(" 1 Summary  2 Hotspots "), 0u) << text_of(screen(80).at(0));
  EXPECT_NE(text_of(screen(80).at(0)).find("[8 Threads]"), std::string::npos);
  EXPECT_EQ(text_of(screen(60).at(0)), " 1  2  3  4  5  6  7 [8 Threads]");
}

TEST_F(BrowserTest, SaysHowLargeAScreenMustBe) {
  EXPECT_NE(all(59, 24).find("needs 60 columns and 20 rows"), std::string::npos);
  EXPECT_EQ(screen(59, 24).size(), 24u);
  EXPECT_EQ(screen(10, 1).size(), 1u);
}

TEST_F(BrowserTest, HotspotsAreSortedAndFiltered) {
  type("2");
  EXPECT_NE(selected().find("MPI_Send"), std::string::npos);  // 6 s of its own
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("solve()"), std::string::npos);
  type("s");  // by total time
  EXPECT_NE(selected().find("main()"), std::string::npos);
  type("r");
  EXPECT_NE(selected().find("write_all"), std::string::npos);
  type("/STEP");
  EXPECT_NE(selected().find("step()"), std::string::npos);
  EXPECT_FALSE(shows("main()"));
  browser.press(PressedKey::kErase);
  browser.press(PressedKey::kEnter);
  EXPECT_FALSE(browser.press(PressedKey::kText, "q"));  // no more part of the filter
}

TEST_F(BrowserTest, SaysOfWhichTimeCallersAndCalleesHaveAShare) {
  run.hide_small_paths();
  type("a2");  // all ranks again: times are summed up anew
  EXPECT_NE(selected().find("step()"), std::string::npos) << selected();
  EXPECT_NE(selected().find("40.00"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("Called by  share of 12.0 s; the rest is in smaller call paths")) << all();
  EXPECT_TRUE(shows("100.0 %")) << all();
  browser.press(PressedKey::kBack);
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("hidden()"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("only in smaller call paths")) << all();
}

TEST_F(BrowserTest, RegionsHaveTheirWholeNames) {
  for (const char* const name : {"solve (coarse)", "solve (fine)"}) {
    PageFrame region;
    region.kind = FrameKind::kRegion;
    region.name = name;
    run.data.frames.push_back(region);
    PagePath path;
    path.frame = static_cast<std::uint32_t>(run.data.frames.size() - 1);
    path.self_s[0] = 1;
    run.data.paths.push_back(path);
  }
  Browser of_regions(run.analysis, run.data, true);
  of_regions.press(PressedKey::kText, "3");
  std::string text;
  for (const ScreenLine& line : of_regions.draw(100, 24)) text += text_of(line) + "\n";
  EXPECT_NE(text.find("region solve (coarse)"), std::string::npos) << text;
  EXPECT_NE(text.find("region solve (fine)"), std::string::npos) << text;
}

TEST_F(BrowserTest, TreeOpensAndCloses) {
  type("3c");
  EXPECT_NE(selected().find("+ main()"), std::string::npos);
  EXPECT_FALSE(shows("solve()"));
  browser.press(PressedKey::kRight);
  EXPECT_TRUE(shows("+ solve()"));
  EXPECT_TRUE(shows("- main()"));
  browser.press(PressedKey::kRight);  // to the first child
  EXPECT_NE(selected().find("solve()"), std::string::npos);
  browser.press(PressedKey::kLeft);  // it is closed: to its parent
  EXPECT_NE(selected().find("main()"), std::string::npos);
  browser.press(PressedKey::kLeft);
  EXPECT_FALSE(shows("solve()"));
  type("e");
  EXPECT_TRUE(shows("MPI_Send"));
  type("c/send");
  EXPECT_TRUE(shows("step()"));  // above what was found
  EXPECT_FALSE(shows("write_all"));
  browser.press(PressedKey::kBack);
  EXPECT_FALSE(shows("step()"));
}

TEST_F(BrowserTest, EnterOnARankShowsItAlone) {
  type("4");
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("node-a"), std::string::npos);
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("rank 1 alone"));
  EXPECT_NE(selected().find("62.5"), std::string::npos);  // MPI_Send: 5 of 8 s
  EXPECT_FALSE(shows("write_all"));
  type("a");
  EXPECT_FALSE(shows("rank 1 alone"));
  EXPECT_NE(selected().find("37.5"), std::string::npos);
}

TEST_F(BrowserTest, RanksByWhatTheyWaited) {
  type("4sss");
  EXPECT_NE(selected().find("4.5"), std::string::npos);
  type("/node-b");
  EXPECT_TRUE(shows("nothing that matches"));
}

TEST_F(BrowserTest, FunctionsLeadToEachOther) {
  type("2");
  browser.press(PressedKey::kDown);
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("Called by"));
  EXPECT_TRUE(shows("/src/solve.py:10"));
  EXPECT_TRUE(shows("rank 1"));
  type("/step");
  browser.press(PressedKey::kEnter);
  for (int i = 0; i < 30 && selected().find("step()") == std::string::npos; ++i)
    browser.press(PressedKey::kDown);
  for (int i = 0; i < 30 && selected().find("step()") == std::string::npos; ++i)
    browser.press(PressedKey::kUp);
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("/src/solve.py:20"));
  browser.press(PressedKey::kBack);
  EXPECT_TRUE(shows("/src/solve.py:10"));
  browser.press(PressedKey::kBack);  // the filter
  browser.press(PressedKey::kBack);
  EXPECT_FALSE(shows("Called by"));
}

TEST_F(BrowserTest, SourceOfACall) {
  type("5");
  for (int i = 0; i < 5 && selected().find("MPI_Send") == std::string::npos; ++i)
    browser.press(PressedKey::kDown);
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("Source  /src/solve.py"));
  EXPECT_TRUE(shows("x = 1"));
  browser.press(PressedKey::kHome);
  type("n");
  EXPECT_NE(selected().find("x = 1"), std::string::npos);
  EXPECT_NE(selected().find("4.00 s"), std::string::npos);
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("/src/solve.py"), std::string::npos);
}

TEST_F(BrowserTest, ColumnsOfWaitingHaveTitles) {
  run.analysis.places.emplace_back().function = "solve";
  RootCauseRow& cause = run.analysis.root_causes.emplace_back();
  cause.rank = 1;
  cause.wait_s = 3;
  cause.share = 0.25;
  DelayRow& delay = run.analysis.delays.emplace_back();
  delay.rank = 1;
  delay.wait_s = 3;
  CriticalRow& part = run.analysis.critical_path.emplace_back();
  part.time_s = 4;
  part.share = 0.5;
  type("5");
  EXPECT_TRUE(shows(" wait s    share rank, was in")) << all();
  EXPECT_TRUE(shows("   3.00   25.0 % rank 1 in solve()")) << all();
  EXPECT_TRUE(shows(" wait s kind of waiting, for whom")) << all();
  EXPECT_TRUE(shows(" time s    share where")) << all();
  EXPECT_FALSE(shows("  s of waiting"));
}

TEST_F(BrowserTest, MessagesAreShownBesidesAFilter) {
  run.analysis.mpi_calls.front().file = "/src/elsewhere.c";
  type("5/send");
  browser.press(PressedKey::kEnter);
  for (int i = 0; i < 5 && selected().find("MPI_Send") == std::string::npos; ++i)
    browser.press(PressedKey::kDown);
  EXPECT_TRUE(shows("/send"));
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("The report has no source of /src/elsewhere.c")) << all();
  browser.press(PressedKey::kDown);
  EXPECT_TRUE(shows("/send")) << all();
}

TEST_F(BrowserTest, TheFilterOfATextEndsWithIt) {
  type("6");
  browser.press(PressedKey::kEnter);
  type("/x = 1");
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("x = 1"), std::string::npos) << selected();
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("/src/solve.py"), std::string::npos) << all();
  EXPECT_FALSE(shows("/x = 1"));
}

TEST_F(BrowserTest, ProcessesOpenAndCloseAndLeadToTheirLine) {
  type("7");
  EXPECT_NE(selected().find("+ 2 x worker"), std::string::npos) << selected();
  browser.press(PressedKey::kRight);
  browser.press(PressedKey::kDown);
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("pid 511"), std::string::npos) << "of rank 1, which has more time";
  EXPECT_NE(selected().find("SIGKILL"), std::string::npos);
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ 2 x worker"), std::string::npos) << "the line of the group again";
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("x = 1"), std::string::npos) << selected();
}

TEST_F(BrowserTest, ThreadsOpenAndCloseAndLeadToTheirLine) {
  type("8");
  EXPECT_NE(selected().find("+ writer"), std::string::npos) << selected();
  browser.press(PressedKey::kDown);
  const std::string group = selected();
  EXPECT_NE(group.find("+ 3 x loader-*"), std::string::npos) << group;
  EXPECT_NE(group.find("python"), std::string::npos) << group;
  EXPECT_NE(group.find("step()"), std::string::npos) << group;
  for (const char* const number : {"6.0", "1.0", "2.0", "3.0"})  // CPU time of all; least, mean, most of one
    EXPECT_NE(group.find(number), std::string::npos) << group;
  EXPECT_FALSE(shows("loader-1"));
  browser.press(PressedKey::kRight);
  browser.press(PressedKey::kDown);
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("loader-1 tid 701"), std::string::npos) << selected();
  EXPECT_FALSE(shows("tid 710 "));
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ 3 x loader-*"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("x = 1"), std::string::npos) << selected();
}

TEST_F(BrowserTest, EventLoopsOpenToTheLinesThatBlockedThem) {
  type("8/server");
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("Event loops"));
  browser.press(PressedKey::kEnd);
  EXPECT_NE(selected().find("server"), std::string::npos) << selected();
  EXPECT_NE(selected().find("(asyncio)"), std::string::npos) << selected();
  EXPECT_NE(selected().find("dumps()"), std::string::npos) << selected();
  EXPECT_FALSE(shows("loads()"));
  browser.press(PressedKey::kRight);
  browser.press(PressedKey::kEnd);
  EXPECT_NE(selected().find("4 turns of handle  loads()"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("end"), std::string::npos) << selected();
  type("8");
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ server"), std::string::npos) << "the line of the loop again: " << selected();
}

TEST_F(BrowserTest, ParallelRegionsOpenToWhatIsInside) {
  type("8");
  EXPECT_TRUE(shows("Parallel regions"));
  browser.press(PressedKey::kEnd);
  EXPECT_NE(selected().find("+ 40 x"), std::string::npos) << selected();
  EXPECT_NE(selected().find("1.25"), std::string::npos) << selected();
  EXPECT_FALSE(shows("barrier"));
  browser.press(PressedKey::kRight);
  browser.press(PressedKey::kEnd);
  EXPECT_NE(selected().find("barrier"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("end"), std::string::npos) << selected();
  type("8");
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ 40 x"), std::string::npos) << selected();
}

TEST_F(BrowserTest, MutexesHaveTheirNamesAndWhereTheyWereHeld) {
  LockRow& lock = run.analysis.locks.emplace_back();
  lock.name = "queue_lock";
  lock.waits = 7;
  lock.wait_s = 2.5, lock.longest_s = 0.75;
  SourceLocation& holder = lock.holders.emplace_back().place;
  holder.function = "fill", holder.file = "/src/solve.py", holder.line = 2;
  type("8/queue");
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("Locks that threads waited for"));
  browser.press(PressedKey::kEnd);
  for (const char* const part : {"queue_lock", "fill()", "2.5", "750 ms", " 7 "})
    EXPECT_NE(selected().find(part), std::string::npos) << part << ": " << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("x = 1"), std::string::npos) << selected();
}

TEST_F(BrowserTest, WithoutMemoryThereIsNoPageOfIt) {
  type("9");
  EXPECT_TRUE(shows("[1 Summary]"));
}

TEST_F(BrowserWithMemory, LinesOpenToTheRanksThatHeldThem) {
  type("9");
  EXPECT_TRUE(shows("[9 Memory]"));
  EXPECT_NE(selected().find("+ leak step() solve.py:2"), std::string::npos) << selected();
  EXPECT_NE(selected().find("5.00 MB"), std::string::npos) << selected();
  EXPECT_FALSE(shows("    rank 1 on node-a"));
  browser.press(PressedKey::kRight);
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("4.00 MB"), std::string::npos) << selected();
  EXPECT_NE(selected().find("rank 1 on node-a"), std::string::npos) << selected();
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("1.00 MB"), std::string::npos) << "rank 0's part of the line: " << selected();
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ leak step()"), std::string::npos) << selected();
  type("sss");  // by what was allocated
  EXPECT_NE(selected().find("9.00 MB"), std::string::npos) << selected();
  browser.press(PressedKey::kEnter);
  EXPECT_NE(selected().find("x = 1"), std::string::npos) << selected();
  type("9");
  for (const std::size_t columns : {60u, 80u, 173u})
    for (const ScreenLine& line : screen(columns)) {
      EXPECT_LE(format::columns(text_of(line)), columns);
      EXPECT_EQ(text_of(line).find('\x1b'), std::string::npos);
    }
}

TEST_F(BrowserWithLabels, SpacesOpenToTheirLabels) {
  type("9");
  EXPECT_TRUE(shows("[9 Memory]"));
  EXPECT_NE(selected().find("+ Cuda"), std::string::npos) << selected();
  for (const char* const part : {"6.00 MB", "9.00 MB", "1.50 MB", "20.0 MB", "rank 1 after 2.50 s"})
    EXPECT_NE(selected().find(part), std::string::npos) << part << ": " << selected();
  EXPECT_FALSE(shows("(no label)"));
  browser.press(PressedKey::kRight);
  EXPECT_NE(selected().find("- Cuda"), std::string::npos) << selected();
  EXPECT_TRUE(shows("(no label)"));
  browser.press(PressedKey::kDown);
  for (const char* const part : {"5.50 MB", "8.00 MB", "10.0 MB", "grid", "rank 1 had 7.50 MB"})
    EXPECT_NE(selected().find(part), std::string::npos) << part << ": " << selected();
  browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("(no label)"), std::string::npos) << selected();
  browser.press(PressedKey::kLeft);
  EXPECT_NE(selected().find("+ Cuda"), std::string::npos) << selected();
  EXPECT_FALSE(shows("(no label)"));
  browser.press(PressedKey::kEnd);
  for (const char* const part : {"11.0 MB", "7", "6.50 MB", "Host to Cuda  rank 1"})
    EXPECT_NE(selected().find(part), std::string::npos) << part << ": " << selected();
  type("s");  // there is nothing to sort
  EXPECT_NE(selected().find("Host to Cuda"), std::string::npos) << selected();
  browser.press(PressedKey::kHome);
  browser.press(PressedKey::kEnter);
  EXPECT_TRUE(shows("rank 1 alone"));
}

TEST_F(BrowserWithLabels, TheFilterFindsLabelsOfClosedSpaces) {
  type("9/TABLES");
  EXPECT_TRUE(shows("+ Host"));
  EXPECT_TRUE(shows("tables of"));
  EXPECT_FALSE(shows("Cuda"));
  browser.press(PressedKey::kBack);
  EXPECT_TRUE(shows("+ Cuda"));
  EXPECT_FALSE(shows("tables of"));
}

TEST_F(BrowserWithMemoryAndLabels, SpacesAreBetweenLinesAndRanks) {
  type("9");
  EXPECT_NE(selected().find("+ leak step()"), std::string::npos) << selected();
  const std::string text = all();
  const std::size_t line = text.find("leak step()"), space = text.find("+ Cuda"),
                    rank = text.find("Ranks  unseen");
  EXPECT_LT(line, text.find("Memory by label")) << text;
  EXPECT_LT(text.find("Memory by label"), space) << text;
  EXPECT_LT(space, text.find("Host to Cuda")) << text;
  EXPECT_LT(text.find("Host to Cuda"), rank) << text;
  EXPECT_NE(rank, std::string::npos) << text;
  type("/cuda");
  EXPECT_FALSE(shows("step()"));
  browser.press(PressedKey::kBack);
  for (int i = 0; i < 5; ++i) browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("+ Cuda"), std::string::npos) << selected();
  browser.press(PressedKey::kRight);
  for (int i = 0; i < 3; ++i) browser.press(PressedKey::kDown);
  EXPECT_NE(selected().find("+ Host"), std::string::npos) << selected();
  browser.press(PressedKey::kRight);
  for (const std::size_t columns : {60u, 80u, 173u})
    for (const ScreenLine& of : screen(columns, 40)) {
      EXPECT_LE(format::columns(text_of(of)), columns) << text_of(of);
      EXPECT_EQ(text_of(of).find('\x1b'), std::string::npos) << text_of(of);
    }
}

TEST_F(BrowserTest, ThreadsAndLoopsAreFilteredByNameAndRank) {
  type("8/LOADER");
  EXPECT_TRUE(shows("loader-*"));
  EXPECT_FALSE(shows("writer"));
  EXPECT_FALSE(shows("Event loops"));
  browser.press(PressedKey::kBack);
  type("4");
  browser.press(PressedKey::kEnter);  // rank 0 alone
  type("8");
  EXPECT_TRUE(shows("loader-*"));
  EXPECT_FALSE(shows("writer"));
  EXPECT_FALSE(shows("Event loops"));
}

TEST_F(BrowserTest, HelpIsShownAndQuitEnds) {
  type("?");
  EXPECT_TRUE(shows("all ranks again"));
  type("x");
  EXPECT_FALSE(shows("all ranks again"));
  EXPECT_FALSE(browser.press(PressedKey::kText, "q"));
}

TEST(BrowserOfNothingTest, ShowsEmptyViews) {
  const Analysis analysis;
  const PageData data;
  Browser browser(analysis, data, false);
  for (const char page : {'1', '2', '3', '4', '5', '6', '7', '8'}) {
    browser.press(PressedKey::kText, {&page, 1});
    for (const PressedKey key : {PressedKey::kDown, PressedKey::kEnter, PressedKey::kRight, PressedKey::kLeft,
                                 PressedKey::kEnd, PressedKey::kPageUp})
      browser.press(key);
    EXPECT_EQ(browser.draw(80, 24).size(), 24u);
  }
}

}  // namespace
}  // namespace clusterprof::report
