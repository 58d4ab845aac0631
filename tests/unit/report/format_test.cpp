// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "report/format/characters.hpp"
#include "report/format/names.hpp"
#include "report/format/numbers.hpp"

namespace clusterprof::report::format {
namespace {

TEST(Printable, KeepsTextAndShowsTheRest) {
  EXPECT_EQ(printable("Größe_计算()"), "Größe_计算()");
  EXPECT_EQ(printable("\x1b[31mred\x07\n\t"), "\\x1b[31mred\\x07\\x0a\\x09");
  EXPECT_EQ(printable("\xc2\x9b"), "\\x9b") << "C1 control: CSI in one character";
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b"),
            "a\\u202eb")
      << "right-to-left override";
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "overlong";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(printable("\xe8\xae"), "\\xe8\\xae") << "cut off";
  const std::string twice = printable(printable("\x1b\xff"));
  EXPECT_EQ(twice, printable("\x1b\xff"));
}

TEST(JsonString, EscapesWhatTerminalsObeyAndWhatReordersText) {
  EXPECT_EQ(json_string("Größe \"a\\b\""), "\"Größe \\\"a\\\\b\\\"\"");
  EXPECT_EQ(json_string("\x1b[31m\n\t\x7f"), "\"\\u001B[31m\\n\\t\\u007F\"");
  EXPECT_EQ(json_string("\u009b\u202e"), "\"\\u009B\\u202E\"");
  EXPECT_EQ(json_string("\U000e0041"), "\"\\uDB40\\uDC41\"") << "a tag, as a pair of surrogates";
  EXPECT_EQ(json_string("a\xff"), "\"a\xef\xbf\xbd\"");
  EXPECT_TRUE(is_printable("Größe_计算()"));
  for (const char* text : {"\n", "\x7f", "\u009b", "\u202e", "\xff"})
    EXPECT_FALSE(is_printable(text)) << text;
}

TEST(Columns, CountWideAndCombining) {
  EXPECT_EQ(columns("abc"), 3u);
  EXPECT_EQ(columns("计算"), 4u);
  EXPECT_EQ(columns("e\xcc\x81"), 1u);
  EXPECT_EQ(shorten("计算机", 5), "计..");
  EXPECT_EQ(shorten_middle("abcdefghij", 7), "ab..hij");
  EXPECT_EQ(columns(shorten_middle("计算机计算机计算机", 9)) <= 9, true);
  EXPECT_EQ(pad_left("计", 4), "  计");
  EXPECT_EQ(pad_right("ab", 1), "ab");
}

TEST(Numbers, ThreeDigitsAndAUnit) {
  EXPECT_EQ(seconds(0), "0 s");
  EXPECT_EQ(seconds(5e-9), "5 ns");
  EXPECT_EQ(seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(seconds(0.9996), "1.00 s");
  EXPECT_EQ(seconds(1.234), "1.23 s");
  EXPECT_EQ(seconds(12.34), "12.3 s");
  EXPECT_EQ(seconds(9.999), "10.0 s");
  EXPECT_EQ(seconds(3600), "3600 s");
  EXPECT_EQ(seconds(36000), "10.0 h");
  EXPECT_EQ(seconds(-1.5), "-1.50 s");
  EXPECT_EQ(bytes(0), "0 B");
  EXPECT_EQ(bytes(999), "999 B");
  EXPECT_EQ(bytes(4'500'000), "4.50 MB");
  EXPECT_EQ(bytes(999'600), "1.00 MB");
  EXPECT_EQ(bytes(1.8e19), "18.0 EB");
  EXPECT_EQ(count(9999), "9999");
  EXPECT_EQ(count(12'345), "12.3 k");
  EXPECT_EQ(percent(0.4525), "45.2 %");
  EXPECT_EQ(bin_bytes(0), "0 B");
  EXPECT_EQ(bin_bytes(512), "512 B");
  EXPECT_EQ(bin_bytes(1 << 20), "1 MiB");
  EXPECT_EQ(utc(1'700'000'000'999'999'999), "2023-11-14 22:13:20 UTC");
}

TEST(TimeScale, OneUnitPerColumn) {
  EXPECT_EQ(TimeScale(12.0)(1.234), "1.23");
  EXPECT_STREQ(TimeScale(12.0).unit(), "s");
  EXPECT_EQ(TimeScale(0.05)(0.0123), "12.30");
  EXPECT_STREQ(TimeScale(0.05).unit(), "ms");
  EXPECT_EQ(TimeScale(5000)(5000), "5000.0");
  EXPECT_STREQ(TimeScale(360'000).unit(), "h");
  EXPECT_EQ(TimeScale(360'000)(360'000), "100.00");
}

TEST(Names, ArgumentTypesGoAndOddNamesStay) {
  using shard::FrameKind;
  EXPECT_EQ(function_label("step", FrameKind::kPython), "step()");
  EXPECT_EQ(function_label("<module>", FrameKind::kPython), "<module>");
  EXPECT_EQ(function_label("waiting for a processor", FrameKind::kNative), "waiting for a processor");
  EXPECT_EQ(function_label("Solver<double(int)>::run(int, char*)", FrameKind::kNative),
            "Solver<double(int)>::run()");
  EXPECT_EQ(function_label("(anonymous namespace)::f(int)", FrameKind::kNative),
            "(anonymous namespace)::f()");
  EXPECT_EQ(function_label("A::operator()(int) const", FrameKind::kNative), "A::operator()(int) const");
  EXPECT_EQ(function_label("std::vector<double, std::allocator<double> >::push_back(double const&)",
                           FrameKind::kNative),
            "std::vector<>::push_back()");
  EXPECT_EQ(function_label("void mini::kernels::internals<double, int>(std::vector<double>&, int)",
                           FrameKind::kNative),
            "mini::kernels::internals<>()");
  EXPECT_EQ(function_label("std::vector<int> f<int>(int)", FrameKind::kNative), "f<int>()");
  EXPECT_EQ(function_label("_umath, no names", FrameKind::kNative), "_umath, no names");
  EXPECT_EQ(function_label("libx.so+0x12ab", FrameKind::kNative), "libx.so+0x12ab");
  EXPECT_EQ(function_label("MPI_Send", FrameKind::kMpi), "MPI_Send");
  EXPECT_EQ(function_label("solve (coarse)", FrameKind::kRegion), "solve (coarse)");
  EXPECT_EQ(function_label("a<b", FrameKind::kRegion), "a<b");
  EXPECT_EQ(function_label("", FrameKind::kNative), "?");
  EXPECT_EQ(name_and_place("a_very_long_function_name()", "train.py:88", 30), "a_very_long_function_name()");
  EXPECT_EQ(name_and_place("a_long_function()", "package/module.py:88", 30),
            "a_long_function() packa..py:88");
  EXPECT_EQ(function_label("mini::Solver<double>::run(int)::{lambda(double)#1}::operator()(double) const",
                           FrameKind::kNative),
            "mini::Solver<double>::run()::{lambda}");
  EXPECT_EQ(function_label("void std::sort<double*, run(int)::{lambda(double, double)#1}>(double*, double*)",
                           FrameKind::kNative),
            "std::sort<>()");
  EXPECT_EQ(function_label("void apply<int>(std::vector<int>&, run()::{lambda(int)#1})", FrameKind::kNative),
            "apply<int>()");
}

TEST(Plural, OfProcessesToo) {
  EXPECT_EQ(plural(1, "rank"), "1 rank");
  EXPECT_EQ(plural(0, "rank"), "0 ranks");
  EXPECT_EQ(plural(1, "process"), "1 process");
  EXPECT_EQ(plural(2, "process"), "2 processes");
}

TEST(Paths, BaseNameUnlessAmbiguous) {
  Analysis a;
  a.lines.resize(4);
  a.lines[0].file = "/u/model/utils.py";
  a.lines[1].file = "/u/data/utils.py";
  a.lines[2].file = "/u/train.py";
  a.lines[3].file = "/u/pkg/__init__.py";
  const ShortPaths paths(a);
  EXPECT_EQ(paths.place("/u/train.py", 8), "train.py:8");
  EXPECT_EQ(paths.place("/u/data/utils.py", 1), "data/utils.py:1");
  EXPECT_EQ(paths.place("/u/pkg/__init__.py", 0), "pkg/__init__.py");
  EXPECT_EQ(paths.place("", 3), "");
  EXPECT_EQ(paths.file("__init__.py"), "__init__.py");
}

TEST(Ranks, ListsAreShort) {
  EXPECT_EQ(rank_list({}), "");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 7, 8}), "0-3, 7, 8");
  EXPECT_EQ(rank_list({0, 2, 4, 6}, 2), "0, 2, ..");
}

TEST(Shell, WordsAreQuoted) {
  EXPECT_EQ(shell_word("a/b-1.py"), "a/b-1.py");
  EXPECT_EQ(shell_word("my run"), "'my run'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Names, KeepTheirOwnPartAndPythonsMarks) {
  EXPECT_EQ(shorten_name("mini::kernels::internals<>()", 28), "mini::kernels::internals<>()");
  EXPECT_EQ(shorten_name("mini::kernels::internals<double, std::vector<int> >()", 28),
            "mini::kernels::internals<>()");
  EXPECT_EQ(shorten_name("mini::kernels::internals<>()", 24), "..kernels::internals<>()");
  EXPECT_EQ(shorten_name("mini::kernels::internals<>()", 18), "..internals<>()");
  EXPECT_EQ(shorten_name("package.Model.fit.<locals>.<genexpr>()", 32), "..Model.fit.<locals>.<genexpr>()");
  EXPECT_EQ(shorten_name("package.Model.fit.<locals>.<genexpr>()", 28), "..fit.<locals>.<genexpr>()");
  EXPECT_EQ(shorten_name("a_very_long_function_of_ours()", 20), "a_very_lo..n_of_ours");
  EXPECT_EQ(shorten_name("a_very_long_function_of_ours()", 7), "a_ver..");
  EXPECT_EQ(name_and_place("mini::kernels::internals<>()", "kernels.hpp:77", 31),
            "..internals<>() kernels.hpp:77");
}

TEST(Names, HaveTheirObjectFile) {
  EXPECT_EQ(name_and_module("sgemm_()", "/usr/lib/libblas.so.3"), "sgemm_() [libblas]");
  EXPECT_EQ(name_and_module("main()", "/home/u/solver"), "main() [solver]");
  EXPECT_EQ(name_and_module("jitted()", "[jit]"), "jitted() [jit]");
  EXPECT_EQ(name_and_module("__vdso_time()", "[vdso]"), "__vdso_time() [vdso]");
  EXPECT_EQ(name_and_module("libblas+0x12ab", "/usr/lib/libblas.so.3"), "libblas+0x12ab");
  EXPECT_EQ(name_and_module("main()", ""), "main()");
}

}  // namespace
}  // namespace clusterprof::report::format
