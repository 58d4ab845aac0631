// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <algorithm>

#include "find_finding.hpp"
#include "profile_builder.hpp"
#include "report/analysis/counters.hpp"
#include "report/analysis/placement.hpp"
#include "report/analysis/timeline.hpp"
#include "report/report.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::find_finding;
using testing::kMs;
using testing::ProfileBuilder;

OffCpu kind_of(std::initializer_list<const char*> kernel) {
  ProfileBuilder b(1);
  std::uint32_t path = b.path({b.native("main", "/a.out", "a.c", 3)});
  for (const char* name : kernel) path = b.child(path, b.kernel(name));
  const CallPaths paths(b.data);
  return off_cpu_of(paths, path);
}

TEST(OffCpuKinds, FollowTheSystemCallAndItsDescriptor) {
  EXPECT_EQ(kind_of({"nanosleep"}), OffCpu::kSleep);
  EXPECT_EQ(kind_of({"clock_nanosleep"}), OffCpu::kSleep);
  EXPECT_EQ(kind_of({"pause"}), OffCpu::kSleep);
  EXPECT_EQ(kind_of({"futex"}), OffCpu::kLock);
  EXPECT_EQ(kind_of({"futex", "waiting for the GIL"}), OffCpu::kGil);
  EXPECT_EQ(kind_of({"poll"}), OffCpu::kPoll);
  EXPECT_EQ(kind_of({"pselect6"}), OffCpu::kPoll);
  EXPECT_EQ(kind_of({"epoll_pwait"}), OffCpu::kPoll);
  EXPECT_EQ(kind_of({"read", "of a file"}), OffCpu::kFile);
  EXPECT_EQ(kind_of({"read", "of a socket"}), OffCpu::kNetwork);
  EXPECT_EQ(kind_of({"write", "of a pipe or terminal"}), OffCpu::kPipe);
  EXPECT_EQ(kind_of({"read"}), OffCpu::kOther) << "of what is not known";
  EXPECT_EQ(kind_of({"fsync"}), OffCpu::kFile);
  EXPECT_EQ(kind_of({"openat"}), OffCpu::kFile);
  EXPECT_EQ(kind_of({"accept4"}), OffCpu::kNetwork);
  EXPECT_EQ(kind_of({"recvfrom"}), OffCpu::kNetwork);
  EXPECT_EQ(kind_of({"wait4"}), OffCpu::kChild);
  EXPECT_EQ(kind_of({"waitid"}), OffCpu::kChild);
  EXPECT_EQ(kind_of({"rt_sigtimedwait"}), OffCpu::kOther);
  EXPECT_EQ(kind_of({}), OffCpu::kOther);
}

TEST(OffCpuKinds, RunningInACallIsNotBlocked) {
  ProfileBuilder b(1);
  const auto read =
      b.path({b.native("load", "/a.out", "a.c", 3), b.kernel("read"), b.kernel(shard::kOnFileName)});
  b.sampled(0, read, Category::kIo, 4000);
  b.data.values[0].cpu_ns = 3000 * kMs;
  b.sampled(0, read, Category::kIo, 6000, false);
  const Analysis a = analyse(b.data);
  ASSERT_TRUE(a.off_cpu);
  ASSERT_EQ(a.off_cpu->size(), 1u);
  const OffCpuRow& row = a.off_cpu->front();
  EXPECT_EQ(row.kind, OffCpu::kFile);
  EXPECT_NEAR(row.main_thread_s, 7, 1e-9) << "of the rank's 10 s it ran 3";
  EXPECT_NEAR(row.time_s, 13, 1e-9);
  EXPECT_EQ(a.functions[0].name, "read");
  b.data.run.clock = "cpu";
  EXPECT_FALSE(analyse(b.data).off_cpu);
}

TEST(ProcessorLists, AreRead) {
  using List = std::vector<std::uint32_t>;
  EXPECT_EQ(parse_number_list("0"), (List{0}));
  EXPECT_EQ(parse_number_list("8,0-3,2"), (List{0, 1, 2, 3, 8}));
  for (const char* wrong : {"", "a", "1-", "3-1", "1,", ",1", "1 2", "0-99999999", "70000", "1--2"})
    EXPECT_FALSE(parse_number_list(wrong)) << wrong;
}

// `ranks` ranks of one node with as many CPU seconds and switches, allowed to run on `affinity`.
ProfileBuilder placed(std::uint32_t ranks, std::uint32_t cpus, const char* affinity, double cpu_s,
                      std::uint64_t switches, std::uint32_t threads = 1) {
  ProfileBuilder b(ranks);
  b.data.nodes[0].cpus = cpus;
  for (std::uint32_t r = 0; r < ranks; ++r)
    b.sampled(r, b.path({b.native("compute", "/a.out", "a.c", 3)}), Category::kNative, 10'000);
  for (shard::Rank& rank : b.data.ranks) {
    rank.flags |= shard::kUsageKnown;
    rank.flags &= ~shard::kRunDelayKnown;
    rank.cpu_ns = static_cast<std::uint64_t>(cpu_s * 1e9);
    rank.involuntary_switches = switches;
    rank.threads = threads;
    rank.affinity = b.string(affinity);
  }
  return b;
}

TEST(OverTime, SharesAreOfTheRanksThatRun) {
  // Rank 0 computes and ends after two of four bins; rank 1 writes all the time.
  ProfileBuilder b(2);
  const std::uint64_t bin_ms = 1'024;
  b.data.ranks[0].elapsed_ns = 2 * bin_ms * kMs;
  b.data.ranks[1].elapsed_ns = 4 * bin_ms * kMs;
  b.sampled(0, b.path({b.native("compute", "/a.out")}), Category::kNative, 2 * bin_ms);
  b.sampled(1, b.path({b.native("store", "/a.out")}), Category::kIo, 4 * bin_ms);
  b.series("native_ns", 0, {bin_ms * kMs, bin_ms * kMs});
  b.series("io_ns", 1, {bin_ms * kMs, bin_ms * kMs, bin_ms * kMs, bin_ms * kMs});
  TextOptions options;
  options.sections = {"timeline"};
  const std::string text = render_text(analyse(b.data), options);
  const std::string half(30, '='), all(30, '#'), none(30, ' ');
  EXPECT_NE(text.find("  io            |" + half + all + "|"), std::string::npos) << text;
  EXPECT_NE(text.find("  native        |" + half + none + "|"), std::string::npos) << text;
}

TEST(Placement, RanksThatShareProcessors) {
  const Analysis a = analyse(placed(4, 8, "0-1", 4.9, 1000).data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_EQ(
      text_of(a, a.findings[0]),
      "Ranks 0-3 share processors 0, 1 of node n0: each can run for at most 50.0 % of its time. They use "
      "98.0 % of the processors' time, and each is switched out 100 times per second. Start fewer ranks per "
      "node, or bind "
      "each to processors of its own.");
  EXPECT_NEAR(*a.findings[0].share, 0.5, 1e-9);
  EXPECT_EQ(a.findings[0].severity, Severity::kHigh);
  EXPECT_NE(find_finding(analyse(placed(2, 8, "5", 5.0, 0).data), "Ranks 0, 1 share processor 5 of node n0"),
            nullptr);
  EXPECT_NE(find_finding(analyse(placed(4, 2, "", 4.9, 1000).data), "share processors 0, 1"), nullptr)
      << "not bound, but there are no more";
  EXPECT_TRUE(analyse(placed(4, 8, "0-1", 1.0, 10).data).findings.empty()) << "they have little to do";
  EXPECT_TRUE(analyse(placed(4, 8, "0-3", 9.9, 1000).data).findings.empty()) << "one each";
  EXPECT_TRUE(analyse(placed(4, 0, "", 9.9, 1000).data).findings.empty()) << "nothing is known";
}

TEST(Placement, MoreThreadsThanProcessors) {
  const Analysis a = analyse(placed(2, 4, "0-3", 19.8, 3000, 8).data);
  ASSERT_EQ(a.findings.size(), 1u);
  EXPECT_NE(text_of(a, a.findings[0])
                .find("Ranks 0, 1 of node n0 have too many threads: 16 threads on 4 processors that are "
                      "99.0 % busy, and "
                      "each rank is switched out 300 times per second. Start fewer threads"),
            std::string::npos)
      << text_of(a, a.findings[0]);
  EXPECT_TRUE(analyse(placed(2, 4, "0-3", 17.8, 3000, 8).data).findings.empty()) << "89 % busy";
  EXPECT_TRUE(analyse(placed(2, 4, "0-3", 19.8, 190, 8).data).findings.empty()) << "19 switches/s";
  EXPECT_TRUE(analyse(placed(2, 4, "0-3", 19.8, 3000, 2).data).findings.empty()) << "one processor each";
}

TEST(Placement, OthersOnTheNode) {
  ProfileBuilder b = placed(2, 4, "0-3", 6, 500);
  b.node_series("cpu_busy_ns", 0, {39'000 * kMs});
  EXPECT_NE(find_finding(analyse(b.data), "processors of node n0 are 97.5 % busy, 30.0 % with this job"),
            nullptr);
  b.data.node_series[0].value = 35'000 * kMs;
  EXPECT_TRUE(analyse(b.data).findings.empty());
  ProfileBuilder own = placed(2, 4, "0-3", 17.4, 500);
  own.node_series("cpu_busy_ns", 0, {38'000 * kMs});
  EXPECT_TRUE(analyse(own.data).findings.empty()) << "87 % of 95 % are the job's";
}

TEST(Placement, AcrossMemoryNodes) {
  ProfileBuilder b = placed(1, 8, "3-4", 9, 0);
  b.data.nodes[0].numa_nodes = 2;
  b.data.ranks[0].numa_nodes = b.string("0-1");
  EXPECT_NE(find_finding(analyse(b.data), "Rank 0 of node n0 is bound to processors of several memory nodes"),
            nullptr);
  b.data.ranks[0].numa_nodes = b.string("0");
  EXPECT_TRUE(analyse(b.data).findings.empty());
  b.data.ranks[0].numa_nodes = b.string("0-1");
  b.data.ranks[0].affinity = b.string("0-7");
  EXPECT_TRUE(analyse(b.data).findings.empty()) << "not bound";
}

TEST(Placement, FullMemoryAndPagesFromDisk) {
  ProfileBuilder b = placed(1, 2, "0-1", 5, 0);
  b.data.nodes[0].memory_bytes = 1'000'000'000;
  b.data.ranks[0].max_rss_bytes = 800'000'000;
  b.node_series("memory_used_bytes", 0, {500'000'000, 950'000'000}, shard::SeriesKind::kMaximum);
  EXPECT_NE(find_finding(analyse(b.data),
                         "memory of node n0 was 95.0 % full (950 MB of 1.00 GB); of its ranks, rank"),
            nullptr);
  b.data.node_series[1].value = 890'000'000;
  EXPECT_TRUE(analyse(b.data).findings.empty());
  b.data.ranks[0].major_faults = 120;
  EXPECT_NE(find_finding(analyse(b.data), "Rank 0 waited for pages to come from disk"), nullptr);
  b.data.ranks[0].major_faults = 99;
  EXPECT_TRUE(analyse(b.data).findings.empty());
}

TEST(Placement, FullMemoryIsOfAllNodesWhereItIsFull) {
  ProfileBuilder b(3, 3);
  for (std::uint32_t n = 0; n < 3; ++n) {
    b.data.nodes[n].memory_bytes = 1'000'000'000;
    b.node_series("memory_used_bytes", n, {n == 0 ? 100'000'000u : 940'000'000u + n * 10'000'000u},
                  shard::SeriesKind::kMaximum);
  }
  EXPECT_NE(
      find_finding(analyse(b.data),
                   "The memory of 2 nodes was nearly full, that of node n2 most: 96.0 % full (960 MB of "
                   "1.00 GB)."),
      nullptr);
}

const Derived* find_derived(const std::vector<Derived>& list, std::string_view name) {
  for (const Derived& row : list)
    if (row.name == name) return &row;
  return nullptr;
}

TEST(DerivedMetrics, FollowTheirFormulas) {
  ProfileBuilder b(2);
  b.data.counters = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM",
                     "PAPI_BR_MSP",  "PAPI_DP_OPS",  "PAPI_VEC_DP"};
  const std::uint64_t values[] = {20'000, 30'000, 300, 60, 10'000'000'000, 7'500'000'000};
  for (std::uint32_t r = 0; r < 2; ++r) {
    for (std::uint32_t c = 0; c < 6; ++c) b.data.counter_values.push_back({r, c, values[c]});
    shard::Rank& rank = b.data.ranks[r];
    rank.flags |= shard::kUsageKnown;
    rank.cpu_ns = 5000 * kMs, rank.minor_faults = 90, rank.major_faults = 10;
    rank.voluntary_switches = 40, rank.involuntary_switches = 10;
  }
  const Analysis a = analyse(b.data);
  const auto value = [](const std::vector<Derived>& list, std::string_view name) {
    const Derived* row = find_derived(list, name);
    return row == nullptr ? -1 : row->value;
  };
  EXPECT_DOUBLE_EQ(value(a.derived, "ipc"), 1.5);
  EXPECT_DOUBLE_EQ(value(a.derived, "gflops"), 2) << "of both ranks";
  EXPECT_DOUBLE_EQ(value(a.ranks[0].derived, "gflops"), 1);
  EXPECT_DOUBLE_EQ(value(a.derived, "vectorisation"), 0.75);
  EXPECT_DOUBLE_EQ(value(a.derived, "llc_mpki"), 10);
  EXPECT_DOUBLE_EQ(value(a.derived, "branch_mpki"), 2);
  EXPECT_DOUBLE_EQ(value(a.ranks[1].derived, "memory_bandwidth"), 300 * 64 / 10.0);
  EXPECT_DOUBLE_EQ(value(a.derived, "cpu_utilisation"), 0.5);
  EXPECT_DOUBLE_EQ(value(a.derived, "faults_per_s"), 20);
  EXPECT_DOUBLE_EQ(value(a.ranks[0].derived, "context_switches_per_s"), 5);
  b.data.counters.assign(6, "other");
  b.data.ranks[0].flags = 0, b.data.ranks[0].cpu_ns = 0;
  const Analysis unknown = analyse(b.data);
  EXPECT_TRUE(unknown.derived.empty()) << "of one rank it is not known";
  EXPECT_TRUE(unknown.ranks[0].derived.empty());
}

TEST(Counters, OfBytecodeBelongToThePythonFunction) {
  ProfileBuilder b(1);
  const auto path = b.path({b.python("f", "/u/f.py", 2, 1), b.native("eval", "/usr/bin/python3.11")});
  b.sampled(0, path, Category::kPython, 1000);
  b.data.counters = {"page-faults"};
  b.data.path_counters = {{0, path, 0, 5}, {0, path, 0, 2}, {0, path, 9, 1}, {7, path, 0, 1}, {0, 99, 0, 1}};
  const Analysis a = analyse(b.data);
  ASSERT_EQ(a.functions.size(), 1u);
  EXPECT_EQ(a.functions[0].counters, (CounterAmounts{{0, 7}}));
  EXPECT_EQ(a.lines[0].counters, (CounterAmounts{{0, 7}}));
}

TEST(Timelines, OfManyRanksHaveWiderBins) {
  ProfileBuilder b(4096);
  b.series("amount", 0, {1, 2, 3, 4, 5, 6, 7, 8});
  b.series("level", 4095, {1, 9, 3}, shard::SeriesKind::kMaximum);
  b.data.rank_series.push_back({77, 0, 1023, 5});
  b.data.rank_series.push_back({9999, 0, 0, 5});
  b.data.rank_series.push_back({0, 99, 0, 5});
  b.data.rank_series.push_back({0, 0, 5000, 5});
  const Analysis few = analyse(b.data);
  ASSERT_TRUE(few.timeline);
  EXPECT_DOUBLE_EQ(few.timeline->bin_s, 1.024) << "what there is counts, not what there might be";
  EXPECT_EQ(few.timeline->bins, 1024u);
  ASSERT_EQ(few.timeline->ranks.size(), 3u);
  EXPECT_EQ(few.timeline->ranks[0].values[0].second, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 7, 8}));

  for (std::uint32_t rank = 100; rank < 4090; ++rank) b.data.rank_series.push_back({rank, 0, 1023, 1});
  const Analysis a = analyse(b.data);
  ASSERT_TRUE(a.timeline);
  EXPECT_DOUBLE_EQ(a.timeline->bin_s, 1.024 * 2) << "3990 x 1024 > 4 M";
  EXPECT_EQ(a.timeline->bins, 512u);
  ASSERT_EQ(a.timeline->ranks.size(), 3993u);
  EXPECT_EQ(a.timeline->ranks.front().values[0].second, (std::vector<std::uint64_t>{3, 7, 11, 15}));
  EXPECT_EQ(a.timeline->ranks.back().values[0].second, (std::vector<std::uint64_t>{9, 3}));
  EXPECT_FALSE(analyse(ProfileBuilder(1).data).timeline);
}

TEST(Resources, OfManyNodesExtremesAreShown) {
  Analysis analysis;
  for (int n = 0; n < 1024; ++n) {
    NodeInfo node;
    node.name = "node" + std::to_string(n);
    node.busy = n == 700 ? 0.99 : 0.25 + 0.0001 * n;
    node.sent_bytes = 1000u * static_cast<unsigned>(n);
    for (int r = 0; r < 64; ++r) node.ranks.push_back(64 * n + r);
    analysis.nodes.push_back(node);
  }
  TextOptions options;
  options.sections = {"nodes"};
  const std::string text = render_text(analysis, options);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40) << text;
  EXPECT_NE(text.find("busy         25 %    30 %     99 %  node700"), std::string::npos) << text;
  EXPECT_NE(text.find("1.02 MB  node1023"), std::string::npos) << text;
  EXPECT_NE(text.find(".. and 1019 more"), std::string::npos) << text;
}

}  // namespace
}  // namespace clusterprof::report
