// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/imports.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/analysis/analysis_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_kind;
using testing::kMs;
using testing::ProfileBuilder;

constexpr std::string_view kSite = "/opt/venv/lib/python3.11/site-packages/";

class Imports : public ::testing::Test {
 protected:
  explicit Imports(std::uint32_t ranks = 1) : b(ranks) { b.data.run.own = {"/home/u/job"}; }

  std::uint32_t python(std::uint32_t above, std::string_view name, std::string_view file,
                       std::uint32_t line) {
    return b.child(above, b.python(name, file, line, 1));
  }
  std::uint32_t native(std::uint32_t above, std::string_view name, std::string_view module) {
    return b.child(above, b.native(name, module));
  }
  std::uint32_t program(std::uint32_t line) { return python(0, "<module>", "/home/u/job/train.py", line); }
  // While a module is looked for. `step`: another one is another function of importlib.
  std::uint32_t found(std::uint32_t above, std::uint32_t step = 0) {
    const std::uint32_t interpreter =
        native(above, "PyImport_ImportModuleLevelObject", "/usr/bin/python3.11");
    std::uint32_t at = python(interpreter, "_find_and_load", "<frozen importlib._bootstrap>", 1176);
    at = python(at, "_find_and_load_unlocked", "<frozen importlib._bootstrap>", 1147 + step);
    return at;
  }
  std::uint32_t module(std::uint32_t above, std::string_view file, std::uint32_t line = 1) {
    std::uint32_t at = found(above);
    at = python(at, "_load_unlocked", "<frozen importlib._bootstrap>", 690);
    at = python(at, "exec_module", "<frozen importlib._bootstrap_external>", 940);
    at = python(at, "_call_with_frames_removed", "<frozen importlib._bootstrap>", 241);
    at = native(at, "PyEval_EvalCode", "/usr/bin/python3.11");
    return python(at, "<module>", file, line);
  }
  std::uint32_t installed(std::uint32_t above, std::string_view file, std::uint32_t line = 1) {
    return module(above, std::string(kSite) + std::string(file), line);
  }
  void time(std::uint32_t at, std::uint64_t ms, Category category = Category::kPython, std::uint32_t rank = 0,
            bool main_thread = true) {
    b.sampled(rank, at, category, ms, main_thread);
  }

  // The rest of each rank's 10 s is work.
  Analysis analysed() {
    const auto work = python(program(99), "work", "/home/u/job/train.py", 70);
    for (std::uint32_t r = 0; r < b.data.ranks.size(); ++r) {
      std::uint64_t used_ns = 0;
      for (const std::uint64_t ns : b.data.ranks[r].main_thread_ns) used_ns += ns;
      if (used_ns < 10'000 * kMs) b.sampled(r, work, Category::kPython, 10'000 - used_ns / kMs);
    }
    return analyse(b.data);
  }
  static const ImportRow* find(const Analysis& a, std::string_view package) {
    for (const ImportRow& row : a.imports)
      if (row.package == package) return &row;
    return nullptr;
  }
  static void expect(const Analysis& a, std::string_view package, double total_s, double self_s,
                     std::uint32_t line, bool direct = true) {
    const ImportRow* const row = find(a, package);
    ASSERT_NE(row, nullptr) << package;
    EXPECT_NEAR(row->time_s, total_s, 1e-6) << package;
    EXPECT_NEAR(row->self_s, self_s, 1e-6) << package;
    EXPECT_EQ(row->line, line) << package;
    EXPECT_EQ(row->is_direct, direct) << package;
  }

  ProfileBuilder b;
};

class ImportsOfRanks : public Imports {
 protected:
  ImportsOfRanks() : Imports(4) {}
};

TEST_F(Imports, APackageHasTheTimeOfWhatItImports) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  const auto inner = installed(outer, "inner/__init__.py", 2);
  time(outer, 400);
  time(python(outer, "table", std::string(kSite) + "outer/tables.py", 8), 100);
  time(native(inner, "compute", "/usr/lib/libm.so.6"), 300, Category::kNative);
  time(python(found(outer), "_path_stat", "<frozen importlib._bootstrap_external>", 147), 50, Category::kIo);
  time(found(program(3)), 20);
  const Analysis a = analysed();
  ASSERT_EQ(a.imports.size(), 2u);
  EXPECT_EQ(a.imports[0].package, "outer") << "what the program imports comes first";
  expect(a, "outer", 0.87, 0.52, 3);
  expect(a, "inner", 0.35, 0.35, 3, false);
  EXPECT_EQ(a.imports[0].file, "/home/u/job/train.py");
  EXPECT_NEAR(a.import_sum.main_thread_s, 0.87, 1e-6);
  EXPECT_NEAR(a.import_sum.main_thread_io_s, 0.05, 1e-6);
}

TEST_F(Imports, RecursionCountsOnce) {
  // outer imports a module of its own, which imports inner, which imports outer again: a module of it.
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  const auto part = installed(outer, "outer/part/deep.py", 7);
  const auto inner = installed(part, "inner.py", 2);
  const auto again = installed(inner, "outer/late.py", 1);
  for (const auto at : {outer, part, inner, again}) time(at, 100);
  const Analysis a = analysed();
  ASSERT_EQ(a.imports.size(), 2u);
  expect(a, "outer", 0.4, 0.3, 3);
  expect(a, "inner", 0.2, 0.1, 3, false);
}

TEST_F(Imports, AnImportWithinAFunctionIsOfItsLine) {
  const auto function = python(program(80), "solve", "/home/u/job/train.py", 41);
  time(installed(function, "lazy/__init__.py"), 500);
  const auto call = python(program(80), "import_module", "/usr/lib/python3.11/importlib/__init__.py", 126);
  time(installed(call, "byname.py"), 200);
  const auto plugin = python(program(12), "main", "/home/u/job/train.py", 50);
  time(installed(python(plugin, "load", std::string(kSite) + "plugins/load.py", 9), "extra.py"), 100);
  const Analysis a = analysed();
  expect(a, "lazy", 0.5, 0.5, 41);
  EXPECT_EQ(find(a, "lazy")->function, "solve");
  expect(a, "byname", 0.2, 0.2, 80);
  expect(a, "extra", 0.1, 0.1, 50, false);
}

TEST_F(Imports, ThePackageThatSeveralStatementsImportHasTheLineOfMost) {
  time(installed(program(3), "outer/__init__.py"), 100);
  time(installed(installed(program(4), "other.py"), "outer/sub.py"), 300);
  time(installed(installed(program(5), "third.py"), "outer/sub2.py"), 200);
  const Analysis a = analysed();
  expect(a, "outer", 0.6, 0.6, 4);
}

TEST_F(Imports, OwnModulesTakeTimeButTheirCodeIsTheProgram) {
  const auto solver = module(program(3), "/home/u/job/solver/__init__.py", 4);
  const auto setup = module(solver, "/home/u/job/solver/setup.py", 9);
  time(solver, 1000);
  time(setup, 2000);
  time(found(program(3)), 30);
  time(installed(setup, "outer/__init__.py"), 500);
  const Analysis a = analysed();
  ASSERT_EQ(a.imports.size(), 2u);
  expect(a, "solver", 3.53, 3.03, 3);
  EXPECT_TRUE(find(a, "solver")->own);
  expect(a, "outer", 0.5, 0.5, 9);
  EXPECT_EQ(find(a, "outer")->file, "/home/u/job/solver/setup.py");
  EXPECT_FALSE(find(a, "outer")->own);
  EXPECT_NEAR(a.import_sum.main_thread_s, 0.53, 1e-6) << "without the code of solver";
}

TEST_F(Imports, PackagesOfFiles) {
  const auto from = program(3);
  time(module(from, "/usr/lib/python3.11/json/decoder.py"), 10);
  time(module(from, "<frozen os>"), 20);
  time(module(from, "/usr/lib/python3.11/lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so"), 30);
  time(module(program(4), "/home/u/job/helpers.py"), 40);
  time(module(program(5), "/home/u/job/parts/mesh.py"), 50);        // no __init__.py was seen
  time(module(program(6), "/data/src/model/__init__.py"), 60);      // elsewhere, by its __init__.py
  time(module(program(6), "/data/src/model/layers/dense.py"), 70);  // which its parent has not
  time(module(program(7), "/data/src/model/layers/__init__.py"), 80);
  time(module(program(8), "<string>"), 90);
  const Analysis a = analysed();
  for (const char* const name : {"json", "os", "_ssl", "helpers", "parts", "model", ""})
    EXPECT_NE(find(a, name), nullptr) << name;
  EXPECT_EQ(a.imports.size(), 7u);
  expect(a, "model", 0.21, 0.21, 6);
  expect(a, "", 0.09, 0.09, 8);
}

TEST_F(Imports, ExtensionModulesAndWhatTheyImport) {
  const std::string file = std::string(kSite) + "outer/_core.cpython-311-x86_64-linux-gnu.so";
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  auto load = python(found(outer), "create_module", "<frozen importlib._bootstrap_external>", 1233);
  time(native(load, "_dl_open", "/lib64/ld-linux-x86-64.so.2"), 40, Category::kNative);
  const auto start = native(load, "PyInit__core", file);
  time(start, 60, Category::kNative);
  time(installed(start, "inner.py"), 100);  // by PyImport_ImportModule
  // Straight from the program; the loader's part is known by the module's own.
  load = python(found(program(4)), "create_module", "<frozen importlib._bootstrap_external>", 1233);
  time(native(load, "_dl_open", "/lib64/ld-linux-x86-64.so.2"), 200, Category::kNative);
  time(native(load, "module_exec", std::string(kSite) + "fast.cpython-311-x86_64-linux-gnu.so"), 10,
       Category::kNative);
  const Analysis a = analysed();
  expect(a, "outer", 0.2, 0.1, 3);
  expect(a, "inner", 0.1, 0.1, 3, false);
  expect(a, "fast", 0.21, 0.21, 4);
}

TEST_F(Imports, WhatIsOnlyLookedForCountsForTheModuleThatAsks) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  time(outer, 100);
  time(found(python(outer, "setup", std::string(kSite) + "outer/setup.py", 4)),
       20);  // a module that is built in
  time(found(program(9)), 30);
  const Analysis a = analysed();
  expect(a, "outer", 0.12, 0.12, 3);
  expect(a, "", 0.03, 0.03, 9);
}

TEST_F(Imports, AHookIsPartOfTheImportAndItsOwnImportsAreOthers) {
  auto hook = python(found(program(3)), "exec_module", std::string(kSite) + "hooks/rewrite.py", 20);
  time(hook, 100);
  time(python(hook, "<module>", std::string(kSite) + "outer/__init__.py", 3), 50);
  time(installed(hook, "ast_tools.py"), 30);
  const Analysis a = analysed();
  expect(a, "outer", 0.18, 0.15, 3);
  expect(a, "ast_tools", 0.03, 0.03, 3, false);
}

TEST_F(Imports, FramesOfOlderAndNewerPythons) {
  // 3.8 has no qualified names, later ones have; from 3.11 on some modules of the standard library are
  // frozen.
  auto old = python(program(3), "_handle_fromlist", "<frozen importlib._bootstrap>", 1042);
  old = python(old, "_call_with_frames_removed", "<frozen importlib._bootstrap>", 219);
  old = python(old, "_find_and_load", "<frozen importlib._bootstrap>", 991);
  old = python(old, "exec_module", "<frozen importlib._bootstrap_external>", 783);
  time(python(old, "<module>", "/usr/lib/python3.8/email/message.py", 3), 100);
  auto now = python(program(4), "_find_and_load", "<frozen importlib._bootstrap>", 1360);
  now = python(now, "_LoaderBasics.exec_module", "<frozen importlib._bootstrap_external>", 1026);
  now = python(now, "_call_with_frames_removed", "<frozen importlib._bootstrap>", 488);
  time(python(now, "<module>", "<frozen ntpath>", 3), 200);
  // As the interpreter starts.
  auto start = python(0, "_find_and_load", "<frozen importlib._bootstrap>", 1360);
  time(python(start, "<module>", "<frozen site>", 3), 50);
  const Analysis a = analysed();
  expect(a, "email", 0.1, 0.1, 3);
  expect(a, "ntpath", 0.2, 0.2, 4);
  expect(a, "site", 0.05, 0.05, 0, false);
  EXPECT_EQ(a.imports.back().package, "site");
}

TEST_F(Imports, MpiIsNoImportTimeAndHelperThreadsAreNotTheRanksTime) {
  const auto mpi4py = installed(program(3), "mpi4py/MPI.py", 5);
  const auto init = b.child(mpi4py, b.mpi("MPI_Init_thread"));
  b.called(0, init, 1, 3000);
  time(init, 3000, Category::kMpi);
  time(mpi4py, 100);
  const auto thread = python(0, "Thread.run", "/usr/lib/python3.11/threading.py", 975);
  const auto job = python(thread, "background", "/home/u/job/train.py", 60);
  time(installed(job, "outer.py"), 700, Category::kPython, 0, false);
  const Analysis a = analysed();
  expect(a, "mpi4py", 0.1, 0.1, 3);
  expect(a, "outer", 0.7, 0.7, 60);
  EXPECT_EQ(find(a, "outer")->main_thread_s, 0);
  EXPECT_NEAR(a.import_sum.time_s, 0.8, 1e-6);
  EXPECT_NEAR(a.import_sum.main_thread_s, 0.1, 1e-6);
}

TEST_F(ImportsOfRanks, RanksAndSpread) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  for (std::uint32_t r = 0; r < 3; ++r) time(outer, 100 * (r + 1), Category::kPython, r);
  time(installed(outer, "inner.py"), 400, Category::kPython, 2);
  const Analysis a = analysed();
  const ImportRow& row = *find(a, "outer");
  EXPECT_EQ(row.ranks, 3u);
  EXPECT_EQ(row.spread.max_rank, 2);
  EXPECT_NEAR(row.spread.max_s, 0.7, 1e-6);
  EXPECT_NEAR(row.spread.mean_s, 0.25, 1e-6);
  EXPECT_EQ(find(a, "inner")->ranks, 1u);
}

TEST_F(ImportsOfRanks, BuildersOfPartsGiveTheSame) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  const auto inner = installed(outer, "inner.py", 2);
  for (std::uint32_t r = 0; r < 4; ++r) {
    time(outer, 100 * (r + 1), Category::kPython, r);
    time(inner, 10 * (r + 2), Category::kIo, r);
  }
  const Analysis whole = analysed();
  aggregator::correct_times(b.data);
  AnalysisBuilder first(b.data), second(b.data);
  shard::InMemoryRows(b.data).for_each_rank(
      [&](const shard::RankRows& rows) { (rows.rank % 2 == 0 ? first : second).add(rows); });
  ASSERT_TRUE(first.absorb(second.state()).ok());
  EXPECT_EQ(render_json(first.finish()), render_json(whole));
}

// --- the finding -----------------------------------------------------------------------------------------

TEST_F(ImportsOfRanks, LongImportsFromFilesAreAFinding) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  for (std::uint32_t r = 0; r < 4; ++r) {
    time(outer, 1000, Category::kPython, r);
    time(b.child(found(outer), b.kernel("openat")), 5000 + 100 * r, Category::kIo, r);
  }
  const Analysis a = analysed();
  const Finding* const finding = find_kind(a, FindingKind::kImports);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(*finding->share, 0.615, 1e-6);
  EXPECT_NEAR(*finding->gain_s, 6.3, 1e-6);
  EXPECT_EQ(finding->severity, Severity::kHigh);
  EXPECT_EQ(finding->action, FindingAction::kPackLibraries);
  EXPECT_EQ(finding->place.line, 3u);
  EXPECT_EQ(finding->evidence.name(EvidenceKey::kPackage), "outer");
  EXPECT_NEAR(finding->evidence.number(EvidenceKey::kRankMean), 6.15, 1e-6);
  const std::string text = text_of(a, *finding);
  EXPECT_NE(text.find("takes 61.5 % of all rank time, 6.15 s per rank on average; 100.0 % of it for outer"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("train.py:3."), std::string::npos) << text;
  EXPECT_NE(
      text.find("Looking for their files and reading them is 83.7 % of it. Keep the packages on a disk"),
      std::string::npos)
      << text;
}

TEST_F(ImportsOfRanks, NoneForWhatEveryProgramImports) {
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  for (std::uint32_t r = 0; r < 4; ++r) time(outer, 4500, Category::kPython, r);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kImports), nullptr) << "45 %, but less than 5 s";
}

TEST_F(Imports, AShortProgramThatMostlyImportsIsSaidSoAsALittleThing) {
  b.lasts(3000);
  time(installed(program(3), "outer/__init__.py", 5), 2000);
  time(python(program(99), "work", "/home/u/job/train.py", 70), 1000);
  const Analysis a = analyse(b.data);
  const Finding* const finding = find_kind(a, FindingKind::kImports);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->severity, Severity::kLow);
  EXPECT_EQ(finding->action, FindingAction::kImportLess);
}

TEST_F(Imports, AProgramThatIsAModuleOfItsOwnDoesNotImport) {
  b.data.run.command = {"python3", "-c", "import solver"};
  const auto start = python(0, "<module>", "<string>", 1);
  const auto solver = module(start, "/home/u/job/solver.py", 50);
  time(python(solver, "run", "/home/u/job/solver.py", 20), 9500);
  EXPECT_EQ(find_kind(analysed(), FindingKind::kImports), nullptr);
}

TEST_F(Imports, TextSection) {
  EXPECT_NE(render_text(analyse(testing::resources_run()), {100, false, {"imports"}, 15})
                .find("No imports were seen."),
            std::string::npos);
  const auto outer = installed(program(3), "outer/__init__.py", 5);
  time(outer, 2000);
  const std::string text = render_text(analysed(), {100, false, {"imports"}, 15});
  EXPECT_NE(text.find("main threads 2.00 s, 20.0 % of rank time"), std::string::npos) << text;
  EXPECT_NE(text.find("outer"), std::string::npos) << text;
  EXPECT_NE(text.find("train.py:3"), std::string::npos) << text;
}

}  // namespace
}  // namespace clusterprof::report
