// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/event_loops.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"
#include "tests/unit/report/find_finding.hpp"
#include "tests/unit/report/profile_builder.hpp"

namespace clusterprof::report {
namespace {

using shard::Category;
using testing::kMs;
using testing::ProfileBuilder;

constexpr const char* kApp = "/home/user/job/app.py";
constexpr const char* kAsyncio = "/usr/lib/python3.11/asyncio/";
constexpr std::int64_t kBegin = 1'700'000'000'000'000'000;

class EventLoops : public ::testing::Test {
 protected:
  EventLoops() : b_(2) {
    b_.data.run.own = {"/home/user/job"};
    b_.sampled(0, main_path(), Category::kPython, 9000);
  }

  std::uint32_t main_path() { return b_.path({b_.python("main", kApp, 90, 80)}); }
  std::uint32_t loop_path() {
    std::uint32_t at = main_path();
    at = b_.child(at, b_.python("run_forever", std::string(kAsyncio) + "base_events.py", 600, 580));
    return b_.child(
        at, b_.python("BaseEventLoop._run_once", std::string(kAsyncio) + "base_events.py", 1900, 1800));
  }
  std::uint32_t wait_path() {
    const std::uint32_t select = b_.child(
        loop_path(), b_.python("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468, 450));
    return b_.child(select, b_.kernel("epoll_wait"));
  }
  std::uint32_t run_path() {
    return b_.child(loop_path(), b_.python("Handle._run", std::string(kAsyncio) + "events.py", 80, 70));
  }
  std::uint32_t handler_path() { return b_.child(run_path(), b_.python("Server.handle", kApp, 40, 30)); }
  std::uint32_t loads_path() {
    return b_.child(handler_path(), b_.python("loads", "/usr/lib/python3.11/json/__init__.py", 346, 299));
  }

  shard::EventLoop& loop(std::uint32_t path, std::uint64_t turns = 500) {
    shard::EventLoop& row = b_.data.event_loops.emplace_back();
    row.path = path;
    row.pid = 1000;
    row.tid = 1000 + static_cast<std::int32_t>(b_.data.event_loops.size()) - 1;
    row.main_thread = row.tid == row.pid;
    row.start_utc_ns = kBegin;
    row.turns = turns;
    row.idle_ns = 7000 * kMs;
    row.thread = "server";
    return row;
  }
  // A turn that began so many ms after the run. Parts: path, ms.
  void turn(std::uint64_t begin_ms, const std::vector<std::pair<std::uint32_t, std::uint64_t>>& parts,
            std::uint8_t flags = 0) {
    shard::EventLoop& of = b_.data.event_loops.back();
    std::uint64_t length_ns = 0;
    for (const auto& part : parts) length_ns += part.second * kMs;
    for (const auto& [path, ms] : parts)
      b_.data.loop_blocks.push_back({of.rank, path, of.pid, of.tid, of.number, of.start_utc_ns,
                                     kBegin + static_cast<std::int64_t>(begin_ms * kMs), length_ns, ms * kMs,
                                     flags});
    of.busy_ns += length_ns;
    ++of.blocked;
    of.blocked_ns += length_ns;
    of.longest_ns = std::max(of.longest_ns, length_ns);
  }
  std::vector<EventLoopRow> list() {
    Analysis analysis;
    analysis.run.start_utc_ns = b_.data.run.start_utc_ns;
    list_event_loops(b_.data, CallPaths(b_.data), analysis);
    return analysis.event_loops;
  }
  std::vector<Finding> findings() {
    const Analysis analysis = analyse(b_.data);
    std::vector<Finding> found;
    for (const Finding& finding : analysis.findings)
      if (finding.kind == FindingKind::kEventLoopBlocked) found.push_back(finding);
    return found;
  }
  ProfileBuilder b_;
};

TEST(EventLoopWords, OneTurnIsNotTheLongestOfSeveral) {
  Finding finding;
  finding.kind = FindingKind::kEventLoopBlocked;
  finding.rank = 0, finding.share = 0.12;
  finding.evidence.set(EvidenceKey::kTime, 1.2);
  finding.evidence.set(EvidenceKey::kLongest, 1.2);
  finding.evidence.set(EvidenceKey::kTurns, 1);
  const std::string first =
      "An event loop of rank 0 was blocked for 1.20 s (12.0 % of its time) while others waited for it. ";
  EXPECT_EQ(text_of(Analysis(), finding), first + "That was in one turn.");
  finding.evidence.set(EvidenceKey::kTurns, 2);
  EXPECT_EQ(text_of(Analysis(), finding), first + "The longest of its 2 blocked turns took 1.20 s.");
}

TEST_F(EventLoops, BlockedTurnsAreOfTheUsersLinesBelowTheLoop) {
  loop(wait_path());
  turn(1000, {{loads_path(), 900}, {handler_path(), 300}}, shard::LoopBlock::kAwaited);
  turn(3000, {{handler_path(), 60}, {loads_path(), 40}});
  const auto rows = list();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].kind, LoopKind::kAsyncio);
  EXPECT_EQ(rows[0].blocked, 2u);
  EXPECT_DOUBLE_EQ(rows[0].blocked_s, 1.3);
  EXPECT_DOUBLE_EQ(rows[0].awaited_s, 1.2);
  EXPECT_DOUBLE_EQ(rows[0].longest_s, 1.2);
  EXPECT_DOUBLE_EQ(rows[0].longest_at_s.value(), 1);
  ASSERT_EQ(rows[0].blocks.size(), 1u) << "one line, whatever it calls";
  const LoopBlockRow& block = rows[0].blocks[0];
  EXPECT_EQ(block.place.file, kApp);
  EXPECT_EQ(block.place.line, 40u);
  EXPECT_EQ(block.place.called, "json.loads");
  EXPECT_EQ(block.task, "Server.handle");
  EXPECT_EQ(block.count, 2u);
  EXPECT_DOUBLE_EQ(block.time_s, 1.3);
  EXPECT_DOUBLE_EQ(block.longest_s, 1.2);
}

TEST_F(EventLoops, ATurnCountsForTheLineWithItsLargestPart) {
  const std::uint32_t other = b_.child(run_path(), b_.python("beat", kApp, 55, 50));
  loop(wait_path());
  turn(1000, {{handler_path(), 300}, {other, 100}});
  turn(2000, {{other, 80}});
  const auto rows = list();
  ASSERT_EQ(rows[0].blocks.size(), 2u);
  EXPECT_EQ(rows[0].blocks[0].place.line, 40u);
  EXPECT_EQ(rows[0].blocks[0].count, 1u);
  EXPECT_EQ(rows[0].blocks[1].place.line, 55u);
  EXPECT_EQ(rows[0].blocks[1].count, 1u);
  EXPECT_DOUBLE_EQ(rows[0].blocks[1].time_s, 0.18);
  EXPECT_DOUBLE_EQ(rows[0].blocks[1].longest_s, 0.1);
}

TEST_F(EventLoops, OfALibraryThatTheLoopRunsItsFunctionIsNamed) {
  loop(wait_path());
  turn(1000, {{b_.child(run_path(), b_.python("Connection.data_received",
                                              "/usr/lib/python3/dist-packages/web/http.py", 12, 10)),
               200}});
  const auto rows = list();
  EXPECT_EQ(rows[0].blocks[0].place.function, "Connection.data_received");
  EXPECT_EQ(rows[0].blocks[0].place.line, 12u) << "not the user's line that has started the loop";
}

TEST_F(EventLoops, WhatIsDoneWhileTheLoopDoesNotRunBlocksNothing) {
  loop(wait_path());
  turn(1000, {{main_path(), 2000}, {handler_path(), 20}});
  turn(4000, {{main_path(), 30}, {handler_path(), 70}});
  const auto rows = list();
  EXPECT_EQ(rows[0].blocked, 1u);
  EXPECT_DOUBLE_EQ(rows[0].blocked_s, 0.07);
  EXPECT_DOUBLE_EQ(rows[0].longest_s, 0.07);
  EXPECT_DOUBLE_EQ(rows[0].busy_s, 0.09);
  ASSERT_EQ(rows[0].blocks.size(), 1u);
  EXPECT_EQ(rows[0].blocks[0].place.line, 40u);
}

TEST_F(EventLoops, ThreadsOfLibrariesAreNone) {
  const auto native = [&](const char* module) {
    return b_.child(b_.path({b_.native("progress", module)}), b_.kernel("epoll_wait"));
  };
  loop(native("/home/user/job/server"), 5000).busy_ns = 500 * kMs;  // the main thread's
  loop(native("/home/user/job/server"), 5000).busy_ns = 500 * kMs;  // a helper that is idle
  loop(native("/home/user/job/server"), 5000).busy_ns = 5000 * kMs;
  loop(native("/home/user/job/server"), 500).busy_ns = 5000 * kMs;  // has waited a few times only
  loop(native("/usr/lib/libpmix.so.2"), 5000).busy_ns = 5000 * kMs;
  const auto rows = list();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].tid, 1000);
  EXPECT_EQ(rows[1].tid, 1002);
  EXPECT_EQ(rows[0].kind, LoopKind::kEpoll);
}

TEST_F(EventLoops, UvloopIsTold) {
  constexpr const char* kModule =
      "/usr/lib/python3/dist-packages/uvloop/loop.cpython-311-x86_64-linux-gnu.so";
  const std::uint32_t run = b_.child(main_path(), b_.native("uv_run", kModule));
  loop(b_.child(run, b_.kernel("epoll_pwait")));
  turn(1000, {{b_.child(run, b_.python("tick", kApp, 60, 59)), 100}});
  const auto rows = list();
  EXPECT_EQ(rows[0].kind, LoopKind::kUvloop);
  EXPECT_EQ(rows[0].blocks[0].place.line, 60u);
  EXPECT_EQ(rows[0].blocks[0].task, "tick");
}

TEST_F(EventLoops, AFindingNeedsSomebodyWhoWaited) {
  loop(wait_path());
  turn(1000, {{handler_path(), 3000}});
  EXPECT_TRUE(findings().empty());
  b_.data.loop_blocks.back().flags = shard::LoopBlock::kAwaited;
  const auto found = findings();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 0);
  EXPECT_EQ(found[0].place.line, 40u);
  EXPECT_NEAR(found[0].share.value(), 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(found[0].evidence.number(EvidenceKey::kTime), 3);
}

TEST_F(EventLoops, ShortBlocksAreNoFinding) {
  loop(wait_path());
  turn(1000, {{handler_path(), 450}}, shard::LoopBlock::kAwaited);
  EXPECT_TRUE(findings().empty()) << "half a second in all";
  turn(2000, {{handler_path(), 100}}, shard::LoopBlock::kAwaited);
  EXPECT_EQ(findings().size(), 1u);
  b_.data.event_loops.back().idle_ns = 60'000 * kMs;
  EXPECT_TRUE(findings().empty()) << "of a minute";
}

TEST_F(EventLoops, ALoopThatWaitsIsNotBlockedTime) {
  const std::uint32_t wait = wait_path();
  const std::uint32_t nested = b_.child(handler_path(), b_.kernel("epoll_wait"));
  const std::uint32_t of_a_program = b_.child(loop_path(), b_.python("Selector.select", kApp, 20, 10));
  const std::uint32_t own_selector = b_.child(
      b_.child(of_a_program, b_.python("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468, 450)),
      b_.kernel("epoll_wait"));
  const CallPaths all(b_.data);
  EXPECT_TRUE(is_loop_wait(all, wait));
  EXPECT_TRUE(is_loop_wait(all, own_selector)) << "of the program";
  EXPECT_FALSE(is_loop_wait(all, nested)) << "a callback waits";
  EXPECT_FALSE(is_loop_wait(all, loop_path()));
}

}  // namespace
}  // namespace clusterprof::report
