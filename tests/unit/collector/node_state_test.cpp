// SPDX-License-Identifier: BSD-3-Clause
#include "collector/node/node_state.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/command_text.hpp"
#include "formats/wire/launchers.h"
#include "tests/unit/collector/fake_segment.hpp"
#include "tests/unit/collector/times.hpp"

namespace clusterprof::collector {
namespace {

using test::FakeSegment;

int exited(int status) { return status << 8; }  // wait status

class NodeStateTest : public testing::Test {
 protected:
  static Instant at(std::uint64_t ms) {
    return {kStart + ms * kMs, 5'000'000'000 + static_cast<std::int64_t>(ms * kMs)};
  }
  static SegmentView view(FakeSegment& fake) {
    auto opened = SegmentView::open(fake.file(), fake.bytes());
    if (!opened.ok()) throw std::runtime_error(opened.error().message);
    return std::move(opened).value();
  }
  // A main thread that runs without interruption from `begin` to `end` ms, in one place.
  static void run(FakeSegment& fake, std::int32_t pid, std::uint64_t begin, std::uint64_t end) {
    fake.header().pid = pid;
    fake.header().start_mono_ns = kStart + begin * kMs;
    fake.header().start_realtime_ns = 5'000'000'000 + begin * kMs;
    fake.module("/bin/program", 0x10000, 0x20000, 0x10000);
    fake.thread(0, pid, kStart + begin * kMs, true);
    FakeSegment::Sample sample;
    sample.words = {0x10001};
    sample.time_ns = kStart + (begin + end) / 2 * kMs;
    sample.cpu_ns = (end - begin) / 2 * kMs;
    fake.sample(0, sample);
    fake.thread_end(0, kStart + end * kMs, (end - begin) * kMs);
    fake.header().end_mono_ns = kStart + end * kMs;
  }
  // The same, but it goes on, and has been seen last at `last` ms.
  static void go_on(FakeSegment& fake, std::int32_t pid, std::uint64_t begin, std::uint64_t last) {
    run(fake, pid, begin, last);
    fake.thread(0, pid, kStart + begin * kMs, true);
    FakeSegment::Sample sample;
    sample.words = {0x10001};
    sample.time_ns = kStart + last * kMs;
    sample.cpu_ns = (last - begin) * kMs;
    fake.sample(0, sample);
    fake.header().end_mono_ns = 0;
    fake.header().initial_stack = 0x7000;
  }
  static std::uint64_t main_thread_ns(const shard::Rank& rank) {
    return std::accumulate(rank.main_thread_ns.begin(), rank.main_thread_ns.end(), std::uint64_t{0});
  }
  NodeState state_{NodeOptions{"run-1", "n0", {"./program"}, 0, 100, "wall"}};
};

TEST_F(NodeStateTest, EveryRankKeepsItsCommand) {
  const auto announce = [&](std::int32_t rank, const std::vector<std::string>& command) {
    return state_.announce(std::nullopt, rank, 4, 100 + rank, at(0), command_text(command));
  };
  announce(2, {"./program"});  // its launcher started the collector
  const auto id = announce(0, {"./first", "***"});
  announce(1, {});
  const NodeSnapshot snapshot = state_.snapshot(at(10), false);
  ASSERT_EQ(snapshot.ranks.size(), 3u);
  EXPECT_EQ(snapshot.ranks[0].command, command_text({"./first", "***"}));
  EXPECT_EQ(snapshot.ranks[1].command, "");
  EXPECT_EQ(snapshot.ranks[2].command, command_text({"./program"}));
  EXPECT_EQ(snapshot.run.command, (std::vector<std::string>{"./first", "***"})) << "of the lowest rank";
  // Told again, by who does not know the command.
  state_.announce(id, 0, 4, 100, at(20));
  EXPECT_EQ(state_.snapshot(at(30), false).ranks[0].command, command_text({"./first", "***"}));
}

TEST_F(NodeStateTest, AWindowIsOpenWhenAnnouncedRanksHaveOpenedItToo) {
  const auto ranks = [this] {
    const NodeState::WindowDone found = state_.window_done();
    return std::pair(found.done, found.all);
  };
  FakeSegment first, second;
  run(first, 100, 5, 405);
  run(second, 101, 5, 405);
  second.header().rank = 1;
  for (FakeSegment* segment : {&first, &second})
    segment->header().outside_windows = wire::OutsideWindows::kNothing;
  const auto id = state_.announce(std::nullopt, 0, 2, 100, at(0));
  const auto late = state_.announce(std::nullopt, 1, 2, 101, at(0));
  state_.hello(id, 100, view(first), at(6));
  state_.want_window(1, true);
  first.header().window_done = first.header().window_wanted.load();
  EXPECT_EQ(ranks(), std::pair(1u, 2u)) << "the other one has not greeted";
  state_.hello(late, 101, view(second), at(10));
  EXPECT_EQ(ranks(), std::pair(1u, 2u));
  second.header().window_done = second.header().window_wanted.load();
  EXPECT_EQ(ranks(), std::pair(2u, 2u));
  state_.segment_ended(late, at(20).mono_ns);
  EXPECT_EQ(ranks(), std::pair(1u, 1u)) << "it is something now that is not recorded";
}

TEST_F(NodeStateTest, CountsProgramsThatRanUnrecorded) {
  FakeSegment fake, exec, helper;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(fake, 100, 5, 105);
  const auto count = [](FakeSegment& segment, wire::UnrecordedReason reason, std::uint64_t programs) {
    segment.header().unrecorded_programs[static_cast<std::size_t>(reason)] = programs;
  };
  count(fake, wire::UnrecordedReason::kStaticProgram, 2);
  run(exec, 100, 105, 205);
  count(exec, wire::UnrecordedReason::kStaticProgram, 1);
  count(exec, wire::UnrecordedReason::kPrivileges, 1);
  run(helper, 101, 105, 150);
  count(helper, wire::UnrecordedReason::kStaticProgram, 4);
  state_.hello(id, 100, view(fake), at(6));
  state_.hello(id, 100, view(exec), at(106));
  helper.header().rank = 0;
  const auto child = state_.hello(std::nullopt, 101, view(helper), at(106));
  state_.gone(child, at(160).mono_ns, exited(0));
  const std::vector<shard::Note> notes = state_.snapshot(at(205), true).run.notes;
  const std::vector<shard::Note> expected = {
      shard::note_of_node(shard::NoteCode::kUnrecordedPrograms, "n0", 1, "privileges"),
      shard::note_of_node(shard::NoteCode::kUnrecordedPrograms, "n0", 7, "static_program")};
  EXPECT_EQ(notes, expected);
}

// `clusterprof torchrun`: clusterprof has announced torchrun, and the ranks are processes below it.
class WorkersTest : public NodeStateTest {
 protected:
  // A process that torchrun has given this rank, or that such a process has started.
  NodeState::ProcessId worker(std::int32_t pid, std::int32_t rank, std::uint64_t launch, std::uint64_t begin,
                              std::uint64_t end, std::int32_t size = 2,
                              std::optional<NodeState::ProcessId> known = {}, bool forked = false) {
    FakeSegment& fake = *segments_.emplace_back(std::make_unique<FakeSegment>());
    run(fake, pid, begin, end);
    fake.header().rank = rank;
    fake.header().world_size = size;
    fake.header().launch = launch;
    fake.header().forked = forked ? 1 : 0;
    fake.header().launcher =
        static_cast<std::uint32_t>(wire::find_launcher("torchrun") - wire::kLaunchers) + 1;
    return state_.hello(known, pid, view(fake), at(begin));
  }
  NodeState::ProcessId of_launcher(std::int32_t pid, std::optional<NodeState::ProcessId> known = {}) {
    FakeSegment& fake = *segments_.emplace_back(std::make_unique<FakeSegment>());
    run(fake, pid, 5, 405);
    fake.header().rank = 0;
    fake.header().world_size = 1;
    return state_.hello(known, pid, view(fake), at(6));
  }
  void end(NodeState::ProcessId process, std::uint64_t ms, int status = 0) {
    state_.gone(process, at(ms).mono_ns, exited(status));
  }
  const NodeState::ProcessId launcher_ = state_.announce(std::nullopt, 0, 1, 100, at(0));
  std::vector<std::unique_ptr<FakeSegment>> segments_;
};

TEST_F(WorkersTest, AreTheRanksAndTheirLauncherIsNone) {
  of_launcher(100, launcher_);
  EXPECT_EQ(state_.snapshot(at(10), false).ranks.size(), 1u);  // nobody knows yet what it is
  const auto second = worker(202, 1, 7, 20, 120), first = worker(201, 0, 7, 30, 110);
  // A helper of the launcher, one of a rank, and a process that the rank has forked.
  of_launcher(101);
  const auto helper = worker(302, 1, 7, 40, 60);
  end(helper, 61);
  end(worker(303, 1, 7, 50, 60, 2, {}, true), 61);
  state_.poll(at(100).mono_ns);
  end(first, 110);
  end(second, 120, 3);
  const NodeSnapshot snapshot = state_.snapshot(at(400), true);
  EXPECT_EQ(snapshot.run.world_size, 2u);
  EXPECT_EQ(state_.world_size(), 2u);
  EXPECT_EQ(snapshot.run.launcher, "torchrun");
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.pid, 201);
  EXPECT_EQ(snapshot.ranks[1].rank.pid, 202);
  EXPECT_EQ(snapshot.ranks[0].rank.processes, 1u);
  EXPECT_EQ(snapshot.ranks[1].rank.processes, 3u);
  EXPECT_EQ(snapshot.ranks[1].rank.exit_status, 3);
  EXPECT_EQ(snapshot.ranks[1].rank.restart, 0u);
  EXPECT_TRUE(state_.has_rank(1));
  EXPECT_FALSE(state_.has_rank(2));
}

TEST_F(WorkersTest, ThatWereHelpersOfTheLauncherBeforeTheirExecAreRanks) {
  of_launcher(100, launcher_);
  const auto forked = of_launcher(201);
  EXPECT_EQ(worker(201, 1, 7, 20, 120, 2, forked), forked);
  const auto ranks = state_.snapshot(at(400), false).ranks;
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].rank.rank, 1);
  EXPECT_EQ(ranks[0].rank.pid, 201);
}

TEST_F(WorkersTest, ThatAreStartedAgainAreFurtherRanks) {
  end(worker(201, 0, 7, 10, 50), 50, 1);
  end(worker(202, 1, 7, 10, 60), 60);
  end(worker(203, 0, 8, 100, 150), 150);  // the launcher says that it is another start
  end(worker(204, 1, 8, 100, 160), 160);
  end(worker(206, 1, 8, 200, 260), 260);  // it does not say so
  end(worker(205, 0, 8, 200, 250), 250);
  end(worker(207, 0, 9, 300, 350, 1), 350);  // with fewer ranks
  const NodeSnapshot snapshot = state_.snapshot(at(400), true);
  ASSERT_EQ(snapshot.ranks.size(), 7u);
  EXPECT_EQ(snapshot.run.world_size, 7u);
  const std::vector<std::pair<std::int32_t, std::uint32_t>> expected = {
      {201, 0}, {202, 0}, {203, 1}, {204, 1}, {205, 2}, {206, 2}, {207, 3}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const shard::Rank& rank = snapshot.ranks[i].rank;
    EXPECT_EQ(rank.rank, static_cast<std::int32_t>(i));
    EXPECT_EQ(std::pair(rank.pid, rank.restart), expected[i]);
  }
}

// srun clusterprof torchrun, with two tasks on this node: the numbers of the tasks are no ranks.
TEST_F(WorkersTest, OfTwoLaunchersOfOneNode) {
  worker(201, 2, 7, 10, 50, 4);
  const auto other = state_.announce(std::nullopt, 1, 2, 103, at(20));
  of_launcher(103, other);
  worker(203, 3, 7, 30, 50, 4);
  const NodeSnapshot snapshot = state_.snapshot(at(400), false);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.rank, 2);
  EXPECT_EQ(snapshot.ranks[1].rank.rank, 3);
  EXPECT_EQ(snapshot.run.world_size, 4u);
}

TEST_F(WorkersTest, WithNumbersThatCannotBeAreNone) {
  of_launcher(100, launcher_);
  worker(201, 2, 7, 10, 50, 2);
  worker(202, 0, 7, 10, 50, 1 << 30);
  const NodeSnapshot snapshot = state_.snapshot(at(400), false);
  for (const RankSnapshot& rank : snapshot.ranks) EXPECT_EQ(rank.rank.restart, 0u);
  EXPECT_EQ(snapshot.run.launcher, "");
}

// What was checked is what is used.
TEST_F(WorkersTest, ThatChangeWhatTheySayWhileTheyGreetChangeNothing) {
  FakeSegment fake;
  run(fake, 100, 0, 100);
  wire::SegmentHeader& header = fake.header();
  header.launcher = 1;
  header.rank = 0;
  const pid_t process = fork();  // the segment is shared
  if (process == 0) {
    auto& size = *const_cast<volatile std::int32_t*>(&header.world_size);
    for (;;) {
      size = 4;
      size = 2'000'000'000;
    }
  }
  ASSERT_GT(process, 0);
  std::uint32_t largest = 0;
  for (int round = 0; round < 1000; ++round) {
    NodeState state{NodeOptions{}};
    state.hello(std::nullopt, 100, view(fake), at(10));
    largest = std::max(largest, state.world_size());
  }
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
  EXPECT_LE(largest, static_cast<std::uint32_t>(kMaxRanks));
}

// The start of a rank whose launcher is the parent of clusterprof is announced with it.
TEST_F(NodeStateTest, ARankIsAnnouncedWithItsRestart) {
  state_.announce(std::nullopt, 2, 4, 100, at(0), {}, 1);
  state_.announce(std::nullopt, 3, 4, 101, at(0));
  const NodeSnapshot snapshot = state_.snapshot(at(10), false);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.restart, 1u);
  EXPECT_EQ(snapshot.ranks[1].rank.restart, 0u);
}

TEST_F(NodeStateTest, RecordsOneRank) {
  FakeSegment fake;
  const auto id = state_.announce(std::nullopt, 3, 8, 100, at(0));
  run(fake, 100, 5, 105);
  fake.header().rank = 3;
  fake.header().exit_flags = wire::kExitStatusKnown;
  fake.header().exit_status = 3;
  fake.header().usage.user_ns = 90;
  fake.header().usage.system_ns = 10;
  fake.header().usage.max_rss_bytes = 4096;
  EXPECT_EQ(state_.hello(id, 100, view(fake), at(6)), id);
  state_.poll(at(100).mono_ns);
  state_.gone(id, at(110).mono_ns, std::nullopt);
  const NodeSnapshot snapshot = state_.snapshot(at(200), true);
  EXPECT_TRUE(snapshot.run.complete);
  EXPECT_EQ(snapshot.run.world_size, 8u);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  const shard::Rank& rank = snapshot.ranks[0].rank;
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.pid, 100);
  EXPECT_EQ(rank.elapsed_ns, 100 * kMs);
  EXPECT_EQ(main_thread_ns(rank), 100 * kMs);
  EXPECT_EQ(rank.start_utc_ns, 5'000'000'000 + static_cast<std::int64_t>(5 * kMs));
  EXPECT_EQ(rank.exit_status, 3);
  EXPECT_EQ(rank.flags & ~(shard::kGarbageApart | shard::kFilesKnown),
            shard::kExitStatusKnown | shard::kUsageKnown);
  EXPECT_EQ(rank.cpu_ns, 100u);
  EXPECT_EQ(rank.max_rss_bytes, 4096u);
  EXPECT_EQ(rank.samples, 1u);
  EXPECT_EQ(rank.threads, 1u);
  EXPECT_EQ(rank.processes, 1u);
  EXPECT_EQ(snapshot.node.elapsed_ns, 100 * kMs);
  EXPECT_EQ(snapshot.node.cpu_ns, 100u);
}

TEST_F(NodeStateTest, RejectsImpossibleStartTimes) {
  struct Said {
    std::uint64_t mono_ns, realtime_ns;
  };
  const std::uint64_t garbage = ~std::uint64_t{0} / 2 - 5;
  // The last one is right, but for the clock that can be set.
  const std::vector<Said> said = {{1, 0}, {garbage, garbage}, {~0ull, ~0ull}, {at(20'004).mono_ns, 77}};
  std::vector<std::unique_ptr<FakeSegment>> fakes;
  state_.begin({kStart + 20'000 * kMs, 25'000'000'000});
  for (std::size_t i = 0; i < said.size(); ++i) {
    FakeSegment& fake = *fakes.emplace_back(std::make_unique<FakeSegment>());
    const auto number = static_cast<std::int32_t>(i);
    run(fake, 100 + number, 20'000, 20'100);
    fake.header().start_mono_ns = said[i].mono_ns;
    fake.header().start_realtime_ns = said[i].realtime_ns;
    const auto id = state_.announce(std::nullopt, number, 4, 100 + number, at(20'000));
    state_.hello(id, 100 + number, view(fake), at(20'010));
    state_.poll(kStart + 20'010 * kMs);
    state_.gone(id, kStart + 20'110 * kMs, exited(0));
  }
  const NodeSnapshot s = state_.snapshot(at(20'200), true);
  EXPECT_EQ(s.run.start_utc_ns, at(20'004).utc_ns);
  EXPECT_EQ(s.node.elapsed_ns, 96 * kMs);
  ASSERT_EQ(s.ranks.size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(s.ranks[i].rank.start_utc_ns, at(20'010).utc_ns);
    EXPECT_EQ(s.ranks[i].rank.elapsed_ns, 90 * kMs);
  }
  EXPECT_EQ(s.ranks[3].rank.elapsed_ns, 96 * kMs);
  EXPECT_EQ(s.run.notes, std::vector{note_of_ranks(shard::NoteCode::kStartNotKnown, {0, 2})});
}

TEST_F(NodeStateTest, AClockThatIsSetBackDoesNotMakeTheRunLonger) {
  const auto when = [](std::uint64_t ms, std::int64_t back_s) {
    return Instant{kStart + ms * kMs,
                   (10'000 - back_s) * 1'000'000'000 + static_cast<std::int64_t>(ms * kMs)};
  };
  FakeSegment fake;
  state_.begin(when(0, 0));
  run(fake, 100, 0, 100);
  const auto first = state_.announce(std::nullopt, 0, 2, 100, when(0, 0));
  state_.hello(first, 100, view(fake), when(0, 0));
  state_.gone(first, when(110, 3600).mono_ns, exited(0));
  const auto without_agent = state_.announce(std::nullopt, 1, 2, 101, when(50, 3600));
  state_.gone(without_agent, when(150, 3600).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(when(200, 3600), true);
  EXPECT_EQ(snapshot.run.start_utc_ns, when(0, 0).utc_ns);
  EXPECT_EQ(snapshot.node.start_utc_ns, when(0, 0).utc_ns);
  EXPECT_EQ(snapshot.node.elapsed_ns, 150 * kMs);
  EXPECT_EQ(snapshot.ranks.at(1).rank.start_utc_ns, when(50, 0).utc_ns);
  EXPECT_EQ(snapshot.node.as_of_utc_ns, when(200, 3600).utc_ns) << "what clocks say outside";
}

TEST_F(NodeStateTest, LimitsTheNumberOfNotes) {
  for (std::uint64_t pid = 0; pid < 1000; ++pid)
    state_.add_note(note_of_node(shard::NoteCode::kProcessDamaged, "n", pid));
  const std::vector<shard::Note> notes = state_.snapshot(at(0), true).run.notes;
  ASSERT_EQ(notes.size(), 51u);
  EXPECT_EQ(notes.front().number, 0u);
  EXPECT_EQ(notes.back(), note_of_node(shard::NoteCode::kMoreNotes, notes.back().node, 950));
}

// The analysis reads some notes as facts: of which kind there are many does not matter to them.
TEST_F(NodeStateTest, KeepsTheFirstNotesOfEachCode) {
  for (std::uint64_t pid = 0; pid < 100; ++pid)
    state_.add_note(note_of_node(shard::NoteCode::kProcessDamaged, "n", pid));
  const shard::Note turned_off = note_of_node(shard::NoteCode::kTurnedOff, "n", 60),
                    ended = note_of_node(shard::NoteCode::kEndedForHang, "n", 1);
  state_.add_note(turned_off);
  state_.add_note(ended);
  for (std::uint64_t uid = 0; uid < 100; ++uid)
    state_.add_note(note_of_node(shard::NoteCode::kOtherUser, "n", uid));
  const std::vector<shard::Note> notes = state_.snapshot(at(0), true).run.notes;
  EXPECT_EQ(std::count(notes.begin(), notes.end(), turned_off), 1);
  EXPECT_EQ(std::count(notes.begin(), notes.end(), ended), 1);
  EXPECT_LT(notes.size(), 70u);
}

TEST_F(NodeStateTest, CountsNotesThatAreLeftOutOnce) {
  for (int again = 0; again < 3; ++again)
    for (std::uint64_t pid = 0; pid < 80; ++pid)
      state_.add_note(note_of_node(shard::NoteCode::kProcessDamaged, "n", pid));
  EXPECT_EQ(state_.snapshot(at(0), true).run.notes.back().number, 30u);
}

TEST_F(NodeStateTest, SaysOnceThatItSavesMemory) {
  for (int i = 0; i < 3; ++i) state_.save_memory(shard::NoteCode::kMemoryBound, 100 << 20);
  const std::vector<shard::Note> notes = state_.snapshot(at(100), true).run.notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].code, shard::NoteCode::kMemoryBound);
  EXPECT_EQ(notes[0].number, 100u << 20);
}

// A new call path has no callers while memory is short, and the same stack has them when there is room again.
TEST_F(NodeStateTest, KeepsCallersAgainWhenTheJobHasMemoryAgain) {
  FakeSegment fake;
  fake.header().pid = 100;
  fake.header().start_mono_ns = kStart;
  fake.module("/bin/program", 0x10000, 0x20000, 0x10000);
  fake.thread(0, 100, kStart, true);
  state_.hello(state_.announce(std::nullopt, 0, 1, 100, at(0)), 100, view(fake), at(0));
  std::uint64_t ms = 0;
  const auto sample_and_poll = [&](std::uint64_t caller) {
    FakeSegment::Sample sample;
    sample.words = {0x10001, caller};
    for (int i = 0; i < 10; ++i) {
      ms += 10;
      sample.time_ns = kStart + ms * kMs;
      sample.cpu_ns = ms * kMs;
      EXPECT_TRUE(fake.sample(0, sample));
    }
    state_.poll(at(ms).mono_ns);
  };
  // Samples with that caller, on any path.
  const auto samples_below = [&](std::uint64_t caller) {
    const NodeSnapshot snapshot = state_.snapshot(at(ms), false);
    const RawTables& tables = snapshot.tables;
    std::uint64_t samples = 0;
    for (const auto& [key, amount] : snapshot.ranks.at(0).report.values) {
      for (std::uint32_t node = key.path; node != 0; node = tables.nodes[node].parent)
        if (tables.frames[tables.nodes[node].frame].b == caller - 0x10000) samples += amount.samples;
    }
    return samples;
  };
  // The path of the MPI function, above it its caller's caller.
  const auto site_is_below = [&](std::uint64_t caller) {
    const NodeSnapshot snapshot = state_.snapshot(at(ms), false);
    const RawTables& tables = snapshot.tables;
    for (const auto& [key, amount] : snapshot.ranks.at(0).report.calls)
      for (std::uint32_t node = key.path; node != 0; node = tables.nodes[node].parent)
        if (tables.frames[tables.nodes[node].frame].b == caller - 0x10000) return true;
    return false;
  };
  sample_and_poll(0x18000);
  EXPECT_GT(samples_below(0x18000), 0u);
  state_.save_memory(shard::NoteCode::kJobMemoryShort, 100);
  fake.site(0, 16, 0, 3, 300, 50, 150, 24, 0, {0x10001, 0x1b000});
  sample_and_poll(0x19000);
  EXPECT_EQ(samples_below(0x19000), 0u);
  EXPECT_FALSE(site_is_below(0x1b000));
  state_.job_has_memory_again();
  sample_and_poll(0x19000);
  EXPECT_GT(samples_below(0x19000), 0u);
  EXPECT_TRUE(site_is_below(0x1b000));

  // What the collector itself may take does not become more.
  state_.save_memory(shard::NoteCode::kMemoryBound, 200);
  state_.save_memory(shard::NoteCode::kJobMemoryShort, 300);
  state_.job_has_memory_again();
  sample_and_poll(0x1a000);
  EXPECT_EQ(samples_below(0x1a000), 0u);
  std::vector<shard::NoteCode> codes;
  for (const shard::Note& note : state_.snapshot(at(ms), false).run.notes) codes.push_back(note.code);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), shard::NoteCode::kJobMemoryShort), 1);
  EXPECT_EQ(std::count(codes.begin(), codes.end(), shard::NoteCode::kMemoryBound), 1);
}

// The tables of 4000 threads leave next to nothing of 48 MB for call paths.
TEST_F(NodeStateTest, LeavesRoomForTheThreadsThatItHas) {
  static constexpr std::uint32_t kRanks = 8, kThreads = 500, kPaths = 6000, kPathsOfOnePoll = 1000;
  const auto nodes_with = [](std::uint32_t threads) {
    NodeOptions options{"run-1", "n0", {"./program"}, 0, 100, "wall"};
    options.max_memory_bytes = 48 << 20;
    NodeState state(options);
    std::vector<std::unique_ptr<FakeSegment>> segments;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      FakeSegment& fake = *segments.emplace_back(std::make_unique<FakeSegment>(true, kThreads));
      const auto pid = static_cast<std::int32_t>(1000 * (rank + 1));
      fake.header().pid = pid;
      fake.header().rank = static_cast<std::int32_t>(rank);
      fake.module("/bin/program", 0x10000, 0x20000, 0x10000);
      for (std::uint32_t i = 0; i < threads; ++i)
        fake.thread(i, pid + static_cast<std::int32_t>(i), kStart, i == 0);
      const auto id = state.announce(std::nullopt, static_cast<std::int32_t>(rank), kRanks, pid, at(0));
      state.hello(id, pid, view(fake), at(0));
    }
    for (std::uint32_t i = 0; i < kPaths; ++i) {
      FakeSegment::Sample sample;
      sample.words = {0x10000 + i, 0x18000};
      sample.time_ns = kStart + (i + 1) * kMs;
      sample.cpu_ns = (i + 1) * kMs;
      EXPECT_TRUE(segments[0]->sample(0, sample));
      if (i % kPathsOfOnePoll == kPathsOfOnePoll - 1) state.poll(at(i + 1).mono_ns);
    }
    return state.snapshot(at(kPaths + 1), false).tables.nodes.size();
  };
  EXPECT_GT(nodes_with(1), kPaths);
  EXPECT_LT(nodes_with(kThreads), kPaths / 2);
}

TEST_F(NodeStateTest, RejectsImpossibleWorldSizes) {
  FakeSegment fake;
  run(fake, 100, 5, 105);
  fake.header().world_size = 2'000'000'000;
  fake.header().mpi_rank = 1'999'999'999;
  fake.header().mpi_size = 2'000'000'000;
  state_.hello(state_.announce(std::nullopt, 3, 2'000'000'000, 100, at(0)), 100, view(fake), at(6));
  const NodeSnapshot snapshot = state_.snapshot(at(200), true);
  EXPECT_EQ(snapshot.run.world_size, 0u);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  EXPECT_EQ(snapshot.ranks[0].rank.rank, 3);
}

TEST_F(NodeStateTest, ExecContinuesTheProcess) {
  FakeSegment shell, program;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(shell, 100, 0, 40);
  shell.header().exit_flags = wire::kExecuted;
  run(program, 100, 41, 100);
  program.header().exit_flags = wire::kExitStatusKnown;
  state_.hello(id, 100, view(shell), at(0));
  EXPECT_EQ(state_.hello(id, 100, view(program), at(42)), id);
  state_.gone(id, at(101).mono_ns, std::nullopt);
  const NodeSnapshot snapshot = state_.snapshot(at(200), true);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  EXPECT_EQ(snapshot.ranks[0].rank.elapsed_ns, 100 * kMs);
  EXPECT_EQ(main_thread_ns(snapshot.ranks[0].rank), 99 * kMs);
  EXPECT_EQ(snapshot.ranks[0].rank.processes, 1u);
  EXPECT_EQ(snapshot.ranks[0].rank.samples, 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.flags & ~(shard::kGarbageApart | shard::kFilesKnown),
            shard::kExitStatusKnown);
}

TEST_F(NodeStateTest, ProcessThatExecsAnUnrecordedProgramIsKeptUntilItsEnd) {
  FakeSegment shell;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(shell, 100, 0, 40);
  shell.header().exit_flags = wire::kExecuted;
  state_.hello(id, 100, view(shell), at(0));
  state_.segment_ended(id, at(41).mono_ns);
  state_.gone(id, at(100).mono_ns, exited(2));
  const NodeSnapshot snapshot = state_.snapshot(at(200), true);
  EXPECT_EQ(snapshot.ranks.at(0).rank.elapsed_ns, 100 * kMs);
  EXPECT_EQ(snapshot.ranks.at(0).rank.exit_status, 2);
}

// A shell that ends with an exec, and ranks like it.
class ExecTest : public NodeStateTest {
 protected:
  ExecTest() : id_(state_.announce(std::nullopt, 0, 1, 100, at(0))) {
    go_on(shell_, 100, 0, 300);
    state_.hello(id_, 100, view(shell_), at(0));
    state_.poll(at(310).mono_ns);
  }
  void executes(wire::UnrecordedReason reason, std::uint64_t ms) {
    shell_.launch(100, reason, at(ms).mono_ns, std::string_view("./program\0", 10));
  }
  RankSnapshot rank(std::uint64_t ms) { return state_.snapshot(at(ms), false).ranks.at(0); }
  std::uint64_t recorded_ms(std::uint64_t now_ms) { return main_thread_ns(rank(now_ms).rank) / kMs; }
  FakeSegment shell_;
  NodeState::ProcessId id_;
};

TEST_F(ExecTest, EndsTheTimeOfTheProgramThatWas) {
  executes(wire::UnrecordedReason::kStaticProgram, 500);
  state_.agent_left(id_, at(502).mono_ns);
  EXPECT_FALSE(state_.may_have_executed(id_, at(1499).mono_ns)) << "its children may still greet";
  EXPECT_TRUE(state_.may_have_executed(id_, at(1500).mono_ns));
  state_.look_for_exec(id_, 0x7000, at(1500).mono_ns);
  EXPECT_EQ(recorded_ms(1600), 1600u) << "the exec may still fail";
  state_.look_for_exec(id_, 0x8000, at(1700).mono_ns);
  EXPECT_FALSE(state_.may_have_executed(id_, at(2000).mono_ns));
  // The rest is nobody's, and it is still the rank.
  const RankSnapshot snapshot = rank(3000);
  EXPECT_EQ(main_thread_ns(snapshot.rank), 500 * kMs);
  EXPECT_EQ(snapshot.rank.elapsed_ns, 3000 * kMs);
  EXPECT_EQ(snapshot.rank.paused_ns, 2500 * kMs) << "so that the 500 ms do not stand for it";
  EXPECT_NE(snapshot.rank.flags & shard::kStillRan, 0u);
  ASSERT_EQ(snapshot.threads.size(), 1u);
  EXPECT_EQ(snapshot.threads[0].flags & shard::Thread::kRuns, 0);
  EXPECT_EQ(snapshot.threads[0].elapsed_ns, 500 * kMs);
  ASSERT_EQ(snapshot.processes.size(), 1u);
  EXPECT_EQ(snapshot.processes[0].unrecorded, shard::Unrecorded::kStaticProgram);
  EXPECT_NE(snapshot.processes[0].flags & shard::Process::kRuns, 0);
  EXPECT_EQ(snapshot.processes[0].elapsed_ns, 3000 * kMs);
  EXPECT_EQ(state_.main_processes(), std::vector{id_});
  EXPECT_EQ(state_.still_ns(at(3000).mono_ns), 0u) << "what it does is not known";
  EXPECT_EQ(state_.window_done().all, 0u);
  state_.gone(id_, at(4000).mono_ns, exited(2));
  const RankSnapshot ended = rank(5000);
  EXPECT_EQ(main_thread_ns(ended.rank), 500 * kMs);
  EXPECT_EQ(ended.rank.elapsed_ns, 4000 * kMs);
  EXPECT_EQ(ended.rank.paused_ns, 3500 * kMs);
  EXPECT_EQ(ended.rank.exit_status, 2);
  EXPECT_FALSE(ended.failure) << "the last words are those of the program before";
  EXPECT_FALSE(ended.last_path) << "it was not there when it failed";
}

TEST_F(ExecTest, IsSeenWithoutANote) {
  state_.agent_left(id_, at(400).mono_ns);
  state_.look_for_exec(id_, 0, at(1500).mono_ns);
  EXPECT_EQ(recorded_ms(1600), 1600u) << "it may have closed its descriptors";
  state_.look_for_exec(id_, 0x8000, at(1700).mono_ns);
  EXPECT_EQ(recorded_ms(3000), 400u);
  EXPECT_EQ(rank(3000).rank.paused_ns, 2600 * kMs);
}

TEST_F(ExecTest, OfAProgramThatTheKernelSaysNothingOfIsBelievedWhereItsAgentHasLeft) {
  executes(wire::UnrecordedReason::kPrivileges, 500);
  state_.look_for_exec(id_, 0, at(1500).mono_ns);
  EXPECT_EQ(recorded_ms(1600), 1600u);
  state_.agent_left(id_, at(1600).mono_ns);
  state_.look_for_exec(id_, 0, at(1700).mono_ns);
  EXPECT_EQ(recorded_ms(3000), 500u);
}

TEST_F(ExecTest, WhoseProgramEndsBeforeAnybodyLooks) {
  executes(wire::UnrecordedReason::kStaticProgram, 500);
  state_.agent_left(id_, at(502).mono_ns);
  state_.gone(id_, at(900).mono_ns, exited(0));
  EXPECT_EQ(recorded_ms(1000), 500u);
  EXPECT_EQ(rank(1000).rank.elapsed_ns, 900 * kMs);
}

TEST_F(ExecTest, OfARecordedProgramLeavesOutTheTimeUntilItGreets) {
  FakeSegment program;
  run(program, 100, 890, 1500);
  executes(wire::UnrecordedReason::kCount, 500);
  state_.agent_left(id_, at(502).mono_ns);
  EXPECT_EQ(state_.hello(id_, 100, view(program), at(900)), id_);
  state_.poll(at(1500).mono_ns);
  EXPECT_FALSE(state_.may_have_executed(id_, at(3000).mono_ns)) << "the new program is the one that greeted";
  EXPECT_EQ(recorded_ms(1500), 500u + 610u);
  EXPECT_EQ(rank(1500).rank.samples, 2u);
  EXPECT_EQ(rank(1500).rank.processes, 1u);
  EXPECT_EQ(rank(1500).rank.paused_ns, 0u) << "it has only started";
}

TEST_F(ExecTest, OfAnUnrecordedProgramThatExecutesARecordedOne) {
  FakeSegment program;
  run(program, 100, 2400, 3000);
  executes(wire::UnrecordedReason::kPrivileges, 500);
  state_.agent_left(id_, at(502).mono_ns);
  state_.look_for_exec(id_, 0, at(1700).mono_ns);
  EXPECT_EQ(state_.hello(id_, 100, view(program), at(2410)), id_);
  state_.poll(at(3000).mono_ns);
  EXPECT_EQ(recorded_ms(3000), 500u + 600u);
  EXPECT_EQ(rank(3000).rank.elapsed_ns, 3000 * kMs);
  EXPECT_EQ(rank(3000).rank.paused_ns, 1900 * kMs);
  EXPECT_EQ(rank(3000).processes.at(0).unrecorded, shard::Unrecorded::kNo);
}

TEST_F(ExecTest, TakesTimeInWhichOtherThreadsAreSeen) {
  executes(wire::UnrecordedReason::kStaticProgram, 400);
  FakeSegment::Sample sample;
  sample.words = {0x10001};
  sample.time_ns = at(450).mono_ns;
  sample.cpu_ns = 450 * kMs;
  shell_.sample(0, sample);
  state_.agent_left(id_, at(500).mono_ns);
  state_.look_for_exec(id_, 0x8000, at(1500).mono_ns);
  EXPECT_EQ(recorded_ms(3000), 450u);
}

TEST_F(ExecTest, ThatFailsLateChangesNothing) {
  const std::string before = rank(310).processes.at(0).command;
  executes(wire::UnrecordedReason::kPrivileges, 400);
  state_.poll(at(600).mono_ns);
  EXPECT_EQ(rank(600).processes.at(0).unrecorded, shard::Unrecorded::kPrivileges);
  EXPECT_EQ(rank(600).processes.at(0).command, command_text({"./program"}));
  shell_.header().launches[1].number = 0;  // taken back
  state_.poll(at(700).mono_ns);
  EXPECT_EQ(rank(700).processes.at(0).unrecorded, shard::Unrecorded::kNo);
  EXPECT_EQ(rank(700).processes.at(0).command, before);
  EXPECT_FALSE(state_.may_have_executed(id_, at(3000).mono_ns));
  state_.gone(id_, at(2000).mono_ns, SIGKILL);
  EXPECT_EQ(recorded_ms(3000), 2000u);
}

TEST_F(NodeStateTest, ReusedPidIsAnotherProcess) {
  FakeSegment first, second;
  run(first, 100, 0, 10);
  run(second, 100, 20, 50);
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view(first), at(0));
  state_.gone(id, at(10).mono_ns, exited(0));
  const auto other = state_.hello(std::nullopt, 100, view(second), at(20));
  EXPECT_NE(other, id);
  state_.gone(other, at(50).mono_ns, exited(1));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  const shard::Rank& rank = snapshot.ranks[0].rank;
  EXPECT_EQ(rank.elapsed_ns, 10 * kMs);  // of the announced one
  EXPECT_EQ(rank.exit_status, 0);
  EXPECT_EQ(rank.processes, 2u);
  EXPECT_EQ(main_thread_ns(rank), 10 * kMs);  // the main thread of the main process
  std::uint64_t all = 0;
  for (const auto& [key, amount] : snapshot.ranks[0].report.values) all += amount.wall_ns;
  EXPECT_EQ(all, 40 * kMs);
}

TEST_F(NodeStateTest, TheProcessThatInitialisedMpiIsTheMainOne) {
  FakeSegment shell, program;
  const auto id = state_.announce(std::nullopt, 1, 2, 100, at(0));
  run(shell, 100, 0, 100);
  run(program, 101, 10, 90);
  shell.header().rank = program.header().rank = 1;
  program.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kInitialised);
  state_.hello(id, 100, view(shell), at(0));
  const auto helper = state_.hello(std::nullopt, 101, view(program), at(10));
  EXPECT_TRUE(state_.left_mpi_open(id));
  state_.gone(helper, at(90).mono_ns, std::nullopt);
  EXPECT_TRUE(state_.left_mpi_open(id));
  state_.gone(id, at(100).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  EXPECT_EQ(snapshot.ranks[0].rank.pid, 101);
  EXPECT_EQ(snapshot.ranks[0].rank.elapsed_ns, 80 * kMs);
  EXPECT_NE(snapshot.ranks[0].rank.flags & shard::kUsedMpi, 0u);
  EXPECT_EQ(snapshot.ranks[0].rank.processes, 2u);
}

TEST_F(NodeStateTest, ManyHelpersAddUp) {
  FakeSegment main;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  state_.hello(id, 100, view(main), at(0));
  for (int i = 0; i < 50; ++i) {
    FakeSegment fake;
    run(fake, 200 + i, 10, 20);
    fake.header().usage.user_ns = 7;
    fake.header().usage.max_rss_bytes = 1000;
    const auto helper = state_.hello(std::nullopt, 200 + i, view(fake), at(10));
    state_.gone(helper, at(20).mono_ns, exited(0));
  }
  state_.gone(id, at(100).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  const shard::Rank& rank = snapshot.ranks.at(0).rank;
  EXPECT_EQ(rank.processes, 51u);
  EXPECT_EQ(rank.threads, 51u);
  EXPECT_EQ(rank.samples, 51u);
  EXPECT_EQ(rank.user_ns, 350u);
  EXPECT_EQ(main_thread_ns(rank), 100 * kMs);
}

// Each helper waits for 100 mutexes of its own.
TEST_F(NodeStateTest, WaitsOfManyHelpersAddUpInBoundedRoom) {
  constexpr std::uint64_t kMutexes = 100;
  const auto waits_of = [](int helpers) {
    NodeState state{NodeOptions{"run-1", "n0", {"./program"}, 0, 100, "wall"}};
    FakeSegment main;
    const auto id = state.announce(std::nullopt, 0, 1, 100, at(0));
    run(main, 100, 0, 2000);
    state.hello(id, 100, view(main), at(0));
    for (int i = 0; i < helpers; ++i) {
      FakeSegment fake;
      fake.header().pid = 200 + i;
      fake.header().start_mono_ns = kStart;
      fake.module("/bin/program", 0x10000, 0x20000, 0x10000);
      fake.thread(0, 200 + i, kStart, true);
      for (std::uint64_t mutex = 0; mutex < kMutexes; ++mutex) {
        FakeSegment::Sample sample;
        sample.words = {0x10001};
        sample.flags = wire::kInSyscall | wire::kAtMutex;
        sample.syscall_nr = SYS_futex;
        sample.trigger = wire::Trigger::kBlocked;
        sample.data_address = 0x7000'0000 + (static_cast<std::uint64_t>(i) * kMutexes + mutex) * 64;
        sample.time_ns = kStart + (mutex + 1) * 10 * kMs;
        EXPECT_TRUE(fake.sample(0, sample));
      }
      const auto helper = state.hello(std::nullopt, 200 + i, view(fake), at(0));
      state.poll(at(1500).mono_ns);
      state.gone(helper, at(1500).mono_ns, exited(0));
    }
    return state.snapshot(at(2000), false).ranks.at(0).report.mutex_waits;
  };
  const auto sum_of = [](const std::map<RawMutexKey, RawMutexWait>& waits) {
    std::uint64_t sum_ns = 0;
    for (const auto& [key, wait] : waits) sum_ns += key.path != 0 ? wait.wait_ns : 0;
    return sum_ns;
  };
  const auto of_one = waits_of(1), of_many = waits_of(40);
  EXPECT_GT(of_one.size(), kMutexes / 2);
  EXPECT_GT(sum_of(of_one), 900 * kMs);
  EXPECT_LE(of_many.size(), ProcessReport::kMostWaitsOfEnded);
  EXPECT_EQ(sum_of(of_many), 40 * sum_of(of_one));
}

// Names of the frames of a path: a module with an address in it, or a Python function.
std::string raw_text(const RawTables& tables, std::uint32_t path) {
  std::string text;
  for (; path != 0; path = tables.nodes[path].parent) {
    const RawFrame& frame = tables.frames[tables.nodes[path].frame];
    std::string name = "?";
    if (frame.kind == RawKind::kPython) name = tables.codes[frame.a]->name;
    if (frame.kind == RawKind::kRegion) name = *tables.names[frame.a];
    if (frame.kind == RawKind::kNativeExact || frame.kind == RawKind::kNativeReturn)
      name = tables.modules[frame.a]->path;
    text = text.empty() ? name : name + ";" + text;
  }
  return text;
}

// Rank 0 is process 100. It makes others on the call path of its function "main".
class ProcessTableTest : public NodeStateTest {
 protected:
  ProcessTableTest() {
    run(main_, 100, 0, 1000);
    main_.code(50, "train.py", "main", 1);
    main_.module("/lib/x86_64-linux-gnu/libc.so.6", 0x30000, 0x40000, 0x30000);
    id_ = state_.announce(std::nullopt, 0, 1, 100, at(0));
    state_.hello(id_, 100, view(main_), at(0));
  }
  // Of the call of fork(), inside libc.
  wire::Creation made(wire::CreationKind kind) {
    return main_.creation(kind, {0x30010, test::python_word(0), 50});
  }
  // A process that runs from `begin` to `end` ms.
  NodeState::ProcessId process(FakeSegment& fake, std::int32_t pid, std::int32_t parent, std::uint64_t begin,
                               std::uint64_t end, wire::Creation creation) {
    run(fake, pid, begin, end);
    fake.header().rank = 0;
    fake.header().parent_pid = parent;
    fake.header().creation = creation;
    return state_.hello(std::nullopt, pid, view(fake), at(begin));
  }
  // The row of the process as of now.
  shard::Process row(std::int32_t pid) {
    snapshot_ = state_.snapshot(at(1000), false);
    for (const shard::Process& process : snapshot_.ranks.at(0).processes)
      if (process.pid == pid) return process;
    ADD_FAILURE() << "no process " << pid;
    return {};
  }
  std::string text(std::uint32_t path) { return raw_text(snapshot_.tables, path); }
  // Of all time of the rank besides that of its main process.
  std::set<std::string> paths_of_helpers() {
    std::set<std::string> paths;
    state_.poll(at(1000).mono_ns);
    snapshot_ = state_.snapshot(at(1000), false);
    for (const auto& [key, amount] : snapshot_.ranks.at(0).report.values)
      if (!key.main_thread) paths.insert(text(key.path));
    return paths;
  }
  FakeSegment main_;
  NodeState::ProcessId id_ = 0;
  NodeSnapshot snapshot_;
};

TEST_F(ProcessTableTest, HasARowForEachProcess) {
  FakeSegment child;
  const auto child_id = process(child, 200, 100, 100, 300, made(wire::CreationKind::kExec));
  child.command(std::string_view("work\0--password=secret\0", 23));
  child.header().usage.user_ns = 150 * kMs;
  child.header().usage.system_ns = 20 * kMs;
  child.header().usage.children_user_ns = 3 * kMs;
  child.header().usage.children_system_ns = 4 * kMs;
  child.header().end_mono_ns = 0;
  shard::Process found = row(200);
  EXPECT_EQ(found.origin, shard::ProcessOrigin::kExec);
  EXPECT_EQ(found.parent_pid, 100);
  EXPECT_EQ(found.flags, shard::Process::kRuns);
  EXPECT_EQ(text(found.path), "main") << "without the frame of libc";

  child.header().end_mono_ns = at(300).mono_ns;
  child.header().exit_status = 2;
  child.header().exit_flags = wire::kExitStatusKnown;
  found = row(200);
  EXPECT_EQ(found.flags, shard::Process::kExitStatusKnown) << "it has told, but was not seen to end";
  EXPECT_EQ(found.exit_status, 2);
  EXPECT_EQ(found.elapsed_ns, 200 * kMs);

  state_.gone(child_id, at(310).mono_ns, exited(3));
  found = row(200);
  EXPECT_EQ(found.flags, shard::Process::kExitStatusKnown);
  EXPECT_EQ(found.exit_status, 3);
  EXPECT_EQ(found.start_utc_ns, at(100).utc_ns);
  EXPECT_EQ(found.elapsed_ns, 200 * kMs);
  EXPECT_EQ(found.cpu_ns, 170 * kMs);
  EXPECT_EQ(found.cpu_min_ns, 170 * kMs);
  EXPECT_EQ(found.cpu_max_ns, 170 * kMs);
  EXPECT_EQ(found.children_cpu_ns, 7 * kMs);
  EXPECT_EQ(found.count, 1u);
  EXPECT_EQ(text(found.top_path), "main;/bin/program");
  EXPECT_EQ(found.top_ns, 200 * kMs);
  const shard::Process rank = row(100);
  EXPECT_EQ(rank.origin, shard::ProcessOrigin::kRank);
  EXPECT_EQ(rank.path, 0u);
}

TEST_F(ProcessTableTest, MasksSecretsOfCommands) {
  FakeSegment child;
  run(child, 200, 100, 200);
  child.header().rank = 0;
  child.command(std::string_view("work\0--password=secret\0", 23));
  state_.hello(std::nullopt, 200, view(child), at(100));
  EXPECT_EQ(row(200).command, command_text({"work", "--password=***"}));
  std::string large("work\0", 5);
  large.resize(sizeof child.header().command, 'x');  // a word that does not end
  FakeSegment cut, forked;
  run(cut, 202, 100, 200);
  cut.header().rank = 0;
  cut.command(large);
  state_.hello(std::nullopt, 202, view(cut), at(100));
  EXPECT_EQ(row(202).command, command_text({"work", "..."}));
  large.pop_back();  // as read from the kernel, in the child of a fork
  run(forked, 203, 100, 200);
  forked.header().rank = 0;
  forked.command(large);
  state_.hello(std::nullopt, 203, view(forked), at(100));
  EXPECT_EQ(row(203).command, command_text({"work", "..."}));
  FakeSegment other;
  NodeOptions options;
  options.command_detail = CommandDetail::kName;
  NodeState names_only{options};
  run(other, 300, 100, 200);
  other.header().rank = 0;
  other.command(std::string_view("work\0--password=secret\0", 23));
  names_only.hello(std::nullopt, 300, view(other), at(100));
  EXPECT_EQ(names_only.snapshot(at(200), false).ranks.at(0).processes.at(0).command, command_text({"work"}));
}

// Processes without an agent have a row with the reason, also while they run.
TEST_F(ProcessTableTest, UnrecordedProgramsOfChildrenOfVfork) {
  using wire::UnrecordedReason;
  const std::uint64_t begin = at(300).mono_ns;
  main_.launch(200, UnrecordedReason::kStaticProgram, begin, std::string_view("still\0-x\0", 9),
               made(wire::CreationKind::kExec));
  main_.launch(201, UnrecordedReason::kOtherEnvironment, begin, "true",
               made(wire::CreationKind::kPosixSpawn));
  state_.poll(at(350).mono_ns);
  EXPECT_TRUE(state_.take_made().empty()) << "the exec may still fail";
  state_.poll(at(450).mono_ns);
  const auto told = state_.take_made();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].parent, id_);
  EXPECT_EQ(told[0].pid, 200);
  EXPECT_EQ(told[0].parent_pid, 100);
  const auto running = state_.add_unrecorded(told[0], true, at(450).mono_ns);
  ASSERT_TRUE(running);
  EXPECT_TRUE(state_.is_unrecorded(*running));
  state_.add_unrecorded(told[1], false, at(450).mono_ns);
  const shard::Process runs = row(200);
  EXPECT_EQ(runs.unrecorded, shard::Unrecorded::kStaticProgram);
  EXPECT_EQ(runs.origin, shard::ProcessOrigin::kExec);
  EXPECT_EQ(runs.flags, shard::Process::kRuns);
  EXPECT_EQ(runs.parent_pid, 100);
  EXPECT_EQ(runs.command, command_text({"still", "-x"}));
  EXPECT_EQ(text(runs.path), text(row(201).path));
  EXPECT_NE(runs.path, 0u);
  EXPECT_EQ(row(201).unrecorded, shard::Unrecorded::kOtherEnvironment);
  EXPECT_EQ(row(201).flags, 0);
  state_.gone(*running, at(700).mono_ns, exited(3));
  EXPECT_EQ(row(200).exit_status, 3);
  EXPECT_EQ(row(200).elapsed_ns, 400'000'000u);
  state_.poll(at(900).mono_ns);
  EXPECT_TRUE(state_.take_made().empty()) << "each once";
}

TEST_F(ProcessTableTest, AProcessThatGoesOnAsAnUnrecordedProgram) {
  using wire::UnrecordedReason;
  FakeSegment child, next;
  const auto id = process(child, 200, 100, 100, 900, made(wire::CreationKind::kFork));
  child.launch(200, UnrecordedReason::kPrivileges, at(200).mono_ns, std::string_view("sudo\0", 5));
  state_.poll(at(400).mono_ns);
  EXPECT_TRUE(state_.take_made().empty());
  EXPECT_EQ(row(200).unrecorded, shard::Unrecorded::kPrivileges);
  EXPECT_EQ(row(200).command, command_text({"sudo"}));
  // That executes one which is recorded.
  run(next, 200, 500, 900);
  next.header().rank = 0;
  state_.hello(id, 200, view(next), at(500));
  EXPECT_EQ(row(200).unrecorded, shard::Unrecorded::kNo);
}

TEST_F(ProcessTableTest, AProgramOfWhichTheLauncherKnowsThatItWillNotRecord) {
  const auto id = state_.announce(std::nullopt, 0, 1, 300, at(100), "./static");
  state_.expect_no_agent(id, wire::UnrecordedReason::kStaticProgram);
  EXPECT_EQ(row(300).unrecorded, shard::Unrecorded::kStaticProgram);
  EXPECT_EQ(row(300).command, "./static");
  EXPECT_TRUE(state_.is_unrecorded(id));
  // It executes a program that is recorded.
  FakeSegment next;
  run(next, 300, 200, 900);
  next.header().rank = 0;
  state_.hello(id, 300, view(next), at(200));
  EXPECT_EQ(row(300).unrecorded, shard::Unrecorded::kNo);
  state_.expect_no_agent(id, wire::UnrecordedReason::kStaticProgram);
  EXPECT_EQ(row(300).unrecorded, shard::Unrecorded::kNo) << "it is known by then";
}

TEST_F(ProcessTableTest, AProgramThatEndsBeforeItRecordsAndOneThatNeverDoes) {
  using wire::UnrecordedReason;
  FakeSegment early, failed;
  const auto id = process(early, 200, 100, 100, 900, made(wire::CreationKind::kFork));
  early.launch(200, UnrecordedReason::kCount, at(200).mono_ns, "broken");
  state_.gone(id, at(250).mono_ns, exited(127));
  EXPECT_EQ(row(200).unrecorded, shard::Unrecorded::kEndedEarly);
  const auto other = process(failed, 201, 100, 100, 900, made(wire::CreationKind::kFork));
  failed.launch(201, UnrecordedReason::kCount, at(200).mono_ns, "missing");
  failed.header().launches[1].number = 0;  // taken back
  state_.gone(other, at(250).mono_ns, exited(127));
  EXPECT_EQ(row(201).unrecorded, shard::Unrecorded::kNo);
}

TEST_F(ProcessTableTest, AProcessThatRefuses) {
  wire::Refusal refusal{wire::kRefusalMagic,
                        wire::kWireMajor,
                        wire::kWireMinor,
                        200,
                        100,
                        0,
                        wire::UnrecordedReason::kNoMemory,
                        at(200).mono_ns,
                        made(wire::CreationKind::kFork)};
  const auto id = state_.refused(std::nullopt, 200, refusal, std::string_view("small\0", 6), at(200));
  EXPECT_EQ(row(200).unrecorded, shard::Unrecorded::kNoMemory);
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kFork);
  EXPECT_NE(row(200).path, 0u);
  SystemUsage usage;
  usage.user_ns = 30'000'000;
  state_.set_usage(id, usage);
  state_.gone(id, at(600).mono_ns, exited(0));
  EXPECT_EQ(row(200).cpu_ns, 30'000'000u);
  EXPECT_EQ(row(200).elapsed_ns, 400'000'000u);
  EXPECT_EQ(state_.snapshot(at(700), false).run.notes,
            (std::vector<shard::Note>{
                shard::note_of_node(shard::NoteCode::kUnrecordedPrograms, "n0", 1, "no_memory")}));
}

// What a process says of its children may be anything.
TEST_F(ProcessTableTest, DamagedLaunches) {
  main_.launch(0, wire::UnrecordedReason::kStaticProgram, at(100).mono_ns, "a");
  main_.launch(200, static_cast<wire::UnrecordedReason>(99), at(100).mono_ns, "a");
  main_.launch(201, wire::UnrecordedReason::kStaticProgram, ~std::uint64_t{0}, "a");
  main_.launch(202, wire::UnrecordedReason::kStaticProgram, 1, "a");
  main_.header().launches[4].command_bytes = ~0u;
  main_.header().launches[4].path = ~std::uint64_t{0};
  state_.poll(at(450).mono_ns);
  const auto told = state_.take_made();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].pid, 202);
  EXPECT_EQ(told[0].created_path, 0u);
  EXPECT_GE(told[0].start_ns, at(0).mono_ns);
}

// An executed program's stack says nothing about its creation. That of the child of a fork has it already.
TEST_F(ProcessTableTest, PathsOfExecutedProgramsBeginBelowTheirCreation) {
  FakeSegment executed, forked;
  process(executed, 200, 100, 100, 300, made(wire::CreationKind::kPosixSpawn));
  EXPECT_EQ(paths_of_helpers(), std::set<std::string>{"main;/bin/program"});
  process(forked, 201, 100, 100, 300, made(wire::CreationKind::kFork));
  EXPECT_EQ(paths_of_helpers(), (std::set<std::string>{"main;/bin/program", "/bin/program"}));
  EXPECT_EQ(text(row(201).path), "main");
}

TEST_F(ProcessTableTest, ChildrenOfExecutedProgramsAreBelowTheirCreationToo) {
  FakeSegment server, worker;
  process(server, 200, 100, 100, 900, made(wire::CreationKind::kExec));
  server.code(60, "server.py", "serve", 1);
  process(worker, 201, 200, 200, 800, server.creation(wire::CreationKind::kFork, {test::python_word(0), 60}));
  EXPECT_EQ(text(row(201).path), "main;serve");
  EXPECT_EQ(paths_of_helpers(), std::set<std::string>{"main;/bin/program"});
}

TEST_F(ProcessTableTest, WorkersOfAForkServerAreBelowTheRequestForThem) {
  main_.code(51, "train.py", "first", 1);
  main_.code(52, "train.py", "second", 9);
  FakeSegment server, first, second, other, lost;
  process(server, 200, 100, 100, 900, made(wire::CreationKind::kExec));
  server.code(60, "server.py", "serve", 1);
  main_.fork_request(7001, {test::python_word(0), 51});
  main_.fork_request(7002, {test::python_word(0), 52});
  main_.fork_request(7003, {});
  const auto forked = [&](std::uint32_t request) {
    wire::Creation creation = server.creation(wire::CreationKind::kFork, {test::python_word(0), 60});
    creation.request = request;
    return creation;
  };
  process(second, 202, 200, 200, 800, forked(7002));  // not in the order of the requests
  process(first, 201, 200, 200, 800, forked(7001));
  EXPECT_EQ(row(201).origin, shard::ProcessOrigin::kRequest);
  EXPECT_EQ(row(201).parent_pid, 200);
  EXPECT_EQ(text(row(201).path), "first");
  EXPECT_EQ(text(row(202).path), "second");
  process(other, 203, 200, 200, 800, forked(7003));
  process(lost, 204, 200, 200, 800, forked(7004));
  EXPECT_EQ(row(203).origin, shard::ProcessOrigin::kFork) << "the path of the request is not known";
  EXPECT_EQ(text(row(203).path), "main;serve");
  EXPECT_EQ(row(204).origin, shard::ProcessOrigin::kFork) << "nobody has made that request";
  EXPECT_EQ(text(row(204).path), "main;serve");
  EXPECT_EQ(paths_of_helpers(),
            (std::set<std::string>{"main;/bin/program", "first;/bin/program", "second;/bin/program"}));
}

TEST_F(ProcessTableTest, ProgramsThatTheChildOfAForkExecutesAreBelowTheFork) {
  FakeSegment forked, executed;
  const auto child = process(forked, 200, 100, 100, 200, made(wire::CreationKind::kFork));
  run(executed, 200, 200, 300);
  executed.header().rank = 0;
  state_.hello(child, 200, view(executed), at(200));
  EXPECT_EQ(paths_of_helpers(), (std::set<std::string>{"/bin/program", "main;/bin/program"}));
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kFork);
}

// libc starts these shells without telling us. What they have of the environment is of their parent's
// creation.
TEST_F(ProcessTableTest, ShellsBelongToTheCallOfSystemInWhoseTimeTheyStart) {
  constexpr std::string_view kShell("sh\0-c\0work\0", 11);
  main_.code(51, "train.py", "first", 1);
  main_.code(52, "train.py", "second", 9);
  main_.shell_call({test::python_word(0), 51}, at(100).mono_ns, at(200).mono_ns);
  main_.shell_call({test::python_word(0), 52}, at(300).mono_ns, 0);
  FakeSegment first, between, second, program, other;
  const auto start = [this](FakeSegment& fake, std::int32_t pid, std::uint64_t begin,
                            std::string_view command) {
    fake.command(command);
    process(fake, pid, 100, begin, 900, {});
  };
  start(first, 200, 150, kShell);
  start(between, 201, 250, kShell);
  start(second, 202, 350, kShell);
  start(other, 203, 350, std::string_view("work\0", 5));
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kShell);
  EXPECT_EQ(text(row(200).path), "first");
  EXPECT_EQ(row(201).origin, shard::ProcessOrigin::kUnknown) << "no call was open";
  EXPECT_EQ(row(201).path, 0u);
  EXPECT_EQ(text(row(202).path), "second");
  EXPECT_EQ(row(203).origin, shard::ProcessOrigin::kUnknown) << "no shell";
  first.code(60, "shell.py", "run", 1);
  process(program, 204, 200, 350, 450, first.creation(wire::CreationKind::kExec, {test::python_word(0), 60}));
  EXPECT_EQ(row(204).origin, shard::ProcessOrigin::kExec);
  EXPECT_EQ(text(row(204).path), "first;run");
}

// The path of a call may be unknown. It is not that of an earlier call then.
TEST_F(ProcessTableTest, ACallOfSystemWithoutAPathHasNone) {
  FakeSegment shell;
  main_.shell_call({test::python_word(0), 50}, at(100).mono_ns, at(200).mono_ns);
  main_.shell_call({}, at(300).mono_ns, 0);
  shell.command(std::string_view("sh\0-c\0work\0", 11));
  process(shell, 200, 100, 350, 900, {});
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kShell);
  EXPECT_EQ(row(200).path, 0u);
}

TEST_F(ProcessTableTest, ParentsAreLookedForInTheSameRank) {
  main_.shell_call({test::python_word(0), 50}, at(100).mono_ns, 0);
  FakeSegment other, shell;
  run(other, 300, 0, 900);
  other.header().rank = 1;
  state_.hello(state_.announce(std::nullopt, 1, 2, 300, at(0)), 300, view(other), at(0));
  shell.command(std::string_view("sh\0-c\0work\0", 11));
  run(shell, 301, 150, 900);
  shell.header().rank = 1;
  shell.header().parent_pid = 100;  // in a namespace of its own
  state_.hello(std::nullopt, 301, view(shell), at(150));
  snapshot_ = state_.snapshot(at(1000), false);
  const auto& rows = snapshot_.ranks.at(1).processes;
  const auto row =
      std::find_if(rows.begin(), rows.end(), [](const auto& process) { return process.pid == 301; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ(row->origin, shard::ProcessOrigin::kUnknown);
}

// A script that starts itself again and again.
TEST_F(ProcessTableTest, PathsOfManyGenerationsDoNotGrowForEver) {
  std::list<FakeSegment> generations;
  FakeSegment* parent = &main_;
  std::size_t longest = 0;
  for (std::int32_t pid = 200; pid < 240; ++pid) {
    parent->code(90, "again.py", "again", 1);
    std::vector<std::uint64_t> words;
    for (int i = 0; i < 30; ++i) words.insert(words.end(), {test::python_word(0), 90});
    const wire::Creation made_on = parent->creation(wire::CreationKind::kExec, words);
    parent = &generations.emplace_back();
    process(*parent, pid, pid == 200 ? 100 : pid - 1, 100, 900, made_on);
    const std::string path = text(row(pid).path);
    longest = std::max(longest, static_cast<std::size_t>(std::count(path.begin(), path.end(), ';')));
  }
  EXPECT_GT(longest, 400u);
  EXPECT_LT(longest, 600u);
}

// Made by a system call of the program's own, it inherits what its parent was told.
TEST_F(ProcessTableTest, WhatAParentWasToldIsNotTrueOfItsChild) {
  FakeSegment parent, child;
  process(parent, 200, 100, 100, 900, made(wire::CreationKind::kExec));
  process(child, 201, 200, 200, 800, made(wire::CreationKind::kExec));
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kExec);
  EXPECT_EQ(row(201).origin, shard::ProcessOrigin::kUnknown);
  EXPECT_EQ(row(201).path, 0u);
  EXPECT_EQ(row(201).parent_pid, 200);
}

TEST_F(ProcessTableTest, CreationsThatCannotBeAreNotKnown) {
  FakeSegment child, stranger;
  wire::Creation creation = made(static_cast<wire::CreationKind>(77));
  creation.path_offset = ~std::uint64_t{0};
  process(child, 200, 100, 100, 300, creation);
  EXPECT_EQ(row(200).origin, shard::ProcessOrigin::kUnknown);
  EXPECT_EQ(row(200).path, 0u);
  creation = made(wire::CreationKind::kExec);
  creation.start_mono_ns += 1;  // another process had that pid
  process(stranger, 201, 1, 100, 300, creation);
  EXPECT_EQ(row(201).path, 0u);
  EXPECT_EQ(paths_of_helpers(), std::set<std::string>{"/bin/program"});
}

// Regions are the outermost frames of a path.
TEST_F(ProcessTableTest, RegionsOfAProcessAreOutsideOfItsCreation) {
  FakeSegment child;
  run(child, 200, 100, 300);
  child.region(0, wire::kNoRegion, "epoch");
  FakeSegment::Sample sample;
  sample.words = {0x10001, test::region_word(0)};
  sample.time_ns = kStart + 290 * kMs;
  sample.cpu_ns = 190 * kMs;
  child.thread(1, 205, kStart + 100 * kMs);
  child.sample(1, sample);
  child.header().rank = 0;
  child.header().parent_pid = 100;
  child.header().creation = made(wire::CreationKind::kExec);
  state_.hello(std::nullopt, 200, view(child), at(100));
  EXPECT_TRUE(paths_of_helpers().contains("epoch;main;/bin/program"));
}

TEST_F(ProcessTableTest, ManyProcessesShareRows) {
  FakeSegment child;
  run(child, 200, 100, 110);
  child.header().rank = 0;
  child.header().creation = made(wire::CreationKind::kExec);
  child.header().usage.user_ns = 2 * kMs;
  constexpr std::uint32_t kOthers = 5;
  for (std::uint32_t i = 0; i < shard::kMaxProcessRows + kOthers; ++i) {
    if (i + 1 == shard::kMaxProcessRows + kOthers) child.header().usage.user_ns = 5 * kMs;
    const auto pid = static_cast<std::int32_t>(1000 + i);
    child.header().pid = pid;
    const auto id = state_.hello(std::nullopt, pid, view(child), at(100));
    state_.gone(id, at(110).mono_ns, exited(0));
  }
  snapshot_ = state_.snapshot(at(1000), false);
  const auto& rows = snapshot_.ranks.at(0).processes;
  ASSERT_EQ(rows.size(), 1 + shard::kMaxProcessRows + 1);  // the rank, those of their own, and the others
  std::uint64_t processes = 0, cpu_ns = 0;
  for (const shard::Process& row : rows) {
    processes += row.count;
    cpu_ns += row.cpu_ns;
    if (row.count == 1) continue;
    EXPECT_EQ(row.count, kOthers);
    EXPECT_EQ(row.cpu_min_ns, 2 * kMs);
    EXPECT_EQ(row.cpu_max_ns, 5 * kMs);
    EXPECT_EQ(text(row.path), "main");
    EXPECT_EQ(row.flags, 0u);
  }
  EXPECT_EQ(processes, 1 + shard::kMaxProcessRows + kOthers);
  EXPECT_EQ(cpu_ns, (2 * (shard::kMaxProcessRows + kOthers) + 3) * kMs);
}

TEST_F(ProcessTableTest, RanksOfALargeJobKeepFewerRows) {
  NodeOptions options;
  options.world_size = 1u << 13;
  NodeState state{options};
  FakeSegment rank, child;
  run(rank, 100, 0, 1000);
  state.hello(state.announce(std::nullopt, 0, 1, 100, at(0)), 100, view(rank), at(0));
  run(child, 200, 100, 110);
  child.header().rank = 0;
  constexpr std::int32_t kChildren = 200;
  for (std::int32_t pid = 200; pid < 200 + kChildren; ++pid) {
    child.command("work " + std::to_string(pid % 100));
    child.header().pid = pid;
    state.gone(state.hello(std::nullopt, pid, view(child), at(100)), at(110).mono_ns, exited(0));
  }
  const auto rows = state.snapshot(at(1000), false).ranks.at(0).processes;
  EXPECT_EQ(rows.size(), 1u + 16 + 4 + 1) << "the rank, single ones, ones that are alike, and the rest";
  std::int32_t children = -1;
  for (const shard::Process& row : rows) children += static_cast<std::int32_t>(row.count);
  EXPECT_EQ(children, kChildren);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const shard::Process& row) {
    return row.count == 2 && row.command == command_text({"work 17"});
  })) << "those that are alike are still added up when there is no room for others";
}

// A script with a `clusterprof` in front of each of its programs.
TEST_F(NodeStateTest, ProgramsOfARankThatFollowEachOtherAddUp) {
  NodeOptions options;
  options.world_size = 1u << 13;
  NodeState state{options};
  FakeSegment program;
  run(program, 100, 0, 10);
  program.header().usage.user_ns = 2 * kMs;
  constexpr std::int32_t kPrograms = 100;
  for (std::int32_t pid = 100; pid < 100 + kPrograms; ++pid) {
    program.header().pid = pid;
    const auto id = state.announce(std::nullopt, 0, 1, pid, at(0));
    state.hello(id, pid, view(program), at(0));
    state.gone(id, at(10).mono_ns, std::nullopt);
    state.set_wait_status(id, exited(pid == 100 ? 3 : 0));  // the launcher tells it later
  }
  const RankSnapshot snapshot = state.snapshot(at(1000), true).ranks.at(0);
  EXPECT_EQ(snapshot.rank.pid, 100) << "the first one stands for the rank";
  EXPECT_EQ(snapshot.rank.elapsed_ns, 10 * kMs);
  EXPECT_EQ(snapshot.rank.exit_status, 3);
  EXPECT_EQ(snapshot.rank.processes, static_cast<std::uint32_t>(kPrograms));
  EXPECT_EQ(snapshot.rank.user_ns, kPrograms * 2 * kMs);
  EXPECT_EQ(snapshot.processes.size(), 1u + 16 + 16 + 1)
      << "the first, the latest, some of the others, and the rest";
  std::uint32_t processes = 0;
  for (const shard::Process& row : snapshot.processes) {
    processes += row.count;
    EXPECT_EQ(row.origin, shard::ProcessOrigin::kRank);
  }
  EXPECT_EQ(processes, static_cast<std::uint32_t>(kPrograms));
}

// A script in which clusterprof stands in front of many commands, or a server beside its clients.
TEST_F(NodeStateTest, AProgramThatOutlivesManyOthersIsThereWhenItsStatusIsTold) {
  FakeSegment of_longest, program;
  run(of_longest, 101, 0, 10);
  run(program, 100, 0, 10);
  const auto begin = [&](std::int32_t pid, FakeSegment& fake) {
    fake.header().pid = pid;
    const auto id = state_.announce(std::nullopt, 0, 1, pid, at(0));
    state_.hello(id, pid, view(fake), at(0));
    return id;
  };
  state_.gone(begin(100, program), at(10).mono_ns, exited(0));
  const auto longest = begin(101, of_longest);
  for (std::int32_t pid = 102; pid < 150; ++pid) state_.gone(begin(pid, program), at(10).mono_ns, exited(0));
  state_.gone(longest, at(20).mono_ns, std::nullopt);
  state_.set_wait_status(longest, exited(7));
  const NodeSnapshot snapshot = state_.snapshot(at(30), true);
  std::optional<std::int32_t> status;
  for (const shard::Process& row : snapshot.ranks.at(0).processes)
    if (row.pid == 101) status = row.exit_status;
  EXPECT_EQ(status, 7);
}

TEST_F(NodeStateTest, AnMpiProgramThatFollowsOthersIsTheMainOneAndStays) {
  const auto program = [this](FakeSegment& fake, std::int32_t pid, bool uses_mpi) {
    run(fake, pid, 0, 10);
    if (uses_mpi) {
      fake.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
      fake.header().mpi_size = 2;
      fake.header().mpi_rank = 1;
    }
    const auto id = state_.announce(std::nullopt, 1, 2, pid, at(0));
    state_.hello(id, pid, view(fake), at(0));
    state_.gone(id, at(10).mono_ns, exited(0));
  };
  for (std::int32_t pid = 100; pid < 160; ++pid) {
    FakeSegment fake;
    program(fake, pid, pid == 105);
    const RankSnapshot snapshot = state_.snapshot(at(1000), true).ranks.at(0);
    EXPECT_EQ(snapshot.rank.pid, pid < 105 ? 100 : 105);
    EXPECT_EQ(snapshot.rank.processes, static_cast<std::uint32_t>(pid - 99));
  }
}

// A script that runs many MPI programs one after the other.
TEST_F(NodeStateTest, AddsUpHelpersThatUsedMpiExceptTheFirstOfEachKind) {
  FakeSegment script;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(script, 100, 0, 600);
  state_.hello(id, 100, view(script), at(0));
  std::vector<NodeState::ProcessId> helpers;
  constexpr int kHelpers = 50, kLeftOpen = 20, kOther = 30;
  for (int i = 0; i < kHelpers; ++i) {
    FakeSegment fake;
    const auto begin = static_cast<std::uint64_t>(10 + 10 * i);
    run(fake, 200 + i, begin, begin + 10);
    auto& header = fake.header();
    header.rank = 0;
    header.mpi_rank = 0;
    header.mpi_size = i == kOther ? 2 : 1;
    header.mpi_state = static_cast<std::uint32_t>(i == kLeftOpen ? wire::MpiState::kInitialised
                                                                 : wire::MpiState::kFinalised);
    header.usage.user_ns = 7;
    header.usage.max_rss_bytes = 1000;
    helpers.push_back(state_.hello(std::nullopt, 200 + i, view(fake), at(begin)));
    state_.gone(helpers.back(), at(begin + 10).mono_ns, exited(0));
  }
  EXPECT_TRUE(state_.left_mpi_open(id));
  EXPECT_EQ(state_.mpi_progress(), wire::MpiState::kFinalised);
  for (int i = 0; i < kHelpers; ++i)
    EXPECT_EQ(state_.has_segment(helpers.at(i)), i == 0 || i == kLeftOpen || i == kOther) << i;
  state_.gone(id, at(600).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(600), true);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  const shard::Rank& rank = snapshot.ranks[0].rank;
  EXPECT_EQ(rank.pid, 200);
  EXPECT_EQ(rank.elapsed_ns, 10 * kMs);
  EXPECT_EQ(main_thread_ns(rank), 10 * kMs);
  EXPECT_EQ(rank.processes, kHelpers + 1u);
  EXPECT_EQ(rank.samples, kHelpers + 1u);
  EXPECT_EQ(rank.user_ns, kHelpers * 7u);
  EXPECT_EQ(rank.max_rss_bytes, 1000u);
  std::uint64_t all = 0;
  for (const auto& [key, amount] : snapshot.ranks[0].report.values) all += amount.wall_ns;
  EXPECT_EQ(all, (600 + kHelpers * 10) * kMs);
}

TEST_F(NodeStateTest, LimitsTheNumberOfHelpersThatUsedMpi) {
  FakeSegment script;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(script, 100, 0, 600);
  state_.hello(id, 100, view(script), at(0));
  int kept = 0;
  for (int i = 0; i < 100; ++i) {
    FakeSegment fake;
    run(fake, 200 + i, 10, 20);
    fake.header().mpi_rank = i;
    fake.header().mpi_size = 1000;
    fake.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
    const auto helper = state_.hello(std::nullopt, 200 + i, view(fake), at(10));
    state_.gone(helper, at(20).mono_ns, exited(0));
    kept += state_.has_segment(helper) ? 1 : 0;
  }
  EXPECT_GE(kept, 1);
  EXPECT_LT(kept, 50);
  EXPECT_EQ(state_.snapshot(at(600), true).ranks.at(0).rank.processes, 101u);
}

TEST_F(NodeStateTest, RankWithoutAnAgent) {
  const auto id = state_.announce(std::nullopt, 0, 2, 100, at(0));
  const auto other = state_.announce(std::nullopt, 1, 2, 101, at(0));
  SystemUsage usage;
  usage.user_ns = 40;
  usage.has_rss = true;
  usage.max_rss_bytes = 77;
  state_.set_usage(id, usage);
  state_.set_usage(id, SystemUsage{.user_ns = 60});  // as a zombie
  state_.gone(id, at(500).mono_ns, std::nullopt);
  state_.set_wait_status(id, exited(4));
  state_.gone(other, at(400).mono_ns, std::nullopt);
  const NodeSnapshot snapshot = state_.snapshot(at(600), true);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  const shard::Rank& rank = snapshot.ranks[0].rank;
  EXPECT_EQ(rank.elapsed_ns, 500 * kMs);
  EXPECT_EQ(rank.samples, 0u);
  EXPECT_EQ(rank.exit_status, 4);
  EXPECT_EQ(rank.user_ns, 60u);
  EXPECT_EQ(rank.max_rss_bytes, 77u);
  EXPECT_EQ(rank.flags & ~(shard::kGarbageApart | shard::kFilesKnown),
            shard::kExitStatusKnown | shard::kUsageKnown | shard::kMpiUnwatched);
  EXPECT_EQ(snapshot.ranks[1].rank.flags, shard::kLost | shard::kMpiUnwatched);
  EXPECT_EQ(snapshot.run.notes, std::vector{note_of_ranks(shard::NoteCode::kNoSamples, {0, 1})});
}

TEST_F(NodeStateTest, TellsExitStatusSignalAndLossApart) {
  struct Case {
    std::uint32_t said;
    int status, signal;
    std::optional<int> wait_status;
    std::uint32_t flags;
    int exit_status, exit_signal;
  };
  using enum shard::RankFlags;
  const Case cases[] = {
      {0, 0, 0, std::nullopt, kLost, 0, 0},
      {0, 0, 0, SIGKILL, kLost | kExitSignalKnown, 0, SIGKILL},
      {0, 0, 0, exited(5), kExitStatusKnown, 5, 0},
      {wire::kExitStatusKnown, 7, 0, std::nullopt, kExitStatusKnown, 7, 0},
      {wire::kFatalSignalKnown, 0, SIGSEGV, std::nullopt, kLost | kExitSignalKnown, 0, SIGSEGV},
      {wire::kFatalSignalKnown, 0, SIGSEGV, SIGSEGV | 0x80, kLost | kExitSignalKnown, 0, SIGSEGV},
      {wire::kExitStatusKnown, 0, 0, SIGABRT, kLost | kExitSignalKnown, 0, SIGABRT},
      {wire::kExitStatusKnown | wire::kFatalSignalKnown, 0, SIGSEGV, std::nullopt, kLost | kExitSignalKnown,
       0, SIGSEGV},
      {wire::kExecuted | wire::kExitStatusKnown, 7, 0, std::nullopt, kLost, 0, 0},
  };
  for (const Case& c : cases) {
    NodeState state(NodeOptions{});
    FakeSegment fake;
    run(fake, 100, 0, 10);
    fake.header().exit_flags = c.said;
    fake.header().exit_status = c.status;
    fake.header().fatal_signal = static_cast<std::uint32_t>(c.signal);
    const auto id = state.announce(std::nullopt, 0, 1, 100, at(0));
    state.hello(id, 100, view(fake), at(0));
    state.gone(id, at(20).mono_ns, c.wait_status);
    const NodeSnapshot snapshot = state.snapshot(at(30), true);
    EXPECT_EQ(snapshot.ranks.at(0).rank.flags & ~(shard::kGarbageApart | shard::kFilesKnown),
              static_cast<std::uint32_t>(c.flags))
        << c.said;
    EXPECT_EQ(snapshot.ranks.at(0).rank.exit_status, c.exit_status);
    EXPECT_EQ(snapshot.ranks.at(0).rank.exit_signal, c.exit_signal);
  }
}

// What a failed rank has left behind: not that of others, without secrets, and bounded.
TEST_F(NodeStateTest, OnlyFailedRanksLeaveWordsBehind) {
  struct Case {
    int wait_status;
    std::uint32_t said;
    bool kept, stack_overflow;
  };
  const Case cases[] = {{exited(0), wire::kExitStatusKnown, false, false},
                        {exited(3), wire::kExitStatusKnown, true, false},
                        {SIGKILL, 0, true, false},
                        {SIGSEGV, wire::kFatalSignalKnown, true, false},
                        {SIGSEGV, 0, true, true}};  // the handler could not run
  for (const CommandDetail detail : {CommandDetail::kMasked, CommandDetail::kFull}) {
    for (const Case& c : cases) {
      NodeOptions options;
      options.command_detail = detail;
      NodeState state(options);
      FakeSegment fake;
      run(fake, 100, 0, 10);
      fake.header().exit_flags = c.said;
      fake.header().exit_status = c.said == wire::kExitStatusKnown ? WEXITSTATUS(c.wait_status) : 0;
      const std::string text = "DB_PASSWORD=hunter2\n";
      std::ranges::copy(text, fake.header().last_words.stderr_tail);
      fake.header().last_words.stderr_bytes = text.size();
      const auto id = state.announce(std::nullopt, 0, 1, 100, at(0));
      state.hello(id, 100, view(fake), at(0));
      EXPECT_FALSE(state.snapshot(at(10), false).ranks.at(0).failure);  // it runs
      state.gone(id, at(20).mono_ns, c.wait_status);
      const std::optional<shard::Failure> failure = state.snapshot(at(30), true).ranks.at(0).failure;
      ASSERT_EQ(failure.has_value(), c.kept) << c.wait_status;
      if (!failure) continue;
      EXPECT_EQ(failure->stderr_tail, detail == CommandDetail::kFull ? text : "DB_PASSWORD=***\n");
      EXPECT_EQ((failure->flags & shard::Failure::kStackOverflow) != 0, c.stack_overflow) << c.wait_status;
    }
  }
}

TEST_F(NodeStateTest, OfManyFailedRanksTheFirstOnesThatFailedByThemselvesLeaveWords) {
  NodeState state(NodeOptions{});
  constexpr int kRanks = static_cast<int>(shard::kMaxFailureRows) + 3;
  std::vector<std::unique_ptr<FakeSegment>> fakes;
  for (int r = 0; r < kRanks; ++r) {
    fakes.push_back(std::make_unique<FakeSegment>(true, 1));
    run(*fakes.back(), 100 + r, 0, 10);
    fakes.back()->header().rank = r;
    fakes.back()->header().end_mono_ns = 0;
    // The first to end was ended, and the later ones fail later. The last one was ended in MPI_Abort.
    const bool aborts = r == kRanks - 1;
    fakes.back()->header().last_words.mpi_abort_called = aborts ? 1 : 0;
    const auto id = state.announce(std::nullopt, r, kRanks, 100 + r, at(0));
    state.hello(id, 100 + r, view(*fakes.back()), at(0));
    state.gone(id, at(20 + static_cast<std::uint64_t>(r)).mono_ns, r == 0 || aborts ? SIGTERM : exited(1));
  }
  const NodeSnapshot snapshot = state.snapshot(at(1000), true);
  std::set<int> kept;
  for (const RankSnapshot& rank : snapshot.ranks)
    if (rank.failure) kept.insert(rank.rank.rank);
  EXPECT_EQ(kept.size(), shard::kMaxFailureRows);
  EXPECT_EQ(kept.count(0), 0u);
  EXPECT_EQ(kept.count(1), 1u);
  EXPECT_EQ(kept.count(kRanks - 1), 1u);
}

TEST_F(NodeStateTest, SaysWhatMayHaveEndedRanks) {
  NodeOptions options;
  options.node_name = "n0";
  options.time_limit_utc_ns = at(50).utc_ns;
  NodeState state(options);
  EXPECT_TRUE(state.snapshot(at(49), true).run.notes.empty());
  EXPECT_EQ(state.snapshot(at(50), true).run.notes,
            std::vector{note_of_node(shard::NoteCode::kTimeLimit, "n0",
                                     static_cast<std::uint64_t>(at(50).utc_ns / 1'000'000'000))});
  state.set_memory_kills(2);
  EXPECT_EQ(state.snapshot(at(49), true).run.notes,
            std::vector{note_of_node(shard::NoteCode::kMemoryKills, "n0", 2)});
}

TEST_F(NodeStateTest, RankThatExitsWithoutFinalizeIsLost) {
  for (const int size : {1, 4}) {
    NodeState state(NodeOptions{});
    FakeSegment fake;
    run(fake, 100, 0, 10);
    fake.header().mpi_rank = 0;
    fake.header().mpi_size = size;
    fake.header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kInitialised);
    const auto id = state.announce(std::nullopt, 0, size, 100, at(0));
    state.hello(id, 100, view(fake), at(0));
    state.gone(id, at(20).mono_ns, exited(0));
    const NodeSnapshot snapshot = state.snapshot(at(30), true);
    const std::uint32_t flags = snapshot.ranks.at(0).rank.flags;
    EXPECT_EQ(flags & (shard::kLost | shard::kExitStatusKnown),
              size > 1 ? shard::kLost | shard::kExitStatusKnown : shard::kExitStatusKnown);
  }
}

// Killed: the last usage that the kernel reported is old.
TEST_F(NodeStateTest, KilledRankHasItsCpuTimeAndLastPathFromSamples) {
  FakeSegment fake;
  run(fake, 100, 0, 100);
  fake.header().end_mono_ns = 0;
  fake.header().usage.user_ns = 3 * kMs;
  fake.header().usage.system_ns = 1 * kMs;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  state_.hello(id, 100, view(fake), at(0));
  EXPECT_EQ(state_.snapshot(at(10), false).ranks.at(0).rank.flags & shard::kLost, shard::kLost);  // so far
  state_.gone(id, at(101).mono_ns, SIGKILL);
  const NodeSnapshot snapshot = state_.snapshot(at(200), true);
  const RankSnapshot& rank = snapshot.ranks.at(0);
  EXPECT_EQ(rank.rank.cpu_ns, 100 * kMs);
  EXPECT_EQ(rank.rank.system_ns, 1 * kMs);
  std::uint64_t in_series_ns = 0;
  SeriesBlock series = rank.series;
  series.for_each(snapshot.grid, [&](std::uint32_t column, std::uint32_t, std::uint64_t value) {
    if (column == kCpuUser || column == kCpuSystem) in_series_ns += value;
  });
  EXPECT_EQ(in_series_ns, 100 * kMs);
  ASSERT_TRUE(rank.last_path);
  EXPECT_EQ(snapshot.tables.nodes.at(*rank.last_path).parent, 0u);
  EXPECT_NE(*rank.last_path, 0u);
}

TEST_F(NodeStateTest, RanksWithoutANumberGetItFromMpi) {
  FakeSegment a, b;
  run(a, 100, 0, 10);
  run(b, 101, 0, 10);
  for (FakeSegment* fake : {&a, &b}) {
    fake->header().rank = -1;
    fake->header().mpi_size = 2;
    fake->header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
  }
  a.header().mpi_rank = 1;
  b.header().mpi_rank = 0;
  const auto first = state_.announce(std::nullopt, -1, -1, 100, at(0));
  const auto second = state_.announce(std::nullopt, -1, -1, 101, at(0));
  EXPECT_NE(first, second);
  state_.hello(first, 100, view(a), at(0));
  state_.hello(second, 101, view(b), at(0));
  const NodeSnapshot snapshot = state_.snapshot(at(20), false);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.rank, 0);
  EXPECT_EQ(snapshot.ranks[0].rank.pid, 101);
  EXPECT_EQ(snapshot.ranks[1].rank.rank, 1);
  EXPECT_TRUE(state_.has_rank(0));
  EXPECT_FALSE(state_.has_rank(2));
}

TEST_F(NodeStateTest, SingletonsKeepTheNumbersOfTheLauncher) {
  FakeSegment a, b;
  run(a, 100, 0, 10);
  run(b, 101, 0, 10);
  a.header().rank = 4;
  b.header().rank = 5;
  for (FakeSegment* fake : {&a, &b}) {
    fake->header().mpi_rank = 0;
    fake->header().mpi_size = 1;
    fake->header().mpi_state = static_cast<std::uint32_t>(wire::MpiState::kFinalised);
  }
  state_.hello(std::nullopt, 100, view(a), at(0));
  state_.hello(std::nullopt, 101, view(b), at(0));
  const NodeSnapshot snapshot = state_.snapshot(at(20), false);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.rank, 4);
  EXPECT_EQ(snapshot.ranks[1].rank.rank, 5);
}

constexpr std::uint32_t kPython307 = 0x030700f0, kPython311 = 0x030b02f0;  // the latter is FakeSegment's

TEST_F(NodeStateTest, NotesNameEachRankOnce) {
  FakeSegment a, b;
  for (FakeSegment* fake : {&a, &b}) {
    run(*fake, fake == &a ? 100 : 101, 0, 10);
    fake->header().rank = fake == &a ? 0 : 2;
    fake->header().python_state = static_cast<std::uint32_t>(wire::PythonState::kUnsupported);
    fake->header().python_note = static_cast<std::uint32_t>(wire::PythonNote::kVersionNotSupported);
    fake->header().python_version = kPython307;
  }
  state_.hello(std::nullopt, 100, view(a), at(0));
  state_.hello(std::nullopt, 101, view(b), at(0));
  for (int i = 0; i < 2; ++i) state_.add_note(note_of_node(shard::NoteCode::kOtherUser, "n", 7));
  const NodeSnapshot snapshot = state_.snapshot(at(20), false);
  constexpr auto kPython = shard::NoteCode::kPythonVersionNotSupported;
  EXPECT_EQ(snapshot.run.notes, (std::vector{note_of_node(shard::NoteCode::kOtherUser, "n", 7),
                                             note_of_ranks(kPython, {0, 0}, kPython307),
                                             note_of_ranks(kPython, {2, 2}, kPython307)}));
}

TEST_F(NodeStateTest, EndOfTheMpiLauncherIsANoteAboutTheRunningRanks) {
  FakeSegment fakes[4];
  std::vector<NodeState::ProcessId> ids;
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    run(fakes[rank], 100 + rank, 0, 10);
    fakes[rank].header().rank = rank;
    ids.push_back(state_.hello(std::nullopt, 100 + rank, view(fakes[rank]), at(0)));
  }
  state_.gone(ids[2], at(5).mono_ns, std::nullopt);
  state_.launcher_gone("mpirun");
  std::vector expected{note_of_ranks(shard::NoteCode::kLauncherGone, {0, 1}),
                       note_of_ranks(shard::NoteCode::kLauncherGone, {3, 3})};
  for (shard::Note& note : expected) note.text = "mpirun";
  EXPECT_EQ(state_.snapshot(at(20), false).run.notes, expected);
}

TEST_F(NodeStateTest, MissingNativeFramesMakeCollectionTimeUnknown) {
  FakeSegment whole, partly;
  for (FakeSegment* fake : {&whole, &partly}) {
    run(*fake, fake == &whole ? 100 : 101, 0, 10);
    fake->header().rank = fake == &whole ? 0 : 1;
    fake->header().python_state = static_cast<std::uint32_t>(wire::PythonState::kActive);
  }
  partly.header().python_note = static_cast<std::uint32_t>(wire::PythonNote::kNativeMissing);
  state_.hello(std::nullopt, 100, view(whole), at(0));
  state_.hello(std::nullopt, 101, view(partly), at(0));
  state_.poll(at(20).mono_ns);
  const NodeSnapshot snapshot = state_.snapshot(at(20), false);
  EXPECT_EQ(snapshot.run.notes,
            std::vector{note_of_ranks(shard::NoteCode::kPythonNativeMissing, {1, 1}, kPython311)});
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_NE(snapshot.ranks[0].rank.flags & shard::kGarbageApart, 0u);
  EXPECT_EQ(snapshot.ranks[1].rank.flags & shard::kGarbageApart, 0u);
}

class PythonOfARank : public NodeStateTest {
 protected:
  // A rank whose helper has ended, both with an interpreter in that state.
  NodeSnapshot snapshot(wire::PythonState main_state, wire::PythonState helper_state,
                        wire::PythonNote note = wire::PythonNote::kNothing) {
    const auto main = state_.announce(std::nullopt, 0, 1, 100, at(0));
    run(main_, 100, 0, 100);
    run(helper_, 101, 10, 20);
    main_.header().python_state = static_cast<std::uint32_t>(main_state);
    helper_.header().python_state = static_cast<std::uint32_t>(helper_state);
    helper_.header().python_note = static_cast<std::uint32_t>(note);
    helper_.header().rank = 0;
    state_.hello(main, 100, view(main_), at(0));
    const auto helper = state_.hello(std::nullopt, 101, view(helper_), at(10));
    state_.poll(at(20).mono_ns);
    state_.gone(helper, at(20).mono_ns, exited(0));
    NodeSnapshot result = state_.snapshot(at(30), false);
    EXPECT_EQ(result.ranks.size(), 1u);
    flags_ = result.ranks.at(0).rank.flags & (shard::kGarbageApart | shard::kPythonUnread);
    return result;
  }
  FakeSegment main_, helper_;
  std::uint32_t flags_ = 0;
};

TEST_F(PythonOfARank, IsKnownIfItWasReadOrThereIsNoPython) {
  snapshot(wire::PythonState::kNone, wire::PythonState::kActive);
  EXPECT_EQ(flags_, shard::kGarbageApart);
}

TEST_F(PythonOfARank, IsUnknownIfNobodyLooked) {
  EXPECT_TRUE(snapshot(wire::PythonState::kDisabled, wire::PythonState::kDisabled).run.notes.empty());
  EXPECT_EQ(flags_, shard::kPythonUnread);
}

TEST_F(PythonOfARank, IsUnknownIfAnEndedHelperWasNotRead) {
  EXPECT_EQ(
      snapshot(wire::PythonState::kNone, wire::PythonState::kUnsupported, wire::PythonNote::kFreeThreaded)
          .run.notes,
      std::vector{note_of_ranks(shard::NoteCode::kPythonFreeThreaded, {0, 0}, kPython311)});
  EXPECT_EQ(flags_, shard::kPythonUnread);
}

TEST_F(PythonOfARank, IsUnknownOfPypyWhichHasNoVersionOfCPython) {
  EXPECT_EQ(
      snapshot(wire::PythonState::kNone, wire::PythonState::kUnsupported, wire::PythonNote::kPypy).run.notes,
      std::vector{note_of_ranks(shard::NoteCode::kPythonPypy, {0, 0})});
  EXPECT_EQ(flags_, shard::kPythonUnread);
}

TEST_F(PythonOfARank, CollectionTimeIsUnknownIfAnEndedHelperDidNotTell) {
  EXPECT_EQ(
      snapshot(wire::PythonState::kActive, wire::PythonState::kActive, wire::PythonNote::kGarbageUnknown)
          .run.notes,
      std::vector{note_of_ranks(shard::NoteCode::kPythonGarbageUnknown, {0, 0}, kPython311)});
  EXPECT_EQ(flags_, 0u);
}

// The program may have written over both.
TEST_F(PythonOfARank, IgnoresNotesThatContradictTheState) {
  EXPECT_TRUE(
      snapshot(wire::PythonState::kActive, wire::PythonState::kActive, wire::PythonNote::kFreeThreaded)
          .run.notes.empty());
  EXPECT_EQ(flags_, shard::kGarbageApart);
}

// Its shard would be refused.
TEST_F(NodeStateTest, ImpossibleRanksHaveNoNotes) {
  FakeSegment fake;
  run(fake, 100, 0, 10);
  fake.header().rank = INT32_MAX - 1;
  fake.header().python_state = static_cast<std::uint32_t>(wire::PythonState::kUnsupported);
  state_.hello(std::nullopt, 100, view(fake), at(0));
  for (const shard::Note& note : state_.snapshot(at(20), false).run.notes)
    EXPECT_EQ(problem_of(note), nullptr) << name_of(note.code);
}

TEST_F(NodeStateTest, RanksOfSpawnedWorldsFollowTheFirstWorld) {
  FakeSegment first, child;
  const auto parent_id = state_.announce(std::nullopt, 1, 2, 100, at(0));
  run(first, 100, 5, 105);
  first.header().rank = 1;
  first.header().world_size = 2;
  // MPI numbers them differently from the launcher, and MPI's numbers count.
  first.header().mpi_rank = 0;
  first.header().mpi_size = 2;
  state_.hello(parent_id, 100, view(first), at(6));
  EXPECT_EQ(state_.world_size(), 2u);

  const auto child_id = state_.announce(std::nullopt, 6, 7, 200, at(10));
  run(child, 200, 15, 105);
  child.header().rank = 6;
  child.header().world_size = 7;
  child.header().mpi_rank = 5;
  child.header().mpi_size = 7;
  state_.hello(child_id, 200, view(child), at(16));
  state_.poll(at(100).mono_ns);
  EXPECT_EQ(state_.world_size(), 7u);
  // A world on other nodes, numbered after that one.
  state_.set_spawned_worlds({{7, 3}, {4, 3}});
  NodeSnapshot snapshot = state_.snapshot(at(200), true);
  EXPECT_EQ(snapshot.run.world_size, 10u);
  ASSERT_EQ(snapshot.ranks.size(), 2u);
  EXPECT_EQ(snapshot.ranks[0].rank.rank, 0);
  EXPECT_EQ(snapshot.ranks[0].rank.flags & shard::kSpawned, 0u);
  EXPECT_EQ(snapshot.ranks[1].rank.rank, 5);
  EXPECT_NE(snapshot.ranks[1].rank.flags & shard::kSpawned, 0u);
  // Its numbers were given back.
  state_.set_spawned_worlds({{4, 3}});
  EXPECT_EQ(state_.snapshot(at(200), true).run.world_size, 7u);
  state_.set_spawned_worlds({{0x7fff'fff0, 0x7fff'fff0}, {-5, 2}});
  EXPECT_EQ(state_.snapshot(at(200), true).run.world_size, 7u);
}

std::map<std::uint32_t, std::uint64_t> sums(const NodeSnapshot& snapshot, SeriesBlock series) {
  std::map<std::uint32_t, std::uint64_t> found;
  series.for_each(snapshot.grid,
                  [&](std::uint32_t column, std::uint32_t, std::uint64_t value) { found[column] += value; });
  return found;
}
std::map<std::uint32_t, std::uint64_t> bins(const NodeSnapshot& snapshot, SeriesBlock series,
                                            std::uint32_t column) {
  std::map<std::uint32_t, std::uint64_t> found;
  series.for_each(snapshot.grid, [&](std::uint32_t of, std::uint32_t bin, std::uint64_t value) {
    if (of == column) found[bin] = value;
  });
  return found;
}

TEST_F(NodeStateTest, UsageSeriesOfARankAddUpToItsTotals) {
  FakeSegment main, helper;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  run(helper, 101, 10, 20);
  state_.hello(id, 100, view(main), at(0));
  const auto other = state_.hello(std::nullopt, 101, view(helper), at(10));
  wire::ProcessUsage& usage = main.header().usage;
  state_.update_series(at(10).mono_ns);  // nobody has said anything yet
  usage.user_ns = 15 * kMs;
  usage.minor_faults = 100;
  usage.max_rss_bytes = 4096;
  state_.set_look(id, {5000, "0-3", "0"});
  state_.set_look(other, {700, "", ""});
  helper.header().usage.user_ns = 2 * kMs;
  state_.update_series(at(20).mono_ns);
  usage.user_ns = 40 * kMs;
  usage.minor_faults = 50;  // nonsense
  state_.gone(other, at(25).mono_ns, exited(0));
  state_.set_look(id, {6000, "0,2", "0"});
  state_.update_series(at(50).mono_ns);
  usage.user_ns = 80 * kMs;
  usage.system_ns = 7 * kMs;
  usage.minor_faults = 300;
  usage.major_faults = 1;
  usage.voluntary_switches = 11;
  usage.involuntary_switches = 12;
  usage.read_bytes = 13;
  usage.write_bytes = 14;
  state_.gone(id, at(100).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  const RankSnapshot& rank = snapshot.ranks.at(0);
  auto found = sums(snapshot, rank.series);
  found.erase(kRss);
  EXPECT_EQ(found, (std::map<std::uint32_t, std::uint64_t>{{kCpuUser, 82 * kMs},
                                                           {kCpuSystem, 7 * kMs},
                                                           {kMinorFaults, 300},
                                                           {kMajorFaults, 1},
                                                           {kVoluntarySwitches, 11},
                                                           {kInvoluntarySwitches, 12},
                                                           {kReadBytes, 13},
                                                           {kWriteBytes, 14}}));
  EXPECT_EQ(found[kCpuUser], rank.rank.user_ns);
  EXPECT_EQ(found[kMinorFaults], rank.rank.minor_faults);
  const auto user = bins(snapshot, rank.series, kCpuUser);
  EXPECT_EQ(user.at(5), 15 * kMs / 20);  // since the start
  EXPECT_EQ(user.at(30), 25 * kMs / 30);
  EXPECT_NEAR(static_cast<double>(user.at(15)), 15e6 / 20 + 2e6 / 10, 2.0);  // with the helper's
  const auto rss = bins(snapshot, rank.series, kRss);
  EXPECT_EQ(rss.size(), 100u);
  EXPECT_EQ(rss.at(15), 5700u);
  EXPECT_EQ(rss.at(22), 5700u);
  EXPECT_EQ(rss.at(99), 6000u);
  EXPECT_EQ(rank.affinity, "0,2");
  EXPECT_EQ(rank.numa_nodes, "0");
}

// The kernel's account of a process has what the children read and wrote that it has waited for.
TEST_F(NodeStateTest, WhatAChildReadsAndWritesCountsOnce) {
  FakeSegment main, waited, orphan, grandchild;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  main.header().end_mono_ns = 0;
  state_.hello(id, 100, view(main), at(0));
  const auto begin = [&](FakeSegment& fake, std::int32_t pid, std::int32_t parent) {
    run(fake, pid, 10, 20);
    fake.header().parent_pid = parent;
    return state_.hello(std::nullopt, pid, view(fake), at(10));
  };
  const auto child = begin(waited, 101, 100);
  const auto below = begin(grandchild, 102, 101);
  const auto other = begin(orphan, 103, 77);  // of a parent that is not recorded, or has ended
  const auto uses = [](FakeSegment& fake, std::uint64_t read, std::uint64_t written) {
    fake.header().usage.read_bytes = read;
    fake.header().usage.write_bytes = written;
  };
  const auto of_rank = [&](std::uint64_t ms) {
    const shard::Rank rank = state_.snapshot(at(ms), false).ranks.at(0).rank;
    return std::pair(rank.read_bytes, rank.write_bytes);
  };
  waited.header().end_mono_ns = 0;
  uses(main, 1, 2);
  uses(waited, 10, 20);
  uses(grandchild, 100, 200);
  uses(orphan, 1000, 2000);
  state_.update_series(at(15).mono_ns);
  EXPECT_EQ(of_rank(15), std::pair(1111ul, 2222ul));
  state_.gone(below, at(20).mono_ns, exited(0));
  uses(waited, 110, 220);
  waited.header().end_mono_ns = kStart + 20 * kMs;
  state_.gone(child, at(21).mono_ns, exited(0));
  uses(main, 111, 222);
  EXPECT_EQ(of_rank(22), std::pair(1111ul, 2222ul));
  state_.gone(other, at(23).mono_ns, exited(0));
  uses(main, 112, 223);
  main.header().end_mono_ns = kStart + 100 * kMs;
  state_.gone(id, at(100).mono_ns, exited(0));
  EXPECT_EQ(of_rank(100), std::pair(1112ul, 2223ul));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  const auto found = sums(snapshot, snapshot.ranks.at(0).series);
  EXPECT_EQ(found.at(kReadBytes), 1112u);
  EXPECT_EQ(found.at(kWriteBytes), 2223u);
}

// Nobody waits for the child of a process that ignores SIGCHLD.
TEST_F(NodeStateTest, WhatNobodyWaitsForIsInNobodysAccount) {
  FakeSegment main, child;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  main.header().end_mono_ns = 0;
  state_.hello(id, 100, view(main), at(0));
  run(child, 101, 10, 30);
  child.header().parent_pid = 100;
  const auto other = state_.hello(std::nullopt, 101, view(child), at(10));
  main.header().usage.write_bytes = 7;
  child.header().usage.write_bytes = 5;
  child.header().usage.usage_has_io = wire::kIoOfItsOwn;
  state_.gone(other, at(30).mono_ns, exited(0));
  EXPECT_EQ(state_.snapshot(at(40), false).ranks.at(0).rank.write_bytes, 12u);
}

// A process that has read its account before its child ended does not have the child's part in it.
TEST_F(NodeStateTest, AParentThatHasEndedKeepsWhatItReadAndWrote) {
  FakeSegment main, child;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 20);
  state_.hello(id, 100, view(main), at(0));
  run(child, 101, 10, 30);
  child.header().parent_pid = 100;
  const auto other = state_.hello(std::nullopt, 101, view(child), at(10));
  main.header().usage.read_bytes = 7;
  child.header().usage.read_bytes = 5;
  state_.gone(other, at(30).mono_ns, exited(0));
  state_.gone(id, at(31).mono_ns, exited(0));
  EXPECT_EQ(state_.snapshot(at(100), true).ranks.at(0).rank.read_bytes, 12u);
}

// A shell that ends right after the program that it has waited for: both have ended when the first end is
// seen.
TEST_F(NodeStateTest, AParentThatEndsRightAfterItsChildHasTheChildsPart) {
  FakeSegment main, child;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 31);
  state_.hello(id, 100, view(main), at(0));
  run(child, 101, 10, 30);
  child.header().parent_pid = 100;
  const auto other = state_.hello(std::nullopt, 101, view(child), at(10));
  main.header().usage.read_bytes = 12;
  main.header().usage.write_bytes = 24;
  child.header().usage.read_bytes = 5;
  child.header().usage.write_bytes = 10;
  state_.gone(other, at(32).mono_ns, exited(0));
  state_.gone(id, at(33).mono_ns, exited(0));
  const shard::Rank rank = state_.snapshot(at(100), true).ranks.at(0).rank;
  EXPECT_EQ(rank.read_bytes, 12u);
  EXPECT_EQ(rank.write_bytes, 24u);
}

// A child of short life leaves its account to its parent, and with it what a program that it ran has told.
TEST_F(NodeStateTest, WhatAGrandchildToldCountsOnceWhereTheChildToldNothing) {
  FakeSegment main, child, grandchild;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  state_.hello(id, 100, view(main), at(0));
  run(child, 101, 10, 30);
  child.header().parent_pid = 100;
  const auto between = state_.hello(std::nullopt, 101, view(child), at(10));
  run(grandchild, 102, 12, 28);
  grandchild.header().parent_pid = 101;
  const auto below = state_.hello(std::nullopt, 102, view(grandchild), at(12));
  const auto tells = [](FakeSegment& fake, std::uint64_t read, std::uint64_t written) {
    fake.header().usage.read_bytes = read;
    fake.header().usage.write_bytes = written;
    fake.header().usage.usage_has_io = wire::kIoTold;
  };
  ASSERT_EQ(child.header().usage.usage_has_io, wire::kIoNotTold);
  tells(grandchild, 100, 200);
  state_.gone(below, at(28).mono_ns, exited(0));
  state_.gone(between, at(30).mono_ns, exited(0));
  tells(main, 100, 200);
  state_.gone(id, at(100).mono_ns, exited(0));
  const shard::Rank rank = state_.snapshot(at(100), true).ranks.at(0).rank;
  EXPECT_EQ(rank.read_bytes, 100u);
  EXPECT_EQ(rank.write_bytes, 200u);
}

TEST_F(NodeStateTest, KnowsWhichHelpersHaveToldOfAShortLife) {
  FakeSegment main, brief, killed, old, executed, crashed;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  const auto helper = [&](FakeSegment& fake, std::int32_t pid, std::uint64_t end_ms, std::uint32_t flags) {
    run(fake, pid, 10, end_ms);
    fake.header().exit_flags = flags;
    return state_.hello(std::nullopt, pid, view(fake), at(10));
  };
  run(main, 100, 0, 50);
  main.header().exit_flags = wire::kExitStatusKnown;
  state_.hello(id, 100, view(main), at(0));
  EXPECT_FALSE(state_.has_told_of_short_life(id)) << "of a rank everything is asked for";
  const auto told = helper(brief, 101, 20, wire::kExitStatusKnown);
  EXPECT_TRUE(state_.has_told_of_short_life(told));
  EXPECT_FALSE(state_.has_told_of_short_life(helper(old, 103, 1011, wire::kExitStatusKnown)));
  EXPECT_FALSE(
      state_.has_told_of_short_life(helper(executed, 104, 20, wire::kExitStatusKnown | wire::kExecuted)));
  constexpr std::uint32_t kBoth = wire::kExitStatusKnown | wire::kFatalSignalKnown;
  EXPECT_FALSE(state_.has_told_of_short_life(helper(crashed, 105, 20, kBoth))) << "it crashed while it ended";
  const auto silent = helper(killed, 102, 20, 0);
  EXPECT_FALSE(state_.has_told_of_short_life(silent));
  killed.header().exit_flags = wire::kExitStatusKnown;
  killed.header().end_mono_ns = 0;
  EXPECT_FALSE(state_.has_told_of_short_life(silent));
  state_.gone(told, at(30).mono_ns, std::nullopt);
  EXPECT_FALSE(state_.has_told_of_short_life(told));
}

TEST_F(NodeStateTest, UsageBeforeTheRankWasKnownIsKept) {
  FakeSegment fake;
  run(fake, 100, 0, 100);
  fake.header().rank = -1;
  const auto id = state_.hello(std::nullopt, 100, view(fake), at(0));
  fake.header().usage.user_ns = 5 * kMs;
  state_.update_series(at(10).mono_ns);
  state_.announce(id, 0, 1, 100, at(11));
  fake.header().usage.user_ns = 9 * kMs;
  state_.gone(id, at(100).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  ASSERT_EQ(snapshot.ranks.size(), 1u);
  EXPECT_EQ(sums(snapshot, snapshot.ranks[0].series)[kCpuUser], 9 * kMs);
}

TEST_F(NodeStateTest, MemorySeriesOfAProcessThatWasNeverLookedAtEndsWithItsPeak) {
  FakeSegment main;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 10);
  main.header().usage.max_rss_bytes = 8192;
  state_.hello(id, 100, view(main), at(0));
  state_.gone(id, at(10).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(10), true);
  const auto rss = bins(snapshot, snapshot.ranks.at(0).series, kRss);
  ASSERT_EQ(rss.size(), 10u);
  EXPECT_EQ(rss.at(9), 8192u);
}

TEST_F(NodeStateTest, CategorySeriesCoverOnlyTheMainProcess) {
  FakeSegment shell, program;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(shell, 100, 0, 40);
  shell.header().exit_flags = wire::kExecuted;
  run(program, 100, 41, 100);
  FakeSegment helper;
  run(helper, 200, 10, 90);
  state_.hello(id, 100, view(shell), at(0));
  const auto other = state_.hello(std::nullopt, 200, view(helper), at(10));
  state_.hello(id, 100, view(program), at(42));
  state_.gone(other, at(90).mono_ns, exited(0));
  for (const bool ended : {false, true}) {
    if (ended) state_.gone(id, at(101).mono_ns, exited(0));
    state_.poll(at(100).mono_ns);
    const NodeSnapshot snapshot = state_.snapshot(at(100), ended);
    std::uint64_t on_paths_ns = 0;  // of all processes
    for (const PathTimes::Cell& cell : snapshot.path_times.cells) on_paths_ns += cell.wall_ns;
    EXPECT_EQ(on_paths_ns, (40 + 59 + 80) * kMs);
    const auto found = bins(snapshot, snapshot.ranks.at(0).report.main_series,
                            static_cast<std::uint32_t>(shard::Category::kNative));
    std::map<std::uint32_t, std::uint64_t> expected;
    for (std::uint32_t bin = 0; bin < 100; ++bin)
      if (bin != 40) expected[bin] = kMs;  // between the two programs
    EXPECT_EQ(found, expected) << ended;
  }
}

TEST_F(NodeStateTest, NodeSeriesHoldUsagePerBin) {
  state_.begin(at(0));
  state_.set_node_facts({6, 2, 1000, 32, "Abacus"});
  NodeUsage usage{5'000'000, 400, 10, 20, 30, 40};
  state_.update_node_series(at(0).mono_ns, usage);
  usage = {5'000'000 + 20 * kMs, 500, 110, 220, 330, 440};
  state_.update_node_series(at(10).mono_ns, usage);
  usage.network_sent_bytes = 0;  // the interface is gone
  usage.memory_used_bytes = 100;
  state_.update_node_series(at(20).mono_ns, usage);
  const NodeSnapshot snapshot = state_.snapshot(at(20), true);
  EXPECT_EQ(snapshot.node.cpus, 6u);
  EXPECT_EQ(snapshot.node.numa_nodes, 2u);
  EXPECT_EQ(snapshot.node.memory_bytes, 1000u);
  EXPECT_EQ(snapshot.node.cache_bytes, 32u);
  EXPECT_EQ(snapshot.node.cpu_model, "Abacus");
  auto found = sums(snapshot, snapshot.series);
  EXPECT_EQ(found[kCpuBusy], 20 * kMs);
  EXPECT_EQ(found[kNetworkReceived], 100u);
  EXPECT_EQ(found[kNetworkSent], 200u);
  EXPECT_EQ(found[kDiskRead], 300u);
  EXPECT_EQ(found[kDiskWritten], 400u);
  EXPECT_EQ(bins(snapshot, snapshot.series, kCpuBusy).at(3), 2 * kMs);
  const auto memory = bins(snapshot, snapshot.series, kMemoryUsed);
  EXPECT_EQ(memory.at(9), 500u);
  EXPECT_EQ(memory.at(19), 100u);
}

// A thread that from `begin` on was blocked in the call for 80 ms, and ran 10 ms before and 10 ms in it.
void wait_in(FakeSegment& fake, std::uint32_t index, std::int32_t tid, bool main, std::int32_t call,
             std::uint32_t about) {
  fake.thread(index, tid, kStart, main);
  FakeSegment::Sample sample;
  sample.words = {0x10001};
  sample.time_ns = kStart + 10 * kMs;
  sample.cpu_ns = 10 * kMs;
  fake.sample(index, sample);
  sample.flags = wire::kInSyscall | about;
  sample.syscall_nr = static_cast<std::int16_t>(call);
  sample.time_ns = kStart + 90 * kMs;
  sample.trigger = wire::Trigger::kBlocked;
  fake.sample(index, sample);
  sample.time_ns = kStart + 100 * kMs;
  sample.cpu_ns = 20 * kMs;
  sample.trigger = wire::Trigger::kCpuTimer;
  fake.sample(index, sample);
  fake.thread_end(index, kStart + 100 * kMs, 20 * kMs);
}

TEST_F(NodeStateTest, HelpersThatWaitForOthersAreIdleAndTheMainThreadIsInIo) {
  struct Case {
    std::int32_t call;
    std::uint32_t about;
    bool waits;
  };
  const Case cases[] = {{SYS_recvfrom, wire::kOnSocket, true},
                        {SYS_accept, 0, true},
                        {SYS_read, wire::kOnPipe, true},
                        {SYS_read, wire::kOnSocket, true},
                        {SYS_write, wire::kOnPipe, true},
                        {SYS_read, wire::kOnFile, false},
                        {SYS_write, wire::kOnSocket, false},
                        {SYS_fsync, wire::kOnFile, false},
                        {SYS_read, 0, false}};
  for (const Case& now : cases) {
    SCOPED_TRACE(testing::Message() << "call " << now.call << " about " << now.about);
    NodeState state{NodeOptions{"run-1", "n0", {"./program"}, 0, 100, "wall"}};
    FakeSegment fake, child;
    for (FakeSegment* const segment : {&fake, &child}) {
      segment->header().end_mono_ns = kStart + 100 * kMs;
      segment->module("/bin/program", 0x10000, 0x20000, 0x10000);
    }
    child.header().pid = 200;
    child.header().parent_pid = 100;
    const auto id = state.announce(std::nullopt, 0, 1, 100, at(0));
    wait_in(fake, 0, 100, true, now.call, now.about);
    wait_in(fake, 1, 101, false, now.call, now.about);
    wait_in(child, 0, 200, true, now.call, now.about);
    state.hello(id, 100, view(fake), at(1));
    const auto helper = state.hello(std::nullopt, 200, view(child), at(1));
    state.poll(at(100).mono_ns);
    state.gone(helper, at(100).mono_ns, std::nullopt);
    state.gone(id, at(100).mono_ns, std::nullopt);
    const NodeSnapshot snapshot = state.snapshot(at(200), true);
    ASSERT_EQ(snapshot.ranks.size(), 1u);
    std::map<std::pair<bool, shard::Category>, std::uint64_t> wall, samples;
    for (const auto& [key, amount] : snapshot.ranks[0].report.values) {
      wall[{key.main_thread, key.category}] += amount.wall_ns / kMs;
      samples[{key.main_thread, key.category}] += amount.samples;
    }
    using shard::Category;
    EXPECT_EQ((wall[{true, Category::kIo}]), 90u);
    EXPECT_EQ((wall[{true, Category::kIdle}]), 0u);
    EXPECT_EQ((wall[{false, Category::kNative}]), 2 * 10u);
    EXPECT_EQ((wall[{false, Category::kIdle}]), now.waits ? 2 * 80u : 0u);
    EXPECT_EQ((wall[{false, Category::kIo}]), now.waits ? 2 * 10u : 2 * 90u);
    EXPECT_EQ((samples[{false, Category::kIo}] + samples[{false, Category::kIdle}]), 4u);
    // Nor do processes spend most of their time there.
    for (const shard::Process& process : snapshot.ranks[0].processes) {
      const bool is_rank = process.pid == 100;
      EXPECT_EQ(process.top_ns / kMs, is_rank ? (now.waits ? 90u + 10u : 2 * 90u) : (now.waits ? 10u : 90u));
    }
  }
}

TEST_F(NodeStateTest, PausedTimeCoversOnlyTheMainProcess) {
  FakeSegment main, helper;
  const auto id = state_.announce(std::nullopt, 0, 1, 100, at(0));
  run(main, 100, 0, 100);
  run(helper, 101, 10, 20);
  main.header().paused_ns = 30 * kMs;
  helper.header().paused_ns = 5 * kMs;
  main.header().counters_multiplexed = 1;
  state_.hello(id, 100, view(main), at(0));
  state_.gone(state_.hello(std::nullopt, 101, view(helper), at(10)), at(20).mono_ns, exited(0));
  state_.gone(id, at(100).mono_ns, exited(0));
  const NodeSnapshot snapshot = state_.snapshot(at(100), true);
  EXPECT_EQ(snapshot.ranks.at(0).rank.paused_ns, 30 * kMs);
  EXPECT_TRUE(snapshot.run.counters_multiplexed);
  EXPECT_EQ(snapshot.run.notes, std::vector{note_of_run(shard::NoteCode::kCountersTookTurns)});
}

}  // namespace
}  // namespace clusterprof::collector
