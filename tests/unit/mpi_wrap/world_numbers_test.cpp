// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/world_numbers.hpp"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace clusterprof::mpi_wrap {
namespace {

class WorldNumbers : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-worlds-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    worlds_ = directory_ + "/.worlds";  // made when it is needed
    all_.assign_regular(0, 1, 4);
    one_.assign_regular(2, 1, 1);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  NewWorld make(const SpawnCall& call, std::int32_t size) const {
    return make_world(worlds_.c_str(), 0, 4, call, size);
  }

  std::string directory_, worlds_;
  RankMap all_{}, one_{};
};

TEST_F(WorldNumbers, FollowThoseOfTheFirstWorld) {
  const SpawnCall first{1, 0, &all_}, second{1, 1, &all_}, alone{2, 0, &one_};
  EXPECT_EQ(make(first, 3).first, 4);
  EXPECT_EQ(make(second, 2).first, 7);
  const NewWorld third = make(alone, 1);
  EXPECT_EQ(third.first, 9);
  EXPECT_EQ(third.number, 3);
  // The other callers find their world. A call of a single process has no other callers, so its name may be
  // reused.
  EXPECT_EQ(find_world(worlds_.c_str(), second).first, 7);
  EXPECT_EQ(find_world(worlds_.c_str(), second).number, 2);
  EXPECT_EQ(find_world(worlds_.c_str(), alone).number, 0);
  EXPECT_EQ(find_world(worlds_.c_str(), {1, 2, &all_}).number, 0);
  // A root that is spawned itself needs no size.
  EXPECT_EQ(make_world(worlds_.c_str(), 2, 0, {5, 0, &one_}, 4).first, 10);
}

TEST_F(WorldNumbers, ThatWereGivenBackAreUsedAgain) {
  const SpawnCall call{1, 0, &all_};
  const NewWorld failed = make(call, 3);
  withdraw_world(worlds_.c_str(), call, failed);
  EXPECT_EQ(find_world(worlds_.c_str(), call).number, 0);
  const NewWorld again = make(call, 2);
  EXPECT_EQ(again.number, 1);
  EXPECT_EQ(again.first, 4);
  // Not when later ones are taken.
  EXPECT_EQ(make({2, 0, &one_}, 1).first, 6);
  withdraw_world(worlds_.c_str(), call, again);
  EXPECT_EQ(make({2, 0, &one_}, 1).first, 7);
}

TEST_F(WorldNumbers, CallThatSpawnsNothingReplacesAnEarlierOneOfTheSameName) {
  const SpawnCall call{1, 0, &all_};
  make(call, 3);
  forget_call(worlds_.c_str(), call);
  EXPECT_EQ(find_world(worlds_.c_str(), call).number, 0);
  make({1, 1, &all_}, 1);
  EXPECT_EQ(make({1, 1, &all_}, 2).first, 8);
  EXPECT_EQ(find_world(worlds_.c_str(), {1, 1, &all_}).first, 8);
}

TEST_F(WorldNumbers, CallersAreKept) {
  RankMap irregular{}, back{};
  const std::int32_t ranks[] = {3, 0, 2, -1};
  ASSERT_TRUE(irregular.assign(ranks, 4));
  RankMap downwards{};
  downwards.assign_regular(3, -1, 4);
  const std::vector<std::pair<const RankMap*, std::vector<std::int32_t>>> cases = {
      {&all_, {0, 1, 2, 3}}, {&one_, {2}}, {&irregular, {3, 0, 2, -1}}, {&downwards, {3, 2, 1, 0}}};
  std::uint64_t identity = 20;
  for (const auto& [callers, expected] : cases) {
    const NewWorld made = make({identity++, 0, callers}, 1);
    ASSERT_TRUE(read_callers(worlds_.c_str(), made.number, back));
    ASSERT_EQ(back.size(), static_cast<std::int32_t>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(back.world_rank(static_cast<std::int32_t>(i)), expected[i]);
  }
  EXPECT_FALSE(read_callers(worlds_.c_str(), 99, back));
  back.clear();
  irregular.clear();
}

// Where the group may write into the run directory.
TEST_F(WorldNumbers, IgnoreFilesOfOtherUsers) {
  namespace fs = std::filesystem;
  RankMap irregular{}, back{};
  const std::int32_t ranks[] = {3, 0, 2, -1};
  ASSERT_TRUE(irregular.assign(ranks, 4));
  const std::string victim = directory_ + "/victim", place = directory_ + "/place";
  const auto is_unharmed = [&] { return fs::file_size(victim) == 8 && fs::is_empty(place); };
  std::ofstream(victim) << "precious";
  fs::create_directory(place);

  // In their place, whatever they have called it.
  const SpawnCall call{1, 0, &irregular}, regular{2, 0, &all_};
  fs::create_symlink(place, worlds_);
  EXPECT_EQ(make(call, 1).number, 0);
  note_unrecorded(worlds_.c_str(), 0, wire::SpawnObstacle::kInfo);
  EXPECT_TRUE(is_unharmed());
  fs::remove(worlds_);
  if (geteuid() == 0) {
    fs::create_directory(worlds_);
    ASSERT_EQ(chown(worlds_.c_str(), 1, 1), 0);
    EXPECT_EQ(make(call, 1).number, 0);
    note_unrecorded(worlds_.c_str(), 0, wire::SpawnObstacle::kInfo);
    EXPECT_TRUE(fs::is_empty(worlds_));
    fs::create_symlink("4+1 0+1*4", worlds_ + "/1");
    fs::create_symlink("1", worlds_ + "/0000000000000002.0");
    EXPECT_EQ(find_world(worlds_.c_str(), regular).number, 0);
    EXPECT_FALSE(read_callers(worlds_.c_str(), 1, back));
    fs::remove_all(worlds_);
  }

  // And in the place that is ours.
  fs::create_directory(worlds_);
  fs::create_symlink(victim, worlds_ + "/1.callers");
  ASSERT_EQ(mkfifo((worlds_ + "/2.callers").c_str(), 0600), 0);
  EXPECT_EQ(make(call, 1).number, 1);
  EXPECT_EQ(make({1, 1, &irregular}, 1).number, 2);
  EXPECT_TRUE(is_unharmed());
  ASSERT_TRUE(read_callers(worlds_.c_str(), 2, back));
  EXPECT_EQ(back.world_rank(0), 3);
  fs::remove(worlds_ + "/2.callers");
  ASSERT_EQ(mkfifo((worlds_ + "/2.callers").c_str(), 0600), 0);
  EXPECT_FALSE(read_callers(worlds_.c_str(), 2, back));
  fs::remove(worlds_ + "/lock");
  fs::create_symlink(directory_ + "/made", worlds_ + "/lock");
  EXPECT_EQ(make(regular, 1).number, 0);
  EXPECT_FALSE(fs::exists(directory_ + "/made"));
  fs::remove(worlds_ + "/lock");
  ASSERT_EQ(mkfifo((worlds_ + "/lock").c_str(), 0600), 0);
  EXPECT_EQ(make(regular, 1).number, 0);
  back.clear();
  irregular.clear();
}

// A file server that does not trust root gives all of root's files another owner.
TEST_F(WorldNumbers, AreGivenOutWhereTheServerChangesOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root is somebody else";
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  setfsuid(1);
  const NewWorld first = make({1, 0, &all_}, 1), second = make({1, 1, &all_}, 1);
  setfsuid(0);
  EXPECT_EQ(first.number, 1);
  EXPECT_EQ(second.number, 2);
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(worlds_)) ++entries;
  EXPECT_EQ(entries, 5);  // two a world, and the lock
}

TEST_F(WorldNumbers, AreUniqueForManyCallersAtATime) {
  constexpr int kProcesses = 8, kEach = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const SpawnCall call{static_cast<std::uint64_t>(100 + p), i, &all_};
        const NewWorld made = make(call, p + 1);
        if (made.number == 0) _exit(1);
        if (i % 5 == 4) withdraw_world(worlds_.c_str(), call, made);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  // Without gaps, whatever was taken back in between.
  std::int32_t next = 4;
  int count = 0;
  wire::SpawnedWorld world{};
  for (; wire::read_spawned_world(worlds_.c_str(), count + 1, world); ++count) {
    EXPECT_EQ(world.first, next);
    next += world.size;
  }
  EXPECT_GE(count, kProcesses * kEach * 4 / 5);
  std::map<std::int32_t, int> uses;
  for (int p = 0; p < kProcesses; ++p) {
    for (std::uint32_t i = 0; i < kEach; ++i) {
      const NewWorld found = find_world(worlds_.c_str(), {static_cast<std::uint64_t>(100 + p), i, &all_});
      EXPECT_EQ(found.number != 0, i % 5 != 4);
      if (found.number != 0) ++uses[found.first];
    }
  }
  EXPECT_EQ(uses.size(), static_cast<std::size_t>(kProcesses * kEach * 4 / 5));
}

TEST_F(WorldNumbers, RefuseInvalidCallsAndFiles) {
  const SpawnCall call{1, 0, &all_};
  EXPECT_EQ(make(call, 0).number, 0);
  EXPECT_EQ(make(call, wire::kMaxRunRanks).number, 0);
  EXPECT_EQ(make_world(worlds_.c_str(), 3, 0, call, 1).number, 0);  // its own world is not there
  EXPECT_EQ(make_world("/proc/nowhere/.worlds", 0, 4, call, 1).number, 0);
  wire::SpawnedWorld world{};
  for (const char* text : {"", "1", "1+", "1+2", "1+0 @", "-1+2 @", "1+2 @x", "1+2 0+1", "1+2 0+1*0",
                           "1+2 0+1*2x", "99999999+1 @", "16777215+2 @", "1 +2 @", "a+2 @"}) {
    EXPECT_FALSE(wire::parse_spawned_world(text, world)) << text;
  }
  EXPECT_TRUE(wire::parse_spawned_world("2+3 1+-1*2", world));
  EXPECT_EQ(world.caller_stride, -1);
}

TEST_F(WorldNumbers, NotesAreOnePerRankAndKind) {
  note_unrecorded(worlds_.c_str(), 3, wire::SpawnObstacle::kInfo);
  note_unrecorded(worlds_.c_str(), 3, wire::SpawnObstacle::kInfo);
  note_unrecorded(worlds_.c_str(), 4, wire::SpawnObstacle::kInfo);
  std::set<std::string> notes;
  for (const auto& entry : std::filesystem::directory_iterator(worlds_))
    notes.insert(entry.path().filename().string());
  EXPECT_EQ(notes, (std::set<std::string>{"note-3-3", "note-4-3"}));
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
