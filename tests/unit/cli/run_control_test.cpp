// SPDX-License-Identifier: BSD-3-Clause
#include "formats/run/run_control.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace clusterprof {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNow = 1'800'000'000'000'000'000, kSecond = 1'000'000'000, kLatest = 3 * kSecond;

class RunControl : public ::testing::Test {
 protected:
  RunControl() {
    std::string name = (fs::temp_directory_path() / "clusterprof-control-XXXXXX").string();
    run = ::mkdtemp(name.data());
  }
  ~RunControl() override { fs::remove_all(run); }

  std::string run;
};

TEST(RunControlText, RequestsAndAnswersAreReadAsTheyWereWritten) {
  const ControlRequest request{17, true, kNow, 60 * static_cast<std::uint64_t>(kSecond)};
  EXPECT_EQ(parse_request(text_of(request)), request);
  const ControlRequest stop{18, false, kNow + 1, 0};
  EXPECT_EQ(parse_request(text_of(stop)), stop);
  const ControlAnswer answer{"n1", 17, true, false, 128};
  EXPECT_EQ(parse_answer(text_of(answer), "n1"), answer);
  EXPECT_FALSE(parse_request(text_of(answer)));
  EXPECT_FALSE(parse_answer(text_of(request), "n1"));
}

TEST(RunControlText, WhatIsNoRequestIsNone) {
  const std::string good = text_of(ControlRequest{17, true, kNow, 5});
  ASSERT_TRUE(parse_request(good));
  for (std::size_t length = 0; length < good.size(); ++length)  // half of one
    EXPECT_FALSE(parse_request(good.substr(0, length))) << length;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return parse_request(text);
  };
  EXPECT_FALSE(with("sequence 17", "sequence 0"));
  EXPECT_FALSE(with("sequence 17", "sequence 17x"));
  EXPECT_FALSE(with("sequence 17", "sequence -1"));
  EXPECT_FALSE(with("sequence 17", "sequence 99999999999999999999"));
  EXPECT_FALSE(with("sequence 17", "sequence 17\nsequence 18"));
  EXPECT_FALSE(with("open 1", "open 2"));
  EXPECT_FALSE(with("open 1\n", ""));
  EXPECT_FALSE(with("open 1", "open 1\nmore 1"));
  EXPECT_FALSE(with("lasting_ns 5", "lasting_ns " + std::to_string(kLongestWindow_ns + 1)));
  EXPECT_FALSE(with("at_unix_ns " + std::to_string(kNow), "at_unix_ns 9223372036854775807"));
  EXPECT_FALSE(with("clusterprof-control 1", "clusterprof-control 2"));
}

TEST_F(RunControl, NobodyCanBeAskedBeforeACollectorIsThere) {
  EXPECT_FALSE(read_request(run));
  EXPECT_TRUE(read_answers(run).empty());
  const Result<ControlRequest> asked = write_request(run, {});
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, ErrorKind::kNotFound);
}

TEST_F(RunControl, LaterRequestsHaveLargerNumbers) {
  ASSERT_TRUE(write_answer(run, {"n1", 0, false, false, 0}));
  ASSERT_TRUE(write_answer(run, {"n2", 0, false, false, 0}));
  EXPECT_FALSE(read_request(run));
  std::uint64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    const Result<ControlRequest> asked = write_request(run, {0, i != 1, kNow, 0});
    ASSERT_TRUE(asked);
    EXPECT_GT(asked.value().sequence, before);
    EXPECT_EQ(read_request(run), asked.value());
    before = asked.value().sequence;
  }
  ASSERT_TRUE(write_answer(run, {"n2", before, false, true, 4}));
  const std::vector<ControlAnswer> answers = read_answers(run);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0], (ControlAnswer{"n1", 0, false, false, 0}));
  EXPECT_EQ(answers[1], (ControlAnswer{"n2", before, false, true, 4}));

  withdraw_answer(run, "n1");
  EXPECT_EQ(read_answers(run).size(), 1u);
  EXPECT_TRUE(read_request(run));
  withdraw_answer(run, "n2");
  EXPECT_TRUE(fs::is_empty(run));
}

TEST_F(RunControl, NodesAreAskedToWriteAndAnswerByNumber) {
  EXPECT_EQ(read_control(run).write, 0u);
  EXPECT_TRUE(read_write_answers(run).empty());
  const Result<std::uint64_t> first = request_write(run), second = request_write(run);
  ASSERT_TRUE(first && second);
  EXPECT_GT(second.value(), first.value());
  EXPECT_EQ(read_control(run).write, second.value());
  EXPECT_FALSE(read_control(run).window);  // it is no request for a window
  ASSERT_TRUE(write_answer(run, WriteAnswer{"n2", second.value()}));
  ASSERT_TRUE(write_answer(run, WriteAnswer{"n1", first.value()}));
  EXPECT_EQ(read_write_answers(run),
            (std::vector<WriteAnswer>{{"n1", first.value()}, {"n2", second.value()}}));
  EXPECT_TRUE(read_answers(run).empty());
  withdraw_answer(run, "n1");
  EXPECT_EQ(read_write_answers(run), (std::vector<WriteAnswer>{{"n2", second.value()}}));
  EXPECT_EQ(read_control(run).write, second.value()) << "others may not have seen it yet";
  withdraw_answer(run, "n2");
}

TEST_F(RunControl, AHangIsToldOnce) {
  EXPECT_FALSE(read_control(run).hang);
  ASSERT_TRUE(write_hang_notice(run, {60, false}));
  ASSERT_TRUE(write_hang_notice(run, {90, true}));
  EXPECT_EQ(read_control(run).hang, (HangNotice{60, false}));
  EXPECT_EQ(parse_hang_notice(text_of(HangNotice{90, true})), (HangNotice{90, true}));
  EXPECT_FALSE(parse_hang_notice("clusterprof-control 1\nlasted_s 60\nend_ranks 2\nend\n"));
  EXPECT_FALSE(parse_hang_notice(text_of(ControlRequest{17, true, kNow, 5})));
}

TEST_F(RunControl, OnlyRegularFilesOfThisUserCount) {
  ASSERT_TRUE(write_answer(run, {"n1", 0, false, false, 0}));
  const fs::path request = fs::path(run) / ".control" / "request", other = fs::path(run) / "other";
  std::ofstream(other) << text_of(ControlRequest{5, true, kNow, 0});
  fs::create_symlink(other, request);
  EXPECT_FALSE(read_request(run));
  fs::remove(request);
  ASSERT_EQ(::mkfifo(request.c_str(), 0600), 0);  // does not keep us waiting
  EXPECT_FALSE(read_request(run));
  fs::remove(request);
  fs::rename(other, request);
  EXPECT_TRUE(read_request(run));
  if (::geteuid() != 0) return;
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(request.c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(read_request(run));
}

TEST(ControlScheduleTest, NodesWaitForTheTimeThatWasAskedFor) {
  const ControlRequest request{1, true, kNow + kSecond, 10 * static_cast<std::uint64_t>(kSecond)};
  const ControlSchedule schedule = schedule_of(request, kNow, kLatest, false);
  EXPECT_FALSE(schedule.is_open(kNow + kSecond - 1));
  EXPECT_TRUE(schedule.is_open(kNow + kSecond));
  EXPECT_TRUE(schedule.is_open(kNow + 11 * kSecond - 1));
  EXPECT_FALSE(schedule.is_open(kNow + 11 * kSecond));
}

TEST(ControlScheduleTest, ARequestThatIsSeenLateBeginsThenAndLastsAsLong) {
  const ControlRequest request{1, true, kNow, 10 * static_cast<std::uint64_t>(kSecond)};
  const ControlSchedule schedule = schedule_of(request, kNow + 2 * kSecond, kLatest, false);
  EXPECT_TRUE(schedule.is_open(kNow + 2 * kSecond));
  EXPECT_TRUE(schedule.is_open(kNow + 12 * kSecond - 1));
  EXPECT_FALSE(schedule.is_open(kNow + 12 * kSecond));
}

TEST(ControlScheduleTest, AClockThatIsWrongDelaysNothing) {
  for (const std::int64_t wrong : {-3600 * kSecond, 3600 * kSecond}) {
    const ControlRequest request{1, true, kNow + wrong, 0};
    const ControlSchedule schedule = schedule_of(request, kNow, kLatest, false);
    EXPECT_TRUE(schedule.is_open(kNow + kLatest)) << wrong;
    EXPECT_TRUE(schedule.is_open(kNow + 100'000 * kSecond)) << wrong;
  }
}

TEST(ControlScheduleTest, ACollectorThatStartsLaterDoesWhatIsLeft) {
  const ControlRequest request{1, true, kNow, 60 * static_cast<std::uint64_t>(kSecond)};
  EXPECT_TRUE(schedule_of(request, kNow + 59 * kSecond, kLatest, true).is_open(kNow + 59 * kSecond));
  EXPECT_FALSE(schedule_of(request, kNow + 61 * kSecond, kLatest, true).is_open(kNow + 61 * kSecond));
  EXPECT_TRUE(
      schedule_of({1, true, kNow, 0}, kNow + 3600 * kSecond, kLatest, true).is_open(kNow + 3600 * kSecond));
}

TEST(ControlScheduleTest, ManyNodesLookLessOften) {
  EXPECT_EQ(control_interval_ns(1), kSecond);
  EXPECT_EQ(control_interval_ns(256), kSecond);
  EXPECT_EQ(control_interval_ns(257), 2 * kSecond);
  EXPECT_EQ(control_interval_ns(100'000), 8 * kSecond);
  EXPECT_GT(control_ahead_ns(1000), control_interval_ns(1000));
}

TEST(ControlScheduleTest, StopClosesAtOnce) {
  EXPECT_FALSE(schedule_of({2, false, kNow + kSecond, 0}, kNow, kLatest, false).is_open(kNow));
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST_F(RunControl, WhoWatchesIsSeenWithoutAnybodyHavingMadeTheDirectory) {
  EXPECT_FALSE(read_watch(run));
  EXPECT_FALSE(write_live(run, "n0", bytes_of("x"))) << "nobody watches";
  ASSERT_TRUE(write_watch(run, 1'800'000'000'000'000'000));
  EXPECT_EQ(read_watch(run), 1'800'000'000'000'000'000u);
  ASSERT_TRUE(write_watch(run, 1'800'000'001'000'000'000));
  EXPECT_EQ(read_watch(run), 1'800'000'001'000'000'000u);
  EXPECT_TRUE(read_answers(run).empty()) << "and no node can be asked to start recording";
}

TEST(WatchInterval, AsksAFileServerNoMoreThan64TimesASecondForAJob) {
  constexpr std::int64_t kMinute = 60 * kSecond;
  EXPECT_EQ(watch_interval_ns(1), 5 * kSecond);
  EXPECT_EQ(watch_interval_ns(320), 5 * kSecond);
  EXPECT_EQ(watch_interval_ns(321), 6 * kSecond);
  EXPECT_EQ(watch_interval_ns(2000), 32 * kSecond);
  EXPECT_EQ(watch_interval_ns(100'000), kMinute);
}

TEST_F(RunControl, AWatcherLeavesNothingBehind) {
  ASSERT_TRUE(write_watch(run, 1));
  ASSERT_TRUE(write_live(run, "n0", bytes_of("x")));
  end_watch(run);
  EXPECT_FALSE(read_watch(run));
  EXPECT_EQ(live_nodes(run).size(), 1u) << "a node that is still running";
  withdraw_live(run, "n0");
  EXPECT_FALSE(fs::exists(fs::path(run) / ".control"));
  ASSERT_TRUE(write_watch(run, 2));
  end_watch(run);
  EXPECT_FALSE(fs::exists(fs::path(run) / ".control"));
}

TEST_F(RunControl, HalfOfANumberIsNone) {
  ASSERT_TRUE(write_watch(run, 12345));
  const fs::path watch = fs::path(run) / ".control" / "watch";
  fs::resize_file(watch, fs::file_size(watch) - 6);
  EXPECT_FALSE(read_watch(run));
}

TEST_F(RunControl, ALiveFileIsRewrittenInPlace) {
  ASSERT_TRUE(write_watch(run, 1));
  ASSERT_TRUE(write_live(run, "n0", bytes_of("a longer text")));
  struct stat before = {}, after = {};
  const std::string file = run + "/.control/live-n0";
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  ASSERT_TRUE(write_live(run, "n0", bytes_of("short")));
  ASSERT_EQ(::stat(file.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(before.st_mode & 0777, 0600u);
  EXPECT_EQ(read_live(run, "n0"), bytes_of("shortger text"));
  ASSERT_TRUE(write_live(run, "n1", bytes_of("y")));
  EXPECT_EQ(live_nodes(run), (std::vector<std::string>{"n0", "n1"}));
  EXPECT_FALSE(read_live(run, "n2"));
}

TEST_F(RunControl, TheLastNodeRemovesTheDirectory) {
  ASSERT_TRUE(write_watch(run, 1));
  ASSERT_TRUE(write_live(run, "n0", bytes_of("x")));
  ASSERT_TRUE(write_live(run, "n1", bytes_of("y")));
  ASSERT_TRUE(write_answer(run, {"n1", 0, false, false, 0}));
  withdraw_live(run, "n0");
  EXPECT_EQ(live_nodes(run), std::vector<std::string>{"n1"});
  withdraw_live(run, "n1");
  EXPECT_EQ(read_answers(run).size(), 1u) << "it can still be asked to start recording";
  withdraw_answer(run, "n1");
  EXPECT_FALSE(fs::exists(fs::path(run) / ".control"));
}

TEST_F(RunControl, NoFileWithAnotherNameIsWritten) {
  ASSERT_TRUE(write_watch(run, 1));
  const fs::path other = fs::path(run) / "other", watch = fs::path(run) / ".control" / "watch";
  std::ofstream(other) << "a long text of somebody, longer than what is written to the other file";
  fs::remove(watch);
  fs::create_hard_link(other, watch);
  const auto bytes = fs::file_size(other);
  EXPECT_FALSE(write_watch(run, 2));
  EXPECT_FALSE(read_watch(run));
  EXPECT_EQ(fs::file_size(other), bytes);
  fs::create_hard_link(other, fs::path(run) / ".control" / "live-n0");
  EXPECT_FALSE(write_live(run, "n0", bytes_of("x")));
  std::string text;
  std::getline(std::ifstream(other), text);
  EXPECT_TRUE(text.starts_with("a long text"));
}

// So that nothing of root's can be put in the way, and so that the user's collectors can read it.
TEST_F(RunControl, RootWritesAsTheUserOfTheRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root";
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(::chown(run.c_str(), kNobody, kNobody), 0);
  const auto owner_of = [&](const std::string& name) {
    struct stat status = {};
    return ::lstat((run + "/" + name).c_str(), &status) == 0 ? static_cast<int>(status.st_uid) : -1;
  };
  ASSERT_TRUE(request_write(run));
  ASSERT_TRUE(write_request(run, {0, true, kNow, 0}));
  ASSERT_TRUE(write_watch(run, 1));
  for (const char* const name : {".control", ".control/write", ".control/request", ".control/watch"})
    EXPECT_EQ(owner_of(name), static_cast<int>(kNobody)) << name;
  std::ofstream(run + "/mine") << "root is root again";
  EXPECT_EQ(owner_of("mine"), 0);

  // What the user may not open, root does not open for the user.
  const fs::path secret = fs::path(run) / "secret", watch = fs::path(run) / ".control" / "watch";
  std::ofstream(secret) << "a text of root, longer than what is written to the other file, and more";
  ASSERT_EQ(::chmod(secret.c_str(), 0600), 0);
  fs::rename(secret, watch);
  const auto bytes = fs::file_size(watch);
  EXPECT_FALSE(write_watch(run, 2));
  EXPECT_EQ(owner_of(".control/watch"), 0);
  EXPECT_EQ(fs::file_size(watch), bytes);
  fs::remove_all(run + "/.control");
  fs::create_directory(run + "/.control");
  std::ofstream(watch) << "in a directory of root";
  end_watch(run);
  EXPECT_TRUE(fs::exists(watch));
}

TEST_F(RunControl, NoLiveFileIsReadThroughALink) {
  ASSERT_TRUE(write_watch(run, 1));
  fs::create_symlink("/etc/hostname", fs::path(run) / ".control" / "live-n0");
  EXPECT_FALSE(read_live(run, "n0"));
  EXPECT_FALSE(write_live(run, "n0", bytes_of("x")));
}

}  // namespace
}  // namespace clusterprof
