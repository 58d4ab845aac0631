// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/call_paths.hpp"

#include <gtest/gtest.h>

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

constexpr std::array<std::string_view, 4> kModules = {"/u/program", "/lib/libmpi.so.40", "/lib/libc.so.6",
                                                      "/u/libsolver.so"};
constexpr std::array<std::string_view, 3> kFiles = {"", "/u/main.c", "/site/mpi4py/run.py"};

// What the header says, by walking up.
bool outermost(const CallPaths& paths, std::uint32_t path,
               std::uint32_t (CallPaths::*id)(std::uint32_t) const) {
  if ((paths.*id)(path) == kNone) return false;
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up))
    if ((paths.*id)(up) == (paths.*id)(path)) return false;
  return true;
}

std::uint32_t place(const CallPaths& paths, std::uint32_t path) {
  if (paths.source(path) != 0) return paths.source(path);
  for (std::uint32_t up = path; up != 0; up = paths.parent(up)) {
    const Frame& f = *paths.frame(up);
    if (f.kind == FrameKind::kPython) return up;
    if (f.kind == FrameKind::kNative && !is_runtime_module(paths.text(f.module))) return up;
  }
  return 0;
}

std::uint32_t mpi_caller(const CallPaths& paths, std::uint32_t path) {
  std::uint32_t with_file = 0, outside_mpi = 0, any = 0;
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up)) {
    const Frame& f = *paths.frame(up);
    const std::string& file = paths.text(f.file);
    if (f.kind == FrameKind::kPython && file.find("mpi4py") == std::string::npos) return up;
    if (f.kind != FrameKind::kNative) continue;
    if (any == 0) any = up;
    if (is_mpi_module(paths.text(f.module))) continue;
    if (outside_mpi == 0) outside_mpi = up;
    if (with_file == 0 && f.line != 0 && !file.empty()) with_file = up;
  }
  return with_file != 0 ? with_file : outside_mpi != 0 ? outside_mpi : any;
}

bool in_python_sleep(const CallPaths& paths, std::uint32_t path) {
  for (std::uint32_t up = paths.parent(path); up != 0; up = paths.parent(up)) {
    if (paths.frame(up)->kind != FrameKind::kNative) return false;
    if (paths.text(paths.frame(up)->name) == "pysleep") return true;
  }
  return false;
}

TEST(CallPaths, AreWhatWalkingUpSays) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    ProfileBuilder b(1);
    std::vector<std::uint32_t> made = {0};
    for (int i = 0; i < 150; ++i) {
      const std::uint32_t line = static_cast<std::uint32_t>(random() % 3);
      Frame f = b.native(random() % 8 == 0 ? "pysleep" : "f", kModules[random() % kModules.size()],
                         kFiles[random() % kFiles.size()], line);
      if (random() % 3 == 0) f = b.python("p", kFiles[1 + random() % 2], 1 + line, 1 + random() % 2);
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

// By walking up from each of them this takes longer than anybody waits.
TEST(CallPaths, ManyBelowDeepOnes) {
  ProfileBuilder b(1);
  const auto frame = [&](const Frame& of) {
    b.data.frames.push_back(of);
    return static_cast<std::uint32_t>(b.data.frames.size() - 1);
  };
  const std::uint32_t inner = frame(b.native("f", "/lib/libmpi.so.40")), leaf = frame(b.kernel("select"));
  b.child(0, b.python("main", "/u/main.py", 1, 1));
  for (std::uint32_t i = 0; i < shard::kMostPathDepth - 2; ++i)
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
  const Analysis analysis = analyse(b.data);
  EXPECT_NEAR(analysis.functions.front().total_s, 2000, 1);
}

}  // namespace
}  // namespace clusterprof::report
