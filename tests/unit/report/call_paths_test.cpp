// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/call_paths.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string_view>

#include "profile_builder.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Frame;
using shard::FrameKind;
using shard::kNone;
using testing::ProfileBuilder;

constexpr std::array<std::string_view, 5> kModules = {"/u/program", "/lib/libmpi.so.40", "/lib/libc.so.6",
                                                      "/u/libsolver.so", "/usr/lib/libblas.so.3"};
constexpr std::array<std::string_view, 3> kFiles = {"", "/u/main.c", "/x/dist-packages/mpi4py/run.py"};
constexpr std::array<std::string_view, 4> kPythonFiles = {"/u/main.py", "/x/dist-packages/mpi4py/run.py",
                                                          "/x/site-packages/np/a.py",
                                                          "/usr/lib/python3.11/queue.py"};

// The definition in the header, computed by walking up.
bool outermost(const CallPaths& paths, std::uint32_t path,
               std::uint32_t (CallPaths::*id)(std::uint32_t) const) {
  if ((paths.*id)(path) == kNone) return false;
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up))
    if ((paths.*id)(up) == (paths.*id)(path)) return false;
  return true;
}

bool is_own(const CallPaths& paths, std::uint32_t path) {
  const Frame& f = *paths.frame(path);
  return paths.owner(path) == Owner::kOwn && (f.kind == FrameKind::kPython || f.kind == FrameKind::kNative);
}
bool has_line(const CallPaths& paths, std::uint32_t path) {
  return paths.frame(path)->line != 0 && !paths.text(paths.frame(path)->file).empty();
}
bool is_named(const CallPaths& paths, std::uint32_t path, std::string_view part) {
  return paths.text(paths.frame(path)->file).find(part) != std::string::npos;
}

std::uint32_t place(const CallPaths& paths, std::uint32_t path) {
  for (std::uint32_t up = path; up != 0; up = paths.parent(up))
    if (is_own(paths, up) && has_line(paths, up)) return up;
  for (std::uint32_t up = path; up != 0; up = paths.parent(up))
    if (is_own(paths, up)) return up;
  std::uint32_t package = 0, standard = 0, native = 0;
  for (std::uint32_t up = path; up != 0; up = paths.parent(up)) {
    const Frame& f = *paths.frame(up);
    if (f.kind == FrameKind::kPython && is_named(paths, up, "/np/")) package = up;
    if (f.kind == FrameKind::kPython && is_named(paths, up, "queue.py")) standard = up;
    if (f.kind == FrameKind::kNative && native == 0 && has_line(paths, up) &&
        !is_runtime_module(paths.text(f.module)))
      native = up;
  }
  for (const std::uint32_t best : {package, standard, native})
    if (best != 0) return best;
  for (std::uint32_t up = path; up != 0; up = paths.parent(up)) {
    const Frame& f = *paths.frame(up);
    if (f.kind == FrameKind::kPython) return up;
    if (f.kind == FrameKind::kNative && !is_runtime_module(paths.text(f.module))) return up;
  }
  return 0;
}

std::uint32_t mpi_caller(const CallPaths& paths, std::uint32_t path) {
  std::array<std::uint32_t, 7> best{};  // the user's Python, native line, native; a library's likewise; MPI
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up)) {
    const Frame& f = *paths.frame(up);
    const bool python = f.kind == FrameKind::kPython, own = is_own(paths, up);
    if ((!python && f.kind != FrameKind::kNative) || (python && is_named(paths, up, "mpi4py"))) continue;
    const bool mpi = !python && is_mpi_module(paths.text(f.module));
    std::uint32_t& at = best[mpi ? 6 : (own ? 0 : 3) + (python ? 0 : has_line(paths, up) ? 1 : 2)];
    if (at == 0) at = up;
  }
  const auto found = std::find_if(best.begin(), best.end(), [](std::uint32_t up) { return up != 0; });
  return found == best.end() ? 0 : *found;
}

bool in_python_sleep(const CallPaths& paths, std::uint32_t path) {
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up)) {
    if (paths.frame(up)->kind != FrameKind::kNative) return false;
    if (paths.text(paths.frame(up)->name) == "pysleep") return true;
  }
  return false;
}

TEST(CallPaths, EqualThoseOfAWalkToTheRoot) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    ProfileBuilder b(1);
    std::vector<std::uint32_t> made = {0};
    for (int i = 0; i < 150; ++i) {
      const std::uint32_t line = static_cast<std::uint32_t>(random() % 3);
      Frame f = b.native(random() % 8 == 0 ? "pysleep" : "f", kModules[random() % kModules.size()],
                         kFiles[random() % kFiles.size()], line);
      if (random() % 3 == 0)
        f = b.python("p", kPythonFiles[random() % kPythonFiles.size()], 1 + line, 1 + random() % 2);
      if (random() % 10 == 0) f = b.mpi("MPI_Recv");
      if (random() % 10 == 0) f = b.kernel("select");
      made.push_back(b.child(made[made.size() - 1 - random() % std::min<std::size_t>(made.size(), 5)], f));
    }
    const CallPaths paths(b.data);
    for (std::uint32_t path = 1; path < paths.size(); ++path) {
      EXPECT_EQ(paths.outermost_function(path), outermost(paths, path, &CallPaths::function));
      EXPECT_EQ(paths.outermost_line(path), outermost(paths, path, &CallPaths::line));
      EXPECT_EQ(paths.place(path), place(paths, path));
      EXPECT_EQ(paths.mpi_caller(path), mpi_caller(paths, path));
      EXPECT_EQ(paths.in_python_sleep(path), in_python_sleep(paths, path));
    }
  }
}

// One path per test of what is counted where: what the user wrote, what it called, what ran below.
struct Folding : ::testing::Test {
  ProfileBuilder b{1};
  Frame main = b.python("main", "/u/train.py", 12, 10);
  Frame wrapper = b.python("array_function_dispatch.<locals>.decorator.<locals>.public_api",
                           "<__array_function__ internals>", 200, 177);
  Frame dot = b.python("dot", "/x/site-packages/numpy/core/multiarray.py", 741, 736);
  Frame call = b.native("PyObject_Vectorcall", "/usr/bin/python3.11");
  Frame nameless = b.native("_multiarray_umath.cpython-311-x86_64-linux-gnu.so+0x1234",
                            "/x/site-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so");
  Frame other = b.native("_multiarray_umath.cpython-311-x86_64-linux-gnu.so+0x9876",
                         "/x/site-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so");
};

TEST_F(Folding, ThePlaceIsTheUsersLineAndTheLibrarysFunctionIsKept) {
  const std::uint32_t at = b.path({main, call, wrapper, call, nameless, dot, call, other});
  const CallPaths paths(b.data);
  EXPECT_EQ(paths.text(paths.frame(paths.place(at))->name), "main");
  EXPECT_EQ(paths.source(at), paths.place(at));
  EXPECT_EQ(paths.library_name(paths.called(at)), "numpy.dot");
  const std::uint32_t start =
      b.path({b.python("Thread.run", "/usr/lib/python3.11/threading.py", 975, 970), main,
              b.python("Queue.get", "/usr/lib/python3.11/queue.py", 171, 154),
              b.python("Condition.wait", "/usr/lib/python3.11/threading.py", 320, 288)});
  const CallPaths more(b.data);
  EXPECT_EQ(more.text(more.frame(more.place(start))->name), "main");
  EXPECT_EQ(more.library_name(more.called(start)), "queue.Queue.get");
}

TEST_F(Folding, WithoutCodeOfTheUsersAPackageSaysMoreThanWhatStartsThreads) {
  const Frame run = b.python("Thread.run", "/usr/lib/python3.11/threading.py", 975, 970);
  const Frame monitor = b.python("TMonitor.run", "/x/site-packages/tqdm/_monitor.py", 60, 50);
  const Frame wait = b.python("Condition.wait", "/usr/lib/python3.11/threading.py", 320, 288);
  const std::uint32_t of_package = b.path({run, monitor, wait}),
                      of_pool = b.path(
                          {run,
                           b.python("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81, 65),
                           wait});
  const CallPaths paths(b.data);
  EXPECT_EQ(paths.text(paths.frame(paths.place(of_package))->name), "TMonitor.run");
  EXPECT_EQ(paths.text(paths.frame(paths.place(of_pool))->name), "_worker");
}

TEST_F(Folding, CodeWithoutNamesIsOneFunctionPerModule) {
  b.sampled(0, b.path({main, call, nameless}), shard::Category::kNative, 3000);
  b.sampled(0, b.path({main, call, nameless, other}), shard::Category::kNative, 1000);
  b.sampled(0, b.path({main, call}), shard::Category::kNative, 500);  // the interpreter's own work
  b.sampled(0, b.path({b.native("Py_BytesMain", "/usr/bin/python3.11")}), shard::Category::kNative, 500);
  b.lasts(5000);  // as long as was sampled: nothing is scaled
  const Analysis folded = analyse(b.data);
  std::vector<std::string> names;
  for (const FunctionRow& row : folded.functions) names.push_back(row.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"_multiarray_umath, no names", "main", "python3.11, interpreter"}));
  EXPECT_DOUBLE_EQ(folded.functions[0].self_s, 4);
  EXPECT_DOUBLE_EQ(folded.functions[0].total_s, 4) << "once, though it calls itself";
  EXPECT_DOUBLE_EQ(folded.functions[1].self_s, 0.5);
  EXPECT_DOUBLE_EQ(folded.lines[0].self_s, 4.5);
  EXPECT_EQ(folded.lines[0].file, "/u/train.py");

  // The same sums when everything is shown.
  const Analysis all = analyse(b.data, shard::InMemoryRows(b.data), FrameMode::kAll);
  EXPECT_EQ(all.functions.size(), 5u);
  double folded_s = 0, all_s = 0;
  for (const FunctionRow& row : folded.functions) folded_s += row.self_s;
  for (const FunctionRow& row : all.functions) all_s += row.self_s;
  EXPECT_DOUBLE_EQ(folded_s, all_s);
}

TEST_F(Folding, DirectoryWithALibrarysNameIsNotALibrary) {
  for (const char* file : {"/home/u/mpi4py/solver.py", "/home/u/lib/run.py", "/home/u/numpy/run.py"}) {
    b.called(0,
             b.path({b.python("solve", file, 7, 5),
                     b.python("Reduce", "/x/site-packages/mpi4py/util/pool.py", 7, 1), b.mpi("MPI_Reduce")}),
             1, 10);
  }
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.mpi_calls.size(), 3u);
  for (const MpiCallRow& call_site : a.mpi_calls) EXPECT_EQ(call_site.function, "solve");
}

// By walking up from each of them this takes longer than anybody waits.
TEST(CallPaths, ManyPathsBelowDeepOnesTakeLittleTime) {
  ProfileBuilder b(1);
  const auto frame = [&](const Frame& of) {
    b.data.frames.push_back(of);
    return static_cast<std::uint32_t>(b.data.frames.size() - 1);
  };
  const std::uint32_t inner = frame(b.native("f", "/lib/libmpi.so.40")), leaf = frame(b.kernel("select"));
  b.child(0, b.python("main", "/u/main.py", 1, 1));
  for (std::uint32_t i = 0; i < shard::kMaxPathDepth - 2; ++i)
    b.data.paths.push_back({{}, static_cast<std::uint32_t>(b.data.paths.size() - 1), inner});
  const auto deepest = static_cast<std::uint32_t>(b.data.paths.size() - 1);
  constexpr std::uint32_t kLeaves = 2'000'000;
  for (std::uint32_t i = 0; i < kLeaves; ++i) {
    b.data.paths.push_back({{}, deepest, leaf});
    if (i % 10 == 0) b.sampled(0, deepest + 1 + i, shard::Category::kIdle, 10);
  }
  const CallPaths paths(b.data);
  const std::uint32_t last = deepest + kLeaves;
  EXPECT_EQ(paths.mpi_caller(last), 1u);
  EXPECT_EQ(paths.place(last), 1u);
  EXPECT_TRUE(paths.outermost_function(last));
  EXPECT_FALSE(paths.in_python_sleep(last));
  b.lasts(2'000'000);  // as long as was sampled: nothing is scaled
  const Analysis analysis = analyse(b.data);
  EXPECT_NEAR(analysis.functions.front().total_s, 2000, 1);
}

}  // namespace
}  // namespace clusterprof::report
