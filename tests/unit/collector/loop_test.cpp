// SPDX-License-Identifier: BSD-3-Clause
// The parts of the collector's event loop, one by one. integration.collector tests the whole.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collector/loop/checkpointer.hpp"
#include "collector/loop/control_watch.hpp"
#include "collector/loop/hang_watch.hpp"
#include "collector/loop/launcher_channel.hpp"
#include "collector/loop/listener.hpp"
#include "collector/loop/poll_interval.hpp"
#include "collector/loop/processor_share.hpp"
#include "collector/loop/watched_processes.hpp"
#include "collector/node/spawned_worlds.hpp"
#include "collector/os/os_process.hpp"
#include "formats/wire/spawned_world.h"

namespace clusterprof::collector {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(PollInterval, StartsWithTheTimeInWhichHalfARingFillsUpButAtMost100Milliseconds) {
  EXPECT_EQ(PollInterval(0).get(), milliseconds(100));
  EXPECT_EQ(PollInterval(100).get(), milliseconds(100));
  EXPECT_EQ(PollInterval(1000).get(), milliseconds(64));
  EXPECT_EQ(PollInterval(100'000).get(), milliseconds(5));
}

TEST(PollInterval, ShrinksInProportionToTheFillOfTheFullestRing) {
  PollInterval interval(100);
  interval.after_poll(0.7);
  EXPECT_EQ(interval.get(), milliseconds(50));
  for (int i = 0; i < 10; ++i) interval.after_poll(1);
  EXPECT_EQ(interval.get(), milliseconds(5));
}

TEST(PollInterval, GrowsUpTo300MillisecondsWhileRingsAreNearlyEmpty) {
  PollInterval interval(100);
  interval.after_poll(0.2);  // neither full nor nearly empty
  EXPECT_EQ(interval.get(), milliseconds(100));
  interval.after_poll(0);
  EXPECT_EQ(interval.get(), milliseconds(113));
  for (int i = 0; i < 20; ++i) interval.after_poll(0.1);
  EXPECT_EQ(interval.get(), milliseconds(300));
}

TEST(PollInterval, GrowsUpToASecondInALightRecording) {
  PollInterval interval(20, true);
  EXPECT_EQ(interval.get(), milliseconds(100));
  for (int i = 0; i < 40; ++i) interval.after_poll(0);
  EXPECT_EQ(interval.get(), milliseconds(1000));
}

TEST(CheckpointTimes, KeepTheNewestShardYoungerThanFiveSecondsAndWriteAtMostHalfOfTheTime) {
  const CheckpointTimes times;
  EXPECT_EQ(times.first(), seconds(1));
  EXPECT_EQ(times.interval(milliseconds(100)), milliseconds(4350));
  // From the snapshot of one shard until the next is written, even if that takes half as long again.
  for (const milliseconds took : {milliseconds(10), milliseconds(500), milliseconds(1200)})
    EXPECT_LE(times.interval(took) + took * 3 / 2, seconds(5));
  EXPECT_EQ(times.interval(seconds(3)), seconds(6));
  for (const int age_s : {2, 60, 3600}) {
    const CheckpointTimes asked{seconds(age_s)};
    EXPECT_EQ(asked.interval(milliseconds(100)), seconds(age_s) - milliseconds(650));
  }
}

TEST(CheckpointTimes, NodesOfOneJobWriteAtDifferentTimes) {
  constexpr int kNodes = 2000;
  constexpr milliseconds kSlice{100};
  for (const int age_s : {5, 60}) {
    std::map<long, int> first, second;  // nodes by slice of time
    for (int node = 0; node < kNodes; ++node) {
      const CheckpointTimes times{seconds(age_s), checkpoint_phase("node" + std::to_string(node)), kNodes};
      EXPECT_GE(times.first(), seconds(1));
      EXPECT_LT(times.first(), seconds(5));
      EXPECT_LE(times.second(milliseconds(10)), times.interval(milliseconds(10)));
      ++first[times.first() / kSlice];
      ++second[(times.first() + times.second(milliseconds(10))) / kSlice];
    }
    const auto most = [](const std::map<long, int>& slices) {
      int highest = 0;
      for (const auto& [slice, nodes] : slices) highest = std::max(highest, nodes);
      return highest;
    };
    EXPECT_LT(most(first), 2 * kNodes / 40);
    EXPECT_LT(most(second), age_s == 5 ? 2 * kNodes / 40 : kNodes / 8);  // those of small phase come at 5 s
  }
  EXPECT_EQ((CheckpointTimes{seconds(5), 0.9, 1}.first()), seconds(1));
}

TEST(MayReadLines, OfWhereThreadsAreAtOnceAndOfTheRestLater) {
  using Of = ShardBuilder::LinesOf;
  EXPECT_TRUE(may_read_lines(Of::kStacksNow, milliseconds(0), milliseconds(10)));
  EXPECT_TRUE(may_read_lines(Of::kStacksNow, milliseconds(99), seconds(0)));
  EXPECT_FALSE(may_read_lines(Of::kStacksNow, milliseconds(106), seconds(1))) << "1 s / 200 is 5 ms";
  EXPECT_TRUE(may_read_lines(Of::kStacksNow, milliseconds(106), seconds(2)));
  EXPECT_FALSE(may_read_lines(Of::kAnything, milliseconds(0), seconds(9)));
  EXPECT_TRUE(may_read_lines(Of::kAnything, milliseconds(0), seconds(11)));
  EXPECT_FALSE(may_read_lines(Of::kAnything, milliseconds(10), seconds(11)));
}

TEST(CheckpointSchedule, IsDueAnIntervalAfterTheLastCheckpointBegan) {
  CheckpointSchedule schedule({});
  const CheckpointSchedule::Clock::time_point begin{};
  schedule.begin(begin);
  EXPECT_FALSE(schedule.is_due(begin + milliseconds(999)));
  EXPECT_TRUE(schedule.is_due(begin + seconds(1)));
  schedule.wrote(milliseconds(100));
  EXPECT_FALSE(schedule.is_due(begin + milliseconds(4349)));
  EXPECT_TRUE(schedule.is_due(begin + milliseconds(4350)));
}

TEST(CheckpointSchedule, SecondOfALongIntervalComesEarlier) {
  CheckpointSchedule schedule({seconds(60), 0.5, 1});
  const CheckpointSchedule::Clock::time_point begin{};
  schedule.begin(begin);
  schedule.wrote(milliseconds(0));
  EXPECT_FALSE(schedule.is_due(begin + milliseconds(29749)));
  EXPECT_TRUE(schedule.is_due(begin + milliseconds(29750)));
  schedule.wrote(milliseconds(0));
  EXPECT_FALSE(schedule.is_due(begin + milliseconds(59499)));
  EXPECT_TRUE(schedule.is_due(begin + milliseconds(59500)));
}

TEST(HangSchedule, LooksOnceNothingHasMovedForLongAndThenLessAndLess) {
  HangSchedule schedule(seconds(60));
  HangSchedule::Clock::time_point now{};
  now += seconds(1000);
  EXPECT_FALSE(schedule.is_due(seconds(59), now));
  EXPECT_TRUE(schedule.is_due(seconds(60), now));
  std::vector<int> waits;
  seconds since{0};
  for (int second = 1; second <= 100; ++second) {
    ++since;
    if (!schedule.is_due(seconds(60 + second), now + seconds(second))) continue;
    waits.push_back(static_cast<int>(since.count()));
    since = seconds(0);
  }
  EXPECT_EQ(waits, (std::vector<int>{5, 10, 20, 30, 30}));
  // It moved, and stopped again.
  EXPECT_FALSE(schedule.is_due(seconds(1), now + seconds(101)));
  EXPECT_TRUE(schedule.is_due(seconds(61), now + seconds(161)));
  EXPECT_TRUE(schedule.is_due(seconds(66), now + seconds(166)));
}

TEST(HangSchedule, OfAShortTimeLooksEveryFiveSeconds) {
  HangSchedule schedule(seconds(5));
  HangSchedule::Clock::time_point now{};
  now += seconds(1000);
  for (int second = 0; second <= 20; ++second)
    EXPECT_EQ(schedule.is_due(seconds(5 + second), now + seconds(second)), second % 5 == 0) << second;
}

TEST(WatchedProcess, GetsASignalAndNoOtherOneWithItsPid) {
  const auto child = [] {
    const pid_t pid = fork();
    if (pid == 0) {
      pause();
      _exit(0);
    }
    return pid;
  };
  const auto signal_of = [](pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  };
  boost::asio::io_context io;
  WatchedProcesses watched(io);
  const pid_t first = child();
  watched.add(first, {}, open_process(first)).send(SIGKILL);
  EXPECT_EQ(signal_of(first), SIGKILL);
  // Without a pidfd.
  const pid_t second = child();
  WatchedProcess& process = watched.add(second, {}, UniqueFd());
  ASSERT_NE(process.start_ticks, 0u);
  ++process.start_ticks;  // as of an earlier process
  process.send(SIGKILL);
  EXPECT_EQ(waitpid(second, nullptr, WNOHANG), 0) << "it still runs";
  --process.start_ticks;
  process.send(SIGTERM);
  EXPECT_EQ(signal_of(second), SIGTERM);
}

// What the collector of an ordinary run is told, and what it leaves behind.
TEST(ControlWatch, OfARunWithoutWindowsWritesWhenAskedAndTellsOfAHangOnce) {
  std::string run = (std::filesystem::temp_directory_path() / "clusterprof-watch-XXXXXX").string();
  ASSERT_NE(mkdtemp(run.data()), nullptr);
  boost::asio::io_context io;
  std::vector<std::uint64_t> asked;
  std::vector<HangNotice> hangs;
  bool is_asked = false;
  ControlWatch watch(
      io, run, "n1", 1, ControlWatch::Windows::kNone,
      ControlWatch::Node{[](std::uint32_t, bool) { FAIL(); }, []() -> ControlWatch::Node::Done { return {}; },
                         [&](std::uint64_t number) { asked.push_back(number); },
                         [&](const HangNotice& notice) { hangs.push_back(notice); },
                         [&] { is_asked = true; }});
  const auto run_until = [&](const auto& condition) {
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (!condition() && std::chrono::steady_clock::now() < end) io.run_one_for(milliseconds(100));
    return condition();
  };
  watch.begin();
  run_until([&, end = std::chrono::steady_clock::now() + seconds(2)] {  // it has looked
    return std::chrono::steady_clock::now() >= end;
  });
  EXPECT_TRUE(std::filesystem::is_empty(run)) << "nobody has asked for anything";
  EXPECT_FALSE(is_asked);
  ASSERT_TRUE(write_watch(run, 1));
  ASSERT_TRUE(run_until([&] { return is_asked; })) << "who watches is looked for then";
  EXPECT_TRUE(asked.empty());
  const Result<std::uint64_t> number = request_write(run);
  ASSERT_TRUE(number);
  ASSERT_TRUE(run_until([&] { return !asked.empty(); }));
  EXPECT_EQ(asked, std::vector<std::uint64_t>{number.value()});
  EXPECT_TRUE(read_write_answers(run).empty());
  watch.wrote(number.value());
  ASSERT_TRUE(run_until([&] { return !read_write_answers(run).empty(); }));
  EXPECT_EQ(read_write_answers(run)[0], (WriteAnswer{"n1", number.value()}));
  ASSERT_TRUE(write_hang_notice(run, {7, true}));
  ASSERT_TRUE(run_until([&] { return !hangs.empty(); }));
  EXPECT_EQ(hangs, (std::vector<HangNotice>{{7, true}}));
  EXPECT_EQ(asked.size(), 1u);
  watch.withdraw();
  EXPECT_TRUE(read_write_answers(run).empty());
  std::filesystem::remove_all(run);
}

TEST(ProcessorShare, WaitsUntilWhatWasUsedIsTheShareOfTheTime) {
  ProcessorShare share(0.05);
  std::chrono::nanoseconds now{0}, used{0};
  EXPECT_EQ(share.wait_after(now, used), seconds(0));
  // A burst of 0.5 s is what 10 s allow.
  used += milliseconds(500);
  EXPECT_EQ(share.wait_after(now, used), seconds(0));
  used += milliseconds(10);
  EXPECT_EQ(share.wait_after(now, used), milliseconds(200));
  now += milliseconds(200);
  EXPECT_LE(share.wait_after(now, used), milliseconds(1));
  // However busy it is, over a minute it gets 5 %.
  const auto begin = now, used_at_begin = used;
  while (now - begin < seconds(60)) {
    used += milliseconds(20);
    now += milliseconds(20) + share.wait_after(now, used);
  }
  EXPECT_NEAR(
      static_cast<double>((used - used_at_begin).count()) / static_cast<double>((now - begin).count()), 0.05,
      0.001);
  used += seconds(100);
  EXPECT_EQ(share.wait_after(now, used), ProcessorShare::kMostWait);
}

TEST(ProcessorShare, WithoutALimitNeverWaits) {
  ProcessorShare share(0);
  EXPECT_EQ(share.wait_after(seconds(1), seconds(1)), seconds(0));
  EXPECT_EQ(share.wait_after(seconds(1), seconds(100)), seconds(0));
}

class WatchedProcessesTest : public testing::Test {
 protected:
  // A process that lives until it is killed.
  pid_t start() {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    children_.push_back(child);
    return child;
  }
  void end(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::erase(children_, child);
  }
  ~WatchedProcessesTest() override {
    while (!children_.empty()) end(children_.back());
  }

  static bool never_connected(NodeState::ProcessId) { return false; }
  static bool always_connected(NodeState::ProcessId) { return true; }

  boost::asio::io_context io_;
  WatchedProcesses watched_{io_};
  std::vector<pid_t> children_;
};

TEST_F(WatchedProcessesTest, FindsAProcessByIdAndPidUntilItIsRemoved) {
  const pid_t child = start();
  watched_.add(child, {}, open_process(child)).id = 7;
  WatchedProcess* process = watched_.find_peer(child, {}, open_process(child), never_connected);
  ASSERT_NE(process, nullptr);
  EXPECT_EQ(watched_.find(7), process);
  EXPECT_EQ(watched_.find_pid(child), process);
  EXPECT_FALSE(process->has_ended());
  end(child);
  EXPECT_TRUE(process->has_ended());
  watched_.remove(7);
  EXPECT_EQ(watched_.find(7), nullptr);
  EXPECT_EQ(watched_.find_pid(child), nullptr);
}

TEST_F(WatchedProcessesTest, SeesTheEndWithoutAPidfdByThePid) {
  const pid_t child = start();
  const WatchedProcess& process = watched_.add(child, {}, UniqueFd());
  EXPECT_EQ(process.pidfd(), -1);
  EXPECT_FALSE(process.has_ended());
  end(child);
  EXPECT_TRUE(process.has_ended());
}

TEST_F(WatchedProcessesTest, SeesTheEndWithoutAPidfdWhereThePidStays) {
  const pid_t child = start();
  WatchedProcess& process = watched_.add(child, {}, UniqueFd());
  ASSERT_NE(process.start_ticks, 0u);
  EXPECT_FALSE(process.has_ended());
  --process.start_ticks;
  EXPECT_TRUE(process.has_ended()) << "another process has got its pid";
  ++process.start_ticks;
  EXPECT_FALSE(process.has_ended());
  ::kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process.has_ended()) << "nobody has waited for it";
}

TEST_F(WatchedProcessesTest, LivesAsLongAsAThreadDoes) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // The main thread ends first.
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    (void)!::write(pipe[1], "x", 1);
    ::syscall(SYS_exit, 0);
  }
  children_.push_back(child);
  char byte;
  ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  ::close(pipe[0]);
  ::close(pipe[1]);
  const WatchedProcess& process = watched_.add(child, {}, UniqueFd());
  for (int look = 0; look < 100; ++look) {
    EXPECT_FALSE(process.has_ended());
    ::usleep(1000);
  }
}

TEST_F(WatchedProcessesTest, KnowsAProcessWithoutAPidByItsAliasAsLongAsItsAgentIsNotStillConnected) {
  watched_.add(0, {12, 3}, UniqueFd()).id = 5;
  EXPECT_EQ(watched_.find_peer(0, {12, 4}, UniqueFd(), never_connected), nullptr);
  EXPECT_EQ(watched_.find_peer(0, {12, 3}, UniqueFd(), never_connected), watched_.find(5));
  // Another process of another namespace that has the same number.
  EXPECT_EQ(watched_.find_peer(0, {12, 3}, UniqueFd(), always_connected), nullptr);
  EXPECT_EQ(watched_.find(5)->shown_pid(), 12);
}

TEST_F(WatchedProcessesTest, TellsANewProcessFromTheEndedOneThatHadItsAlias) {
  const pid_t old = start(), young = start();
  watched_.add(0, {12, 3}, open_process(old)).id = 5;
  if (watched_.find(5)->pidfd() < 0) GTEST_SKIP() << "this kernel has no pidfds";
  end(old);
  EXPECT_EQ(watched_.find_peer(0, {12, 3}, open_process(young), never_connected), nullptr);
}

class SocketTest : public testing::Test {
 protected:
  boost::asio::io_context io_;
};

TEST_F(SocketTest, LauncherChannelPassesMessagesOnAndNoticesTheEndOfTheLauncher) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[1]);
  UniqueFd launcher(ends[0]);
  std::vector<std::int32_t> received;
  int closed = 0;
  LauncherChannel channel(
      io_, ours.get(),
      {[&](const wire::Control& message) { received.push_back(message.a); }, [&] { ++closed; }});
  channel.start();
  const wire::Control message{wire::ControlType::kChildStarted, 42, 0};
  ASSERT_EQ(::send(launcher.get(), &message, sizeof message, 0), static_cast<ssize_t>(sizeof message));
  ASSERT_EQ(::send(launcher.get(), "?", 1, 0), 1);  // too short: ignored
  io_.poll();
  EXPECT_EQ(received, std::vector<std::int32_t>{42});
  EXPECT_TRUE(channel.connected());

  channel.send(wire::ControlType::kRelease, 3);
  wire::Control answer{};
  ASSERT_EQ(::recv(launcher.get(), &answer, sizeof answer, MSG_DONTWAIT),
            static_cast<ssize_t>(sizeof answer));
  EXPECT_EQ(answer.type, wire::ControlType::kRelease);
  EXPECT_EQ(answer.a, 3);

  launcher = UniqueFd();
  io_.restart();
  io_.poll();
  EXPECT_EQ(closed, 1);
  EXPECT_FALSE(channel.connected());
  EXPECT_EQ(::fcntl(ours.get(), F_GETFD), FD_CLOEXEC);  // still open
}

TEST_F(SocketTest, LauncherChannelWithoutALauncherDoesNothing) {
  LauncherChannel channel(io_, -1, {});
  channel.start();
  channel.send(wire::ControlType::kRelease, 0);
  EXPECT_FALSE(channel.connected());
  EXPECT_EQ(io_.poll(), 0u);
}

TEST_F(SocketTest, ListenerHandsOverConnectionsAndRefusesThemWhenFilesRunOut) {
  const int listening = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_GE(listening, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // without a name: the kernel chooses one
  ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)), 0);
  ASSERT_EQ(::listen(listening, 4), 0);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  std::vector<pid_t> peers;
  std::vector<shard::NoteCode> refused;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  Listener listener(io_, listening,
                    {[&](UniqueFd, pid_t peer) { peers.push_back(peer); },
                     [&](shard::NoteCode code, std::uint64_t) { refused.push_back(code); }});
  const UniqueFd first(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first.get(), reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  listener.accept_all();
  EXPECT_EQ(peers, std::vector<pid_t>{::getpid()});
  EXPECT_TRUE(refused.empty());

  std::vector<UniqueFd> others;
  while (others.size() < 64 && (others.empty() || others.back())) others.emplace_back(::dup(first.get()));
  listener.accept_all();
  EXPECT_EQ(refused, std::vector<shard::NoteCode>{shard::NoteCode::kTooManyFiles});
  others.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  listener.close();
}

TEST(SpawnedWorlds, NotesOfRanksAreReadAndOtherFilesAreIgnored) {
  char name[] = "/tmp/clusterprof-loop-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name), nullptr);
  const std::filesystem::path directory = name;
  EXPECT_TRUE(read_spawn_notes(directory).empty());
  EXPECT_TRUE(read_spawned_worlds(directory).empty());

  std::filesystem::create_directory(directory / wire::kWorldsDirectory);
  const auto make = [&](int rank, wire::SpawnObstacle why) {
    char file[64];
    std::snprintf(file, sizeof file, wire::kSpawnNoteFormat, rank, static_cast<unsigned>(why));
    std::ofstream(directory / wire::kWorldsDirectory / file);
  };
  make(3, wire::SpawnObstacle::kInfo);
  make(-1, wire::SpawnObstacle::kInfo);
  make(4, static_cast<wire::SpawnObstacle>(99));
  std::ofstream(directory / wire::kWorldsDirectory / "something-else");
  const std::vector<shard::Note> notes = read_spawn_notes(directory);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].code, shard::NoteCode::kSpawnedWithInfo);
  EXPECT_EQ(notes[0].first_rank, 3);
  EXPECT_EQ(notes[0].last_rank, 3);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace clusterprof::collector
