// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/threads.hpp"

#include <gtest/gtest.h>

#include <string>

#include "profile_builder.hpp"
#include "report/report.hpp"
#include "report/text/resources.hpp"

namespace clusterprof::report {
namespace {

using shard::ThreadKind;
using testing::kMs;
using testing::ProfileBuilder;

class Threads : public ::testing::Test {
 protected:
  shard::Thread& thread(std::uint32_t rank_row, std::int32_t tid, const std::string& name,
                        std::uint64_t cpu_ms, ThreadKind kind = ThreadKind::kPython) {
    shard::Thread& row = b_.data.threads.emplace_back();
    row.rank = rank_row;
    row.tid = tid;
    row.kind = kind;
    row.name = name;
    row.start_utc_ns = b_.data.run.start_utc_ns + tid * 1'000'000'000LL;
    row.elapsed_ns = 2000 * kMs;
    row.cpu_ns = row.cpu_min_ns = row.cpu_max_ns = cpu_ms * kMs;
    return row;
  }
  std::uint32_t python(const std::string& name, const std::string& file, std::uint32_t line,
                       std::uint32_t parent = 0) {
    return b_.child(parent, b_.python(name, file, line, 1));
  }
  ProfileBuilder b_{2};
};

TEST_F(Threads, AlikeAreOneRowWithTheNameThatTheyShare) {
  const std::uint32_t bootstrap = python("Thread._bootstrap", "/usr/lib/python3.11/threading.py", 1000);
  const std::uint32_t load = python("load", "/home/u/train.py", 31, bootstrap);
  thread(0, 1, "main", 900, ThreadKind::kMain);
  thread(0, 2, "loader-0", 300).top_path = python("other", "/home/u/train.py", 9, bootstrap);
  thread(0, 3, "loader-1", 500).top_path = load;
  thread(0, 4, "loader-12", 100);
  thread(0, 5, "saver", 50);
  thread(1, 6, "loader-0", 70);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.threads.size(), 6u);
  ASSERT_EQ(a.thread_groups.size(), 4u);
  const ThreadGroup& loaders = a.thread_groups[1];
  EXPECT_EQ(loaders.name, "loader-*");
  EXPECT_EQ(loaders.count, 3u);
  EXPECT_DOUBLE_EQ(loaders.cpu_s, 0.9);
  EXPECT_DOUBLE_EQ(loaders.cpu_min_s, 0.1);
  EXPECT_DOUBLE_EQ(loaders.cpu_mean_s, 0.3);
  EXPECT_DOUBLE_EQ(loaders.cpu_max_s, 0.5);
  EXPECT_DOUBLE_EQ(loaders.start_s, 2);
  EXPECT_DOUBLE_EQ(loaders.end_s, 6);
  EXPECT_EQ(loaders.top.function, "load");
  EXPECT_EQ(loaders.top.line, 31u);
  EXPECT_EQ(a.threads[2].group, 1u);
  EXPECT_EQ(a.threads[2].name, "loader-1");
  EXPECT_EQ(a.thread_groups[2].name, "saver");
  EXPECT_EQ(a.thread_groups[3].rank, 1);
  EXPECT_EQ(a.thread_groups[3].name, "loader-0");
}

TEST_F(Threads, WithoutANameAreCalledWhatTheyRun) {
  shard::Thread& native = thread(0, 1, "", 10, ThreadKind::kNative);
  native.path = b_.path({b_.native("crunch", "/home/u/a.out", "/home/u/a.c", 7)});
  shard::Thread& nameless = thread(0, 2, "", 10, ThreadKind::kNative);
  nameless.path = b_.path({b_.native("libx.so+0x1234", "/home/u/libx.so")});
  const std::uint32_t started = b_.path({b_.native("thread_run", "/usr/bin/python3.11")});
  shard::Thread& of_python = thread(0, 3, "", 10);
  of_python.path = started;
  of_python.last_path =
      python("inner", "/home/u/train.py", 3, python("listen", "/home/u/train.py", 5, started));
  thread(0, 4, "", 10);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.threads.size(), 4u);
  EXPECT_EQ(a.threads[0].name, "crunch");
  EXPECT_EQ(a.threads[1].name, "libx.so");
  EXPECT_EQ(a.threads[2].name, "listen");
  EXPECT_EQ(a.threads[3].name, "");
}

TEST_F(Threads, DamagedRowsAreLeftOut) {
  thread(7, 1, "a", 1);
  thread(0, 2, "b", 1).top_path = 9999;
  thread(0, 3, "c", 1).count = 0;
  thread(0, 4, "d", 1);
  const Analysis a = analyse(b_.data);
  ASSERT_EQ(a.threads.size(), 1u);
  EXPECT_EQ(a.threads[0].name, "d");
}

TEST_F(Threads, AreInTheTextWhereTheyHaveDoneSomething) {
  thread(0, 1, "main", 900, ThreadKind::kMain);
  thread(0, 2, "OpenMP", 10, ThreadKind::kOpenMp);
  EXPECT_FALSE(text::has_busy_threads(analyse(b_.data))) << "0.5 % of its time";
  thread(0, 3, "OpenMP", 100, ThreadKind::kOpenMp);
  const Analysis a = analyse(b_.data);
  EXPECT_TRUE(text::has_busy_threads(a));
  const std::string shown = render_text(a, {});
  EXPECT_NE(shown.find("2 x OpenMP"), std::string::npos) << shown;
}

}  // namespace
}  // namespace clusterprof::report
