// SPDX-License-Identifier: BSD-3-Clause
#include "collector/process/thread_table.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/thread_pools.hpp"
#include "collector/process/busiest_path.hpp"

namespace clusterprof::collector {
namespace {

using shard::ThreadKind;

shard::Thread thread(std::int32_t tid, std::string name, std::uint64_t cpu_ns,
                     ThreadKind kind = ThreadKind::kPython) {
  shard::Thread row;
  row.tid = tid;
  row.kind = kind;
  row.name = std::move(name);
  row.start_utc_ns = tid * 1000;
  row.elapsed_ns = 500;
  row.cpu_ns = row.cpu_min_ns = row.cpu_max_ns = cpu_ns;
  return row;
}

TEST(ThreadTable, JoinsOnlyWhatHasNoRowOfItsOwn) {
  ThreadTable table(8);
  for (std::int32_t tid = 20; tid-- > 0;) table.add(thread(tid, "loader-" + std::to_string(tid), 100u + tid));
  table.add(thread(30, "saver", 7));
  const auto rows = table.rows();
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_EQ(rows[0].name, "loader-*");  // the last ones that were added, which began first
  EXPECT_EQ(rows[0].count, 12u);
  EXPECT_EQ(rows[0].start_utc_ns, 0);
  EXPECT_EQ(rows[0].elapsed_ns, 11'500u);
  EXPECT_EQ(rows[0].cpu_ns, 12u * 100 + 66);
  EXPECT_EQ(rows[0].cpu_min_ns, 100u);
  EXPECT_EQ(rows[0].cpu_max_ns, 111u);
  EXPECT_EQ(rows[1].name, "loader-12");
  EXPECT_EQ(rows[1].count, 1u);
  EXPECT_EQ(rows[9].name, "saver");
}

TEST(ThreadTable, ThoseThatAreAlikeAreAsStillAsTheOneThatMovedLast) {
  ThreadTable table(1);
  const auto add = [&](std::int32_t tid, bool runs, std::uint64_t unmoved_ns, std::uint64_t cpu_ns) {
    shard::Thread row = thread(tid, "loader-" + std::to_string(tid), 1);
    row.flags = runs ? shard::Thread::kRuns : 0;
    row.unmoved_ns = unmoved_ns;
    row.unmoved_cpu_ns = cpu_ns;
    table.add(row);
  };
  add(1, true, 1, 1);  // has a row of its own
  add(2, false, 5, 3);
  add(3, true, 900, 3);
  add(4, true, 700, 8);
  add(5, false, 2, 50);
  add(6, true, 800, 4);
  const auto rows = table.rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].count, 5u);
  EXPECT_EQ(rows[1].unmoved_ns, 700u);
  EXPECT_EQ(rows[1].unmoved_cpu_ns, 8u);
}

TEST(ThreadTable, IsBounded) {
  ThreadTable table(8);
  for (std::int32_t tid = 0; tid < 1000; ++tid)
    table.add(thread(tid, std::string(1, static_cast<char>('a' + tid % 26)), 1));
  std::uint64_t count = 0, cpu_ns = 0;
  for (const shard::Thread& row : table.rows()) {
    count += row.count;
    cpu_ns += row.cpu_ns;
  }
  EXPECT_EQ(count, 1000u);
  EXPECT_EQ(cpu_ns, 1000u);
  EXPECT_EQ(table.rows().size(), 8u + 2 + 1) << "own rows, those that are alike, and one for the rest";
}

TEST(ThreadTable, WithFewerRowsKeepsThoseThatStartedFirst) {
  ThreadTable table;
  for (std::int32_t tid = 20; tid-- > 0;) table.add(thread(tid, "t" + std::to_string(tid), 1));
  const auto rows = table.rows(8);
  ASSERT_EQ(rows.size(), 9u);
  EXPECT_EQ(rows[0].name, "t0");
  EXPECT_EQ(rows[7].name, "t7");
  EXPECT_EQ(rows[8].name, "t*");
  EXPECT_EQ(rows[8].count, 12u);
}

TEST(ThreadTable, AddsUpTables) {
  ThreadTable one, other;
  one.add(thread(1, "a", 1));
  other.add(thread(2, "b", 2));
  one.add(other);
  EXPECT_EQ(one.rows().size(), 2u);
}

TEST(ThreadTable, MainThreadOfAProcessThatExecutesIsOne) {
  ThreadTable table;
  table.add(thread(5, "main", 30, ThreadKind::kMain));
  table.add(thread(6, "worker", 1));
  shard::Thread before = thread(5, "main", 12, ThreadKind::kMain);
  before.start_utc_ns = 1000;
  table.add(before);
  table.add(thread(9, "main", 4, ThreadKind::kMain));  // of another process
  table.join_main_threads();
  const auto rows = table.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].tid, 5);
  EXPECT_EQ(rows[0].cpu_ns, 42u);
  EXPECT_EQ(rows[0].cpu_max_ns, 42u);
  EXPECT_EQ(rows[0].start_utc_ns, 1000);
  EXPECT_EQ(rows[0].elapsed_ns, 4500u);
  EXPECT_EQ(rows[0].count, 1u);
}

TEST(BusiestPath, IsFoundAmongManyOthers) {
  BusiestPath busiest;
  EXPECT_EQ(busiest.path(), 0u);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    busiest.add(100 + i, 10);
    if (i % 5 == 0) busiest.add(7, 20);  // 2/7 of the time
  }
  EXPECT_EQ(busiest.path(), 7u);
}

TEST(BusiestPath, CountsWhatWasCalledFromOnePlaceAsOne) {
  BusiestPath busiest;
  busiest.add(5, 25);
  for (std::uint32_t leaf = 100; leaf < 103; ++leaf) busiest.add(4, leaf, 10);
  EXPECT_EQ(busiest.path(), 102u);
}

TEST(ThreadPools, AreKnownByTheirLibraries) {
  const auto name = [](std::string_view library) {
    const ThreadPool* const pool = thread_pool_of(library);
    return pool != nullptr ? pool_frame_name(*pool) : std::string();
  };
  EXPECT_EQ(name("/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0"), "[OpenMP threads]");
  EXPECT_EQ(name("/x/torch/lib/libgomp-a34b3233.so.1"), "[OpenMP threads]");
  EXPECT_EQ(name("/opt/intel/libiomp5.so"), "[OpenMP threads]");
  EXPECT_EQ(name("/usr/lib/llvm-14/lib/libomp.so.5"), "[OpenMP threads]");
  EXPECT_EQ(name("libompl.so"), "") << "a planning library";
  EXPECT_EQ(name("/x/numpy.libs/libopenblas64_p-r0-15028c96.3.21.so"), "[OpenBLAS threads]");
  EXPECT_EQ(name("/x/torch/lib/libc10.so"), "[PyTorch threads]");
  EXPECT_EQ(name("/usr/lib/x86_64-linux-gnu/libc10.so.1.13"), "[PyTorch threads]");
  EXPECT_EQ(name("/x/torch/lib/libc10_cuda.so"), "") << "it starts no pool";
  EXPECT_EQ(name("/usr/lib/libcuda.so.1"), "[CUDA threads]");
  EXPECT_EQ(name("/usr/lib/libc.so.6"), "");
  EXPECT_EQ(name(""), "");
}

TEST(ThreadPools, NamesThatAreAlikeDifferInNumbers) {
  EXPECT_EQ(without_numbers("ThreadPoolExecutor-10_3"), "ThreadPoolExecutor-*_*");
  EXPECT_EQ(without_numbers("saver"), "saver");
  EXPECT_EQ(without_numbers(""), "");
}

}  // namespace
}  // namespace clusterprof::collector
