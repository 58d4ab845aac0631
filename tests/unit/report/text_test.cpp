// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/command_text.hpp"
#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/report.hpp"
#include "report/text/table.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::ProfileBuilder;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

void expect_fits(const std::string& text, std::size_t width) {
  EXPECT_EQ(text.empty() ? '\n' : text.back(), '\n');
  for (const std::string& line : lines_of(text)) {
    EXPECT_LE(format::columns(line), width) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "[" << line << "]";
    EXPECT_EQ(format::printable(line), line);
  }
}

// Names as a hostile program might choose them, at every place that takes a name.
shard::ShardData hostile_run(shard::ShardData data = testing::training_run()) {
  const std::string evil =
      std::string("\x1b]0;pwned\x07\x1b[2J\r\n\xc2\x9b") + "31m\xe2\x80\xae" + "\xff" + std::string(300, 'x');
  for (std::string& text : data.strings)
    if (!text.empty()) text = evil + text;
  data.run.id = data.run.mpi_library = data.run.version = data.run.clock = evil;
  data.run.command = {evil, evil};
  data.run.notes = {note_of_run(shard::NoteCode::kFileNotReadable, 0, evil, evil),
                    note_of_node(shard::NoteCode::kNodeCheckWarned, evil, 0, evil)};
  for (shard::Node& node : data.nodes) node.name = evil;
  for (std::string& counter : data.counters) counter = evil + counter;
  data.unavailable_counters = {{evil, evil}};
  data.drops = {{0, evil, 1'000'000}};
  for (shard::Node& node : data.nodes) node.cpu_model = evil;
  for (shard::IoFile& file : data.io_files) file = {"/" + evil, evil};
  data.ranks[0].flags |= shard::kLost;
  return data;
}

void expect_one_line(const std::string& line) {
  ASSERT_FALSE(line.empty());
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  EXPECT_LE(line.size() - 1, 255u) << line;
  for (const char c : line.substr(0, line.size() - 1)) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
}

TEST(OneLine, IsPrintableAsciiWhateverTheNames) {
  for (const shard::ShardData& data :
       {testing::training_run(), testing::delayed_run(), testing::resources_run()}) {
    expect_one_line(render_oneline(analyse(data)));
    expect_one_line(render_oneline(analyse(hostile_run(data))));
  }
  expect_one_line(render_oneline(analyse(shard::ShardData{})));
  ProfileBuilder umlauts(2);
  umlauts.data.run.command = {"/home/j\xc3\xb6rg/r\xc3\xa4um\xe2\x82\xac", "a\nb", "\xff"};
  const std::string line = render_oneline(analyse(umlauts.data));
  expect_one_line(line);
  EXPECT_TRUE(line.starts_with("/home/j?rg/r?um?")) << line;
}

TEST(Text, SaysWhichRanksRanWhichCommand) {
  ProfileBuilder builder(6);
  builder.data.run.command = {"./a"};
  const auto run_by = [&](std::size_t first, std::size_t last, std::vector<std::string> command) {
    for (std::size_t rank = first; rank <= last; ++rank)
      builder.data.ranks[rank].command = builder.string(command_text(command));
  };
  run_by(0, 5, {"./a"});
  EXPECT_EQ(format::command_line(analyse(builder.data).run), "./a");
  run_by(2, 4, {"./b", "two words"});
  const Analysis analysis = analyse(builder.data);
  EXPECT_EQ(format::command_line(analysis.run), "ranks 0-1, 5: ./a; ranks 2-4: ./b 'two words'");
  EXPECT_NE(render_oneline(analysis).find("ranks 0-1, 5: ./a; ranks 2-4: ./b 'two words'; 6 ranks"),
            std::string::npos);
  for (std::size_t rank = 0; rank < 6; ++rank) run_by(rank, rank, {"./c", std::to_string(rank)});
  EXPECT_EQ(format::command_lines(analyse(builder.data).run, 3),
            (std::vector<std::string>{"rank 0: ./c 0", "rank 1: ./c 1", "and 4 more commands"}));
  EXPECT_EQ(format::command_lines(analyse(builder.data).run, 6).back(), "rank 5: ./c 5");
}

TEST(OneLine, SaysHowManyRanksAreLost) {
  ProfileBuilder builder(8, 4);
  EXPECT_EQ(render_oneline(analyse(builder.data)).find("incomplete"), std::string::npos);
  builder.data.run.complete = false;
  EXPECT_NE(render_oneline(analyse(builder.data)).find("on 4 nodes, 10.0 s; incomplete"), std::string::npos);
  EXPECT_EQ(render_oneline(analyse(builder.data)).find("lost"), std::string::npos);
  builder.data.ranks[2].flags |= shard::kLost;
  EXPECT_NE(render_oneline(analyse(builder.data)).find("; incomplete: 1 rank lost;"), std::string::npos);
  builder.data.run.world_size = 12;  // and four that no shard has
  EXPECT_NE(render_oneline(analyse(builder.data)).find("; incomplete: 5 ranks lost;"), std::string::npos);
  builder.data.run.command = {std::string(3000, 'x')};
  expect_one_line(render_oneline(analyse(builder.data)));
  EXPECT_NE(render_oneline(analyse(builder.data)).find("; incomplete: 5 ranks lost;"), std::string::npos);
}

TEST(Text, FitsItsWidth) {
  for (const shard::ShardData& data :
       {testing::training_run(), testing::delayed_run(), testing::resources_run()}) {
    const Analysis a = analyse(data);
    for (const int width : {0, 80, 81, 100, 132, 250}) {
      TextOptions options;
      options.width = width;
      options.unicode = width % 2 != 0;
      expect_fits(render_text(a, options), static_cast<std::size_t>(std::max(width, 80)));
      options.sections = {"comm", "waits", "io", "off-cpu", "regions", "timeline", "nodes", "counters"};
      expect_fits(render_text(a, options), static_cast<std::size_t>(std::max(width, 80)));
    }
  }
}

TEST(Text, HostileNamesDoNotReachTheTerminal) {
  const Analysis a = analyse(hostile_run());
  expect_fits(render_text(a, {}), 80);
  expect_fits(render_banner(a, "run\x1b[31m", 80), 80);
  EXPECT_NE(render_text(a, {}).find("\\x1b"), std::string::npos);
  const Analysis delayed = analyse(hostile_run(testing::delayed_run()));
  expect_fits(render_text(delayed, {}), 80);
  const std::string waits = render_text(delayed, {80, false, {"comm", "waits"}, 15});
  expect_fits(waits, 80);
  EXPECT_NE(waits.find("\\x1b"), std::string::npos);
  for (const Finding& finding : delayed.findings)
    EXPECT_EQ(format::printable(text_of(delayed, finding)), text_of(delayed, finding));
  for (const Finding& finding : a.findings)
    EXPECT_EQ(format::printable(text_of(a, finding)), text_of(a, finding));
  const Analysis resources = analyse(hostile_run(testing::resources_run()));
  const std::string sections =
      render_text(resources, {80, false, {"io", "off-cpu", "regions", "timeline", "nodes", "counters"}, 15});
  expect_fits(sections, 80);
  EXPECT_NE(sections.find("\\x1b"), std::string::npos);
  for (const Finding& finding : resources.findings)
    EXPECT_EQ(format::printable(text_of(resources, finding)), text_of(resources, finding));
  for (const Bottleneck& row : resources.bottlenecks)
    EXPECT_EQ(format::printable(text_of(resources, row)), text_of(resources, row));
  // With colours, the escape sequences left are ours: they end in 'm' and name no title or screen.
  std::string coloured = render_text(a, {80, true, {}, 15});
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos; at = coloured.find('\x1b', at + 1)) {
    ASSERT_EQ(coloured[at + 1], '[');
    const std::size_t end = coloured.find_first_not_of("0123456789;", at + 2);
    ASSERT_EQ(coloured[end], 'm');
  }
}

// What is shown in a terminal without a report takes its colours from there.
TEST(Text, HasTheColoursOfLooks) {
  for (std::size_t category = 0; category < shard::kCategories; ++category) {
    const text::Style style = text::category_style(category);
    const text::Look look = text::look_of(style);
    std::string escape = look.dim ? "\x1b[2m" : "\x1b[3?m";
    std::replace(escape.begin(), escape.end(), '?', static_cast<char>('0' + static_cast<int>(look.colour)));
    text::Page page(80, true);
    page.line("x", style);
    EXPECT_EQ(page.take(), escape + "x\x1b[0m\n");
  }
  text::Page page(80, true);
  page.line("x", text::Style::kBad);
  EXPECT_EQ(page.take(), "\x1b[1;31mx\x1b[0m\n");
  EXPECT_EQ(text::look_of(text::category_style(testing::kMpiIndex)).colour, text::Colour::kRed);
}

TEST(Text, WideNamesKeepTheColumns) {
  ProfileBuilder b(2);
  b.sampled(0, b.path({b.python("计算梯度", "/u/模型.py", 3, 2)}), Category::kPython, 10'000);
  b.data.nodes[0].name = "knoten-ü";
  const std::string text = render_text(analyse(b.data), {});
  expect_fits(text, 80);
  EXPECT_NE(text.find("计算梯度() 模型.py:2"), std::string::npos);
}

TEST(Text, ChosenSectionsComeInTheUsualOrder) {
  const Analysis a = analyse(testing::training_run());
  const std::string text = render_text(a, {80, false, {"comm", "hotspots"}, 15});
  const std::size_t hotspots = text.find("Hotspots"), comm = text.find("MPI by call site");
  ASSERT_NE(hotspots, std::string::npos);
  ASSERT_NE(comm, std::string::npos);
  EXPECT_LT(hotspots, comm);
  EXPECT_EQ(text.find("Findings"), std::string::npos);
  EXPECT_NE(text.find("MPI_Allreduce <- step() train.py:88"), std::string::npos);
  for (const std::string& name : section_names())
    EXPECT_FALSE(render_text(a, {80, false, {name}, 15}).empty());
}

TEST(Text, EmptySectionsArePrintedOnlyWhenAskedFor) {
  ProfileBuilder b(1);
  const Analysis a = analyse(b.data);
  EXPECT_EQ(render_text(a, {}).find("No MPI calls"), std::string::npos);
  EXPECT_NE(render_text(a, {80, false, {"comm"}, 15}).find("No MPI calls"), std::string::npos);
  EXPECT_NE(render_text(a, {80, false, {"lines"}, 15}).find("compile with -g"), std::string::npos);
}

TEST(Text, RowsAreLimitedAndTheRestCounted) {
  ProfileBuilder b(1);
  for (std::uint32_t i = 0; i < 20; ++i)
    b.sampled(0, b.path({b.native("function_" + std::to_string(i), "/a.out")}), Category::kNative, 100 + i);
  const std::string text = render_text(analyse(b.data), {80, false, {"hotspots"}, 5});
  EXPECT_NE(text.find("function_15()"), std::string::npos);
  EXPECT_EQ(text.find("function_14()"), std::string::npos);
  EXPECT_NE(text.find(".. and 15 more"), std::string::npos);
}

TEST(Text, SmallCallSitesAreCountedBeyondTheFirstEight) {
  ProfileBuilder b(1);
  const auto site = [&](std::uint32_t line) {
    return b.path({b.native("main", "/a.out", "a.c", line), b.mpi("MPI_Send")});
  };
  const auto comm = [&] { return render_text(analyse(b.data), {80, false, {"comm"}, 15}); };
  b.called(0, site(101), 1, 5000);
  for (std::uint32_t line = 102; line <= 112; ++line) b.called(0, site(line), 1, 1);
  EXPECT_NE(comm().find("a.c:108"), std::string::npos);
  EXPECT_EQ(comm().find("a.c:109"), std::string::npos);
  EXPECT_NE(comm().find(".. and 4 more"), std::string::npos) << comm();
  b.called(0, site(109), 1, 10);  // above a thousandth: shown, first of the small ones
  for (std::uint32_t line = 102; line <= 108; ++line) b.called(0, site(line), 1, 20);
  EXPECT_NE(comm().find("a.c:109"), std::string::npos);
  EXPECT_NE(comm().find(".. and 3 more"), std::string::npos) << comm();
}

TEST(Text, ManyRanksAreSummedUp) {
  ProfileBuilder b(200, 4);
  const auto wait = b.path({b.native("main", "/a.out", "a.c", 5), b.mpi("MPI_Barrier")});
  for (std::uint32_t r = 0; r < 200; ++r) {
    const std::uint64_t mpi_ms = r == 123 ? 1000 : 5000;
    b.called(r, wait, 1, mpi_ms);
    b.sampled(r, b.path({b.native("work", "/a.out", "a.c", 3)}), Category::kNative, 10'000 - mpi_ms);
  }
  const std::string text = render_text(analyse(b.data), {80, false, {"ranks"}, 15});
  expect_fits(text, 80);
  EXPECT_LT(lines_of(text).size(), 25u);
  EXPECT_NE(text.find("| slowest"), std::string::npos);
  EXPECT_NE(text.find("   123  n2"), std::string::npos);
}

TEST(Text, SumsInHoursHaveRanksInSeconds) {
  ProfileBuilder b(4000, 4);
  const auto wait = b.path({b.native("main", "/a.out", "a.c", 5), b.mpi("MPI_Barrier")});
  const auto work = b.path({b.native("main", "/a.out", "a.c", 3)});
  for (std::uint32_t r = 0; r < 4000; ++r) {
    b.called(r, wait, 1, 30'000 + r);
    b.sampled(r, work, Category::kNative, r == 17 ? 69'000 : 50'000);
  }
  b.lasts(100'000);
  const std::string text = render_text(analyse(b.data), {80, false, {"hotspots", "lines", "comm"}, 15});
  expect_fits(text, 80);
  for (const char* part : {"by self time, in h;", "of total, per rank in s", "of self in s",
                           "of time, per rank in s", "30.00    32.00    34.00  3999"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Text, LongListsOfRanksAreCounted) {
  ProfileBuilder b(100);
  const auto python = b.path({b.python("f", "f.py", 2, 1)}), native = b.path({b.native("g", "/a.out")});
  for (std::uint32_t r = 0; r < 100; ++r)
    b.sampled(r, r % 3 == 0 ? python : native, r % 3 == 0 ? Category::kPython : Category::kNative, 10'000);
  const std::string text = render_text(analyse(b.data), {250, false, {"summary"}, 15});
  EXPECT_NE(text.find("python 34 (0, 3, 6, ..)"), std::string::npos) << text;
}

// A run of more than 100 s is wider than 80 columns.
TEST(Text, RanksLeaveOutWhatNoneHasBeforeWhatSomeHave) {
  ProfileBuilder b(2);
  const auto main = b.path({b.native("main", "/u/a.out", "/u/a.c", 9)});
  const auto text = [&](std::uint64_t ms) {
    b.data.values.clear();
    for (std::uint32_t r = 0; r < 2; ++r) {
      b.data.ranks[r].main_thread_ns = {};
      b.data.ranks[r].elapsed_ns = 2 * ms * testing::kMs;
      b.data.ranks[r].cpu_ns = ms * testing::kMs;
      b.sampled(r, main, shard::Category::kNative, ms);
      b.sampled(r, main, shard::Category::kRunnable, ms);
    }
    TextOptions options;
    options.sections = {"ranks"};
    return render_text(analyse(b.data), options);
  };
  EXPECT_NE(text(4000).find("python"), std::string::npos) << text(4000);
  const std::string longer = text(400'000);
  const std::size_t head = longer.find("rank  elapsed");
  ASSERT_NE(head, std::string::npos) << longer;
  const std::string titles = longer.substr(head, longer.find('\n', head) - head);
  EXPECT_NE(titles.find("native"), std::string::npos) << longer;
  EXPECT_NE(titles.find("ready"), std::string::npos) << longer;
  EXPECT_NE(titles.find("cpu"), std::string::npos) << longer;
  EXPECT_EQ(titles.find("python"), std::string::npos) << longer;
}

TEST(Text, UnknownIsADashNotAZero) {
  ProfileBuilder b(1);
  b.data.ranks[0].flags |= shard::kMpiUnwatched;
  const std::string text = render_text(analyse(b.data), {80, false, {"ranks"}, 15});
  bool found = false;
  for (const std::string& line : lines_of(text))
    if (line.find("10.00") != std::string::npos) {
      found = true;
      EXPECT_EQ(std::count(line.begin(), line.end(), '-'), 9) << line;
    }
  EXPECT_TRUE(found) << text;
}

TEST(Banner, IsShortWhateverHappened) {
  expect_fits(render_banner(analyse(testing::training_run()), "run", 80), 80);
  const std::string folder(250, 'y');
  const std::string banner = render_banner(analyse(hostile_run()), folder, 80);
  EXPECT_LE(lines_of(banner).size(), 25u);
  std::string joined = banner;
  for (std::size_t at; (at = joined.find("\\\n")) != std::string::npos;) joined.erase(at, 2);
  EXPECT_NE(joined.find("clusterprof report " + folder + "\n"), std::string::npos)
      << "a shell must be able to join the command";
  expect_fits(render_banner(analyse(testing::training_run()), "run", 10), 40);
  expect_fits(render_banner(analyse(hostile_run()), folder, 250), 80);
}

TEST(Banner, SaysWhatIsLost) {
  shard::ShardData data = testing::training_run();
  data.ranks.pop_back();
  data.run.complete = false;
  const std::string banner = render_banner(analyse(data), "run", 80);
  EXPECT_NE(banner.find("INCOMPLETE"), std::string::npos);
  EXPECT_NE(banner.find("missing ranks 3\n"), std::string::npos) << "few samples do not matter" << banner;
  data.drops = {{0, "ring_full", data.ranks[0].samples}};
  EXPECT_NE(render_banner(analyse(data), "run", 80).find("missing ranks 3; "), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::report
