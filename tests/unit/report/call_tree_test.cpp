// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "as_sampled.hpp"
#include "profile_builder.hpp"
#include "report/format/characters.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using shard::kNone;
using testing::ProfileBuilder;

// "main 10.0 (main>step 4.0)": names with total and self, callees in brackets.
std::string shape(const std::vector<CallTreeRow>& rows, std::uint32_t parent = kNone) {
  std::string out;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (rows[i].parent != parent) continue;
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, " %g/%g", rows[i].total_s, rows[i].self_s);
    out += (out.empty() ? "" : ", ") + rows[i].name + numbers;
    const std::string below = shape(rows, i);
    if (!below.empty()) out += " (" + below + ")";
  }
  return out;
}

TEST(CallTree, PathsThroughTheSameFunctionsAreOneRow) {
  ProfileBuilder b(2);
  const auto main_1 = b.python("main", "m.py", 11, 10), main_2 = b.python("main", "m.py", 12, 10);
  const auto step = b.python("step", "m.py", 5, 4);
  b.sampled(0, b.path({main_1, step}), Category::kPython, 3000);
  b.sampled(1, b.path({main_2, step}), Category::kPython, 1000);
  b.sampled(0, b.path({main_2}), Category::kPython, 500);
  b.sampled(1, b.path({main_1, b.native("dgemm", "/lib/libblas.so")}), Category::kNative, 2000);
  const Analysis analysis = analyse(testing::as_sampled(b.data));
  EXPECT_EQ(shape(analysis.call_tree), "main 6.5/0.5 (step 4/4, libblas.dgemm 2/2)");
  EXPECT_DOUBLE_EQ(analysis.call_tree[0].category_s[static_cast<std::size_t>(Category::kNative)], 2);
  EXPECT_EQ(analysis.call_tree[1].line, 4u);
}

TEST(CallTree, RuntimeCodeBetweenFunctionsIsLeftOut) {
  ProfileBuilder b(1);
  const auto main = b.python("main", "m.py", 11, 10);
  const auto call = b.native("cfunction_call", "/usr/bin/python3.11");
  const auto numpy = b.native("DOUBLE_add", "/lib/numpy/umath.so"),
             memcpy = b.native("memcpy", "/lib/libc.so.6");
  b.sampled(0, b.path({main, call, numpy, memcpy}), Category::kNative, 1000);
  b.sampled(0, b.path({main, call}), Category::kNative, 200);
  b.sampled(0,
            b.path({b.native("_start", "/x/a.out"), b.native("__libc_start_main", "/lib/libc.so.6"),
                    b.native("work", "/x/a.out")}),
            Category::kNative, 300);
  // The interpreter's own time is its caller's; the C library's stays where it ends a path.
  EXPECT_EQ(shape(analyse(testing::as_sampled(b.data)).call_tree),
            "main 1.2/0.2 (umath.DOUBLE_add 1/1), work 0.3/0.3");
  const Analysis all = analyse(b.data, shard::InMemoryRows(b.data), FrameMode::kAll);
  EXPECT_EQ(shape(all.call_tree),
            "main 1.2/0 (cfunction_call 1.2/0.2 (DOUBLE_add 1/0 (memcpy 1/1))), _start 0.3/0 "
            "(__libc_start_main 0.3/0 (work 0.3/0.3))");
}

TEST(CallTree, ACallIntoALibraryIsOneRow) {
  ProfileBuilder b(1);
  const auto main = b.python("<module>", "/u/train.py", 3, 1), step = b.python("step", "/u/train.py", 12, 10);
  const auto find = b.python("_find_and_load", "<frozen importlib._bootstrap>", 1178, 1165);
  const auto sklearn = b.python("<module>", "/x/site-packages/sklearn/__init__.py", 80, 1);
  const auto scipy = b.python("<module>", "/x/site-packages/scipy/__init__.py", 8, 1);
  const auto fit = b.python("Forest.fit", "/x/site-packages/sklearn/ensemble/forest.py", 400, 300);
  const auto inner = b.python("Tree.fit", "/x/site-packages/sklearn/tree/tree.py", 40, 30);
  const auto score = b.python("score", "/u/train.py", 33, 30);
  b.sampled(0, b.path({main, find}), Category::kPython, 100);
  b.sampled(0, b.path({main, find, find, sklearn}), Category::kPython, 400);
  b.sampled(0, b.path({main, find, sklearn, find, scipy}), Category::kPython, 600);
  b.sampled(0, b.path({main, step, fit}), Category::kPython, 1000);
  b.sampled(0, b.path({main, step, fit, inner}), Category::kPython, 2000);
  b.sampled(0, b.path({main, step, fit, inner, score}), Category::kPython, 500);
  b.sampled(0, b.path({main, step, fit, inner, b.kernel("read")}), Category::kIo, 300);
  const Analysis a = analyse(testing::as_sampled(b.data));
  // The import machinery's own time is that of the module which imports.
  EXPECT_EQ(
      shape(a.call_tree),
      "<module> 4.9/0.1 (step 3.8/0 (sklearn.Forest.fit 3.8/3 (score 0.5/0.5, read 0.3/0.3)), sklearn 1/1)");
  EXPECT_EQ(a.call_tree.back().fold, Fold::kImport);
  TextOptions options;
  options.sections = {"tree"};
  const std::string text = render_text(a, options);
  EXPECT_NE(text.find("import sklearn\n"), std::string::npos) << text;
  EXPECT_NE(text.find("sklearn.Forest.fit()\n"), std::string::npos) << text;
  EXPECT_NE(text.find("--all-frames"), std::string::npos) << text;
}

TEST(CallTree, RegionsAndRecursionAreRows) {
  ProfileBuilder b(1);
  const auto walk = b.python("walk", "m.py", 5, 4);
  b.sampled(0, b.path({b.region("epoch"), walk, walk}), Category::kPython, 1000);
  b.sampled(0, b.path({b.region("load"), walk}), Category::kPython, 400);
  const Analysis analysis = analyse(testing::as_sampled(b.data));
  EXPECT_EQ(shape(analysis.call_tree), "epoch 1/0 (walk 1/0 (walk 1/1)), load 0.4/0 (walk 0.4/0.4)");
  EXPECT_EQ(analysis.call_tree[0].kind, shard::FrameKind::kRegion);
}

TEST(CallTree, IdleHelpersAreNotInIt) {
  ProfileBuilder b(1);
  b.sampled(0, b.path({b.python("main", "m.py", 11, 10)}), Category::kPython, 1000);
  b.sampled(0, b.path({b.native("pool", "/x/a.out")}), Category::kIdle, 9000, false);
  const Analysis analysis = analyse(testing::as_sampled(b.data));
  EXPECT_EQ(shape(analysis.call_tree), "main 1/1");
  EXPECT_DOUBLE_EQ(analysis.call_tree[0].total_s, analysis.sampled_s - analysis.helper_idle_s);
}

// One main thread among many others: what is a fifth of its time is little of all.
TEST(CallTree, WhatMainThreadsDoIsKept) {
  ProfileBuilder b(1);
  const auto main = b.python("main", "m.py", 11, 10);
  b.sampled(0, b.path({main, b.python("setup", "m.py", 5, 4)}), Category::kPython, 200);
  b.sampled(0, b.path({main, b.native("work", "/x/a.out")}), Category::kNative, 800);
  b.sampled(0, b.path({b.native("work", "/x/a.out")}), Category::kNative, 199'000, false);
  b.sampled(0, b.path({b.native("log", "/x/a.out")}), Category::kNative, 100, false);
  const Analysis analysis = analyse(testing::as_sampled(b.data));
  EXPECT_EQ(shape(analysis.call_tree), "work 199/199, main 1/0 (work 0.8/0.8, setup 0.2/0.2)");
  EXPECT_DOUBLE_EQ(analysis.call_tree[0].main_total_s, 0);
  EXPECT_DOUBLE_EQ(analysis.call_tree[1].main_total_s, 1);
}

TEST(CallTree, IsBoundedAndKeepsTheLargest) {
  ProfileBuilder b(1);
  const auto main = b.python("main", "m.py", 11, 10);
  b.sampled(0, b.path({main, b.python("large", "m.py", 5, 4)}), Category::kPython, 100'000);
  std::uint32_t at = 0;  // a chain longer than the table
  for (int i = 0; i < 1500; ++i) at = b.child(at, b.python("f" + std::to_string(i), "deep.py", 1, 1));
  b.sampled(0, at, Category::kPython, 5000);
  b.sampled(0, b.path({main, b.python("small", "m.py", 7, 6)}), Category::kPython, 100);
  const std::vector<CallTreeRow> rows = analyse(b.data).call_tree;
  EXPECT_EQ(rows.size(), thresholds::kMaxCallTree);
  EXPECT_EQ(rows[0].name, "main");
  EXPECT_EQ(rows[1].name, "large");
  for (std::uint32_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].parent == kNone || rows[i].parent < i);
  for (const CallTreeRow& row : rows) EXPECT_NE(row.name, "small") << "less than " << thresholds::kCallTree;
}

TEST(CallTree, TextIndentsCallees) {
  TextOptions options;
  options.sections = {"tree"};
  ProfileBuilder b(1);
  const auto main = b.python("main", "m.py", 11, 10);
  b.sampled(0, b.path({main, b.python("step", "m.py", 5, 4)}), Category::kPython, 6000);
  b.sampled(0, b.path({main, b.python("load", "m.py", 25, 24)}), Category::kIo, 3000);
  for (int i = 0; i < 25; ++i)
    b.sampled(0, b.path({main, b.python("tiny" + std::to_string(i), "m.py", 100, 100)}), Category::kPython,
              40);
  const std::string text = render_text(analyse(b.data), options);
  EXPECT_NE(text.find("  main() m.py:10\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    step() m.py:4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    others\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("tiny"), std::string::npos) << text;
}

TEST(CallTree, DeepOnesFitThePage) {
  ProfileBuilder b(1);
  std::uint32_t at = 0;
  for (int i = 0; i < 120; ++i) {
    at = b.child(at, b.python("a_function_with_a_long_name_" + std::to_string(i), "deep.py", 1, 1));
    b.sampled(0, at, Category::kPython, 100);
  }
  for (const int width : {80, 120}) {
    TextOptions options;
    options.sections = {"tree"};
    options.width = width;
    const std::string text = render_text(analyse(b.data), options);
    EXPECT_NE(text.find("_90"), std::string::npos);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      EXPECT_LE(format::columns(text.substr(begin, end - begin)), static_cast<std::size_t>(width));
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace clusterprof::report
