// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/clock_rendezvous.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace clusterprof::mpi_wrap {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::ptrdiff_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

class ClockRendezvousTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-clocks-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    clocks_ = directory_ / ".clocks";  // made when it is needed
    elsewhere_ = directory_ / "elsewhere";
    fs::create_directory(elsewhere_);
    open_before_ = open_files();
  }
  void TearDown() override {
    EXPECT_EQ(open_files(), open_before_);
    unsetenv("OMPI_COMM_WORLD_RANK");
    fs::remove_all(directory_);
  }

  bool offer(ClockRendezvous& rendezvous, int rank) const {
    setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    return rendezvous.offer(clocks_.c_str(), 7);
  }

  fs::path directory_, clocks_, elsewhere_;
  std::ptrdiff_t open_before_ = 0;
};

TEST_F(ClockRendezvousTest, BothRanksAgreeWhoTakesPart) {
  ClockRendezvous zero, one, late;
  ASSERT_TRUE(offer(zero, 0));
  ASSERT_TRUE(offer(one, 1));
  EXPECT_EQ(zero.rank(), 0);
  EXPECT_TRUE(zero.takes_part(1));
  EXPECT_TRUE(one.takes_part(0));
  EXPECT_FALSE(zero.takes_part(2));
  EXPECT_FALSE(offer(late, 2));
  EXPECT_FALSE(one.takes_part(2));
  zero.leave();
  one.leave();
  EXPECT_EQ(names_in(clocks_), std::vector<std::string>{"2"});
  zero.end();
  one.end();
  EXPECT_TRUE(fs::is_empty(clocks_));
}

// Threads of ranks that have sessions alone may make different communicators of all ranks first.
TEST_F(ClockRendezvousTest, RanksMeetForTheSameExchangeOnly) {
  ClockRendezvous ranks[4];
  const std::uint64_t occasions[] = {77, 77, 78, 0};
  for (int rank = 0; rank < 4; ++rank) {
    setenv("OMPI_COMM_WORLD_RANK", std::to_string(rank).c_str(), 1);
    ASSERT_TRUE(ranks[rank].learn_rank());
    setenv("OMPI_COMM_WORLD_RANK", "99", 1);  // the library has changed it
    ASSERT_TRUE(ranks[rank].offer(clocks_.c_str(), 7, occasions[rank]));
  }
  for (int asking = 0; asking < 4; ++asking)
    for (int asked = 0; asked < 4; ++asked)
      EXPECT_EQ(ranks[asking].takes_part(asked), occasions[asking] == occasions[asked]) << asking << asked;
  for (ClockRendezvous& rank : ranks) rank.leave();
  for (ClockRendezvous& rank : ranks) rank.end();
  EXPECT_TRUE(fs::is_empty(clocks_));
}

// Where the group may write into the run directory.
TEST_F(ClockRendezvousTest, RefusesDirectoryThatIsALink) {
  fs::create_directory_symlink(elsewhere_, clocks_);
  ClockRendezvous rendezvous;
  EXPECT_FALSE(offer(rendezvous, 0));
  EXPECT_TRUE(fs::is_empty(elsewhere_));
}

TEST_F(ClockRendezvousTest, RefusesDirectoryOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make it somebody else's";
  fs::create_directory(clocks_);
  ASSERT_EQ(chown(clocks_.c_str(), 1, 1), 0);
  ClockRendezvous rendezvous;
  EXPECT_FALSE(offer(rendezvous, 0));
  EXPECT_TRUE(fs::is_empty(clocks_));
}

// A file server that does not trust root gives all of root's files another owner.
TEST_F(ClockRendezvousTest, AcceptsDirectoryWhereTheServerChangesOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root is somebody else";
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  ClockRendezvous zero, one;
  setfsuid(1);
  const bool offered = offer(zero, 0) && offer(one, 1);
  const bool met = zero.takes_part(1) && one.takes_part(0);
  zero.leave();
  one.leave();
  setfsuid(0);
  EXPECT_TRUE(offered);
  EXPECT_TRUE(met);
  EXPECT_TRUE(fs::is_empty(clocks_));
}

TEST_F(ClockRendezvousTest, KeepsItsDirectoryWhenThePathIsReplaced) {
  std::ofstream(elsewhere_ / "0") << "precious";
  ClockRendezvous zero, one;
  ASSERT_TRUE(offer(zero, 0));
  ASSERT_TRUE(offer(one, 1));
  fs::rename(clocks_, directory_ / "moved");
  fs::create_directory_symlink(elsewhere_, clocks_);
  EXPECT_TRUE(zero.takes_part(1));
  EXPECT_TRUE(one.takes_part(0));
  EXPECT_FALSE(zero.takes_part(2));
  zero.leave();
  one.leave();
  zero.end();
  EXPECT_EQ(names_in(elsewhere_), std::vector<std::string>{"0"});
  EXPECT_EQ(names_in(directory_ / "moved"), std::vector<std::string>{"2"});
  // Nor is anything removed that it has not made, where the directory is ours as well.
  ClockRendezvous again;
  fs::remove(clocks_);
  ASSERT_TRUE(offer(again, 0));
  EXPECT_FALSE(again.takes_part(1));
  again.leave();
  fs::remove_all(clocks_);
  fs::create_directory(clocks_);
  fs::create_symlink("mine", clocks_ / "1");
  again.end();
  EXPECT_EQ(names_in(clocks_), std::vector<std::string>{"1"});
}

TEST_F(ClockRendezvousTest, LeavesDescriptorAloneThatTheProgramHasReused) {
  ClockRendezvous zero, one;
  ASSERT_TRUE(offer(one, 1));
  const int next = dup(0);
  ASSERT_EQ(close(next), 0);
  ASSERT_TRUE(offer(zero, 0));
  ASSERT_EQ(close(next), 0);  // as closefrom() would
  EXPECT_TRUE(zero.takes_part(1));
  const int programs = open(elsewhere_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(programs, next);
  EXPECT_TRUE(zero.takes_part(1));
  EXPECT_FALSE(zero.takes_part(2));
  zero.leave();
  zero.end();
  one.leave();
  EXPECT_TRUE(fs::is_empty(elsewhere_));
  EXPECT_TRUE(fs::is_empty(clocks_));
  EXPECT_EQ(close(programs), 0);  // still the program's
}

}  // namespace
}  // namespace clusterprof::mpi_wrap
