// SPDX-License-Identifier: BSD-3-Clause
#include "formats/run/run_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include "base/shared_directory.hpp"
#include "cli/identity.hpp"
#include "tests/support/meanwhile.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

class RunDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-run-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = fs::canonical(name);
  }
  void TearDown() override { fs::remove_all(root_); }

  static Identity rank_of(const std::string& key) {
    Identity identity;
    identity.rank = 0;
    identity.world_size = 4;
    identity.key = key;
    identity.has_peers = true;
    return identity;
  }
  [[nodiscard]] RunDirectoryRequest chosen() const { return {"", root_, "train"}; }
  [[nodiscard]] RunDirectoryRequest given(const std::string& name) const {
    return {root_ + "/" + name, "", "train"};
  }
  [[nodiscard]] std::set<std::string> entries() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_)) names.insert(entry.path().filename());
    return names;
  }

  // The key that a directory's link says, without the secret behind it.
  static std::string owner_of(const std::string& path) {
    const std::string target = fs::read_symlink(path + "/.run");
    return target.substr(0, target.rfind('#'));
  }

  std::string root_;
};

TEST_F(RunDirectoryTest, RanksOfARunShareASecretThatOtherRunsDoNotHave) {
  const auto first = agree_on_run_directory(chosen(), rank_of("a#b"));
  const auto second = agree_on_run_directory(chosen(), rank_of("a#b"));
  const auto other = agree_on_run_directory(chosen(), rank_of("a"));
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(first.value().path, second.value().path);
  EXPECT_EQ(first.value().secret, second.value().secret);
  EXPECT_NE(first.value().secret, other.value().secret);
  EXPECT_NE(first.value().secret, HashKey{});
  const auto into = agree_on_run_directory(given("run"), rank_of("a"));
  ASSERT_TRUE(into.ok());
  EXPECT_EQ(agree_on_run_directory(given("run"), rank_of("a")).value().secret, into.value().secret);
}

// The vectors of the authors' reference code: key 00 01 .. 0f, text 00 01 02 ...
TEST(KeyedHash, IsSipHash) {
  HashKey key{};
  std::string text;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
  for (char c = 0; c < 15; ++c) text += c;
  EXPECT_EQ(keyed_hash(key, ""), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(keyed_hash(key, text.substr(0, 1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(keyed_hash(key, text.substr(0, 8)), 0x93f5f5799a932462u);
  EXPECT_EQ(keyed_hash(key, text), 0xa129ca6149be45e5u);
}

TEST_F(RunDirectoryTest, RanksOfOneJobAgree) {
  const auto first = agree_on_run_directory(chosen(), rank_of("a"));
  const auto second = agree_on_run_directory({"", root_, "other"}, rank_of("a"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first.value().path, second.value().path);
  EXPECT_TRUE(first.value().created);
  EXPECT_FALSE(second.value().created);
  EXPECT_EQ(fs::path(first.value().path).filename().string().rfind("clusterprof-train-2", 0), 0u);
}

// A name that is taken fails no rank that a launcher has started. All of its ranks come to the next name.
TEST_F(RunDirectoryTest, RanksOfALauncherUseTheNextNameWhereOneIsTaken) {
  ASSERT_TRUE(agree_on_run_directory(given("run"), rank_of("before")).ok());
  fs::create_directory(root_ + "/run-2");
  std::ofstream(root_ + "/run-2/data") << "x";
  std::ofstream(root_ + "/run-3") << "a file";
  Identity job = rank_of("a");
  EXPECT_FALSE(agree_on_run_directory(given("run"), job).ok());  // a command without a launcher
  job.launched = true;
  bool refused = false;
  for (int rank = 0; rank < 2; ++rank) {
    const auto met = agree_on_run_directory(given("run"), job, &refused);
    ASSERT_TRUE(met.ok()) << met.error().message;
    EXPECT_FALSE(refused);
    EXPECT_EQ(met.value().path, root_ + "/run-4");
    EXPECT_EQ(met.value().created, rank == 0);
    EXPECT_NE(met.value().taken.find("run: a run is there already"), std::string::npos) << met.value().taken;
  }
  EXPECT_EQ(owner_of(root_ + "/run-4"), "a");
  const auto beside_file = agree_on_run_directory(given("run-3"), job, &refused);
  ASSERT_TRUE(beside_file.ok()) << beside_file.error().message;
  EXPECT_EQ(beside_file.value().path, root_ + "/run-3-2");
  // What is no name of a directory is a mistake, whoever makes it.
  EXPECT_FALSE(agree_on_run_directory(given("run-3/x"), job, &refused).ok());
  EXPECT_TRUE(refused);
}

// Elastic launchers start ranks again, and each start has the numbers behind those of the one before.
TEST_F(RunDirectoryTest, RanksThatComeAgainAreOfTheNextStart) {
  const auto made = agree_on_run_directory(given("run"), rank_of("a"));
  ASSERT_TRUE(made.ok());
  const auto join = [&](std::uint64_t launch, int rank, int size) {
    const auto start = join_start(made.value(), launch, rank, size);
    EXPECT_TRUE(start.ok()) << start.error().message;
    return std::pair(start.value().restart, start.value().first_rank);
  };
  EXPECT_EQ(join(7, 1, 4), std::pair(0, 0));
  EXPECT_EQ(join(7, 0, 4), std::pair(0, 0));
  EXPECT_EQ(join(8, 1, 4), std::pair(1, 4));  // the launcher says that it is another start
  EXPECT_EQ(join(8, 0, 4), std::pair(1, 4));
  EXPECT_EQ(join(8, 0, 4), std::pair(2, 8));  // it does not say so
  EXPECT_EQ(join(8, 2, 4), std::pair(1, 4));
  EXPECT_EQ(join(9, 0, 3), std::pair(3, 12));  // with fewer ranks
  EXPECT_EQ(join(10, 0, 4), std::pair(4, 15));
  fs::remove(root_ + "/run/.starts/0");
  fs::create_symlink("nonsense", root_ + "/run/.starts/0");
  EXPECT_FALSE(join_start(made.value(), 8, 3, 4).ok());
}

// In /tmp, all names can be predicted, except the key of a job that has a secret.
TEST_F(RunDirectoryTest, EntriesPlantedByOthersAreSkipped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  ASSERT_EQ(::mkdir((root_ + "/theirs").c_str(), 0777), 0);
  fs::create_symlink("a", root_ + "/theirs/.run");
  fs::create_symlink("theirs", root_ + "/.clusterprof-a");
  fs::create_symlink(root_, root_ + "/linked");
  ASSERT_EQ(::mkdir((root_ + "/clusterprof-train-12.0").c_str(), 0777), 0);
  for (const char* name : {"theirs", ".clusterprof-a", "linked", "clusterprof-train-12.0"})
    ASSERT_EQ(::lchown((root_ + "/" + name).c_str(), 1, 1), 0);
  Identity job = rank_of("a");
  job.batch_name = "12.0";
  for (int rank = 0; rank < 2; ++rank) {
    const auto met = agree_on_run_directory(chosen(), job);
    ASSERT_TRUE(met.ok()) << met.error().message;
    EXPECT_EQ(met.value().path, root_ + "/clusterprof-train-12.0-2");
    EXPECT_EQ(met.value().rendezvous_link, root_ + "/.clusterprof-a-2");
  }
  for (const char* name : {"theirs", "linked"}) {
    const auto refused = agree_on_run_directory(given(name), job);
    ASSERT_FALSE(refused.ok()) << name;
    EXPECT_NE(refused.error().message.find("another user"), std::string::npos) << refused.error().message;
  }
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  EXPECT_TRUE(agree_on_run_directory(given("theirs"), job).ok());
}

// The owner of a directory can change between two looks.
TEST_F(RunDirectoryTest, EntriesMovedIntoPlaceByOthersAreSkipped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  const std::string theirs = root_ + "/clusterprof-train-12.0", aside = root_ + "/aside";
  ASSERT_EQ(::mkdir(theirs.c_str(), 0777), 0);
  ASSERT_EQ(::chown(theirs.c_str(), 1, 1), 0);
  Identity job = rank_of("a");
  job.batch_name = "12.0";
  const Meanwhile moved(
      "clusterprof-train-12.0", [&] { fs::rename(theirs, aside); }, [&] { fs::rename(aside, theirs); });
  const auto met = agree_on_run_directory(chosen(), job);
  ASSERT_TRUE(met.ok()) << met.error().message;
  EXPECT_TRUE(moved.happened());
  EXPECT_EQ(met.value().path, root_ + "/clusterprof-train-12.0-2");
  EXPECT_TRUE(fs::is_empty(theirs));
}

TEST_F(RunDirectoryTest, LinksThatOthersMakeAndRemoveAreSkipped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  const std::string theirs = root_ + "/theirs", link = root_ + "/.clusterprof-a";
  ASSERT_EQ(::mkdir(theirs.c_str(), 0777), 0);
  fs::create_symlink("a", theirs + "/.run");
  fs::create_symlink("theirs", link);
  const Meanwhile gone(".clusterprof-a", {}, [&] { fs::remove(link); });
  for (const std::string& path : {theirs, theirs + "/.run", link}) ASSERT_EQ(::lchown(path.c_str(), 1, 1), 0);
  const auto met = agree_on_run_directory(chosen(), rank_of("a"));
  ASSERT_TRUE(met.ok()) << met.error().message;
  EXPECT_TRUE(gone.happened());
  EXPECT_NE(met.value().path, theirs);
}

// The link says nothing of whose the directory is that has the name now.
TEST_F(RunDirectoryTest, RefusesLinksToDirectoriesOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  const std::string theirs = root_ + "/theirs";
  ASSERT_EQ(::mkdir(theirs.c_str(), 0777), 0);
  fs::create_symlink("a", theirs + "/.run");
  fs::create_symlink("theirs", root_ + "/.clusterprof-a");
  for (const std::string& path : {theirs, theirs + "/.run"}) ASSERT_EQ(::lchown(path.c_str(), 1, 1), 0);
  const auto met = agree_on_run_directory(chosen(), rank_of("a"));
  ASSERT_TRUE(met.ok()) << met.error().message;
  EXPECT_NE(met.value().path, theirs);
}

TEST_F(RunDirectoryTest, RefusesDirectoriesBelowThoseOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string scratch = root_ + "/scratch", theirs = scratch + "/alice";
  fs::create_directories(theirs);
  ASSERT_EQ(::chmod(scratch.c_str(), 01777), 0);
  ASSERT_EQ(::chmod(theirs.c_str(), 0777), 0);
  ASSERT_EQ(::chown(theirs.c_str(), 1, 1), 0);
  bool refused = false;
  const auto given_one = agree_on_run_directory({theirs + "/run", "", "train"}, rank_of("a"), &refused);
  ASSERT_FALSE(given_one.ok());
  EXPECT_TRUE(refused);
  EXPECT_EQ(given_one.error().message,
            theirs + ": belongs to another user, where everybody may write; choose another -o");
  refused = false;
  for (const std::string& root : {theirs, theirs + "/clusterprof"}) {
    const auto chosen_one = agree_on_run_directory({"", root, "train"}, rank_of("a"), &refused);
    ASSERT_FALSE(chosen_one.ok());
    EXPECT_EQ(chosen_one.error().message, theirs + ": belongs to another user, where everybody may write");
  }
  EXPECT_FALSE(refused);
  EXPECT_TRUE(fs::is_empty(theirs));
  // Where not everybody may write, who owns what is above has been allowed to.
  ASSERT_EQ(::chmod(scratch.c_str(), 0775), 0);
  EXPECT_TRUE(agree_on_run_directory({theirs + "/run", "", "train"}, rank_of("a")).ok());
}

// The program runs there, so that it is recorded there, but not into what they have prepared.
TEST_F(RunDirectoryTest, AcceptsACurrentDirectoryOfOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string theirs = root_ + "/shared/theirs";
  fs::create_directories(theirs + "/clusterprof-train-12.0");
  fs::create_symlink("clusterprof-train-12.0", theirs + "/.clusterprof-a");
  fs::create_symlink("a", theirs + "/clusterprof-train-12.0/.run");
  for (const char* name : {"", "/clusterprof-train-12.0", "/clusterprof-train-12.0/.run", "/.clusterprof-a"})
    ASSERT_EQ(::lchown((theirs + name).c_str(), 1, 1), 0);
  ASSERT_EQ(::chmod((root_ + "/shared").c_str(), 01777), 0);
  Identity job = rank_of("a");
  job.batch_name = "12.0";
  const fs::path before = fs::current_path();
  fs::current_path(theirs);
  const auto chosen_one = agree_on_run_directory({"", "", "train"}, job);
  const auto given_one = agree_on_run_directory({"run", "", "train"}, job);
  const auto refused = agree_on_run_directory({"clusterprof-train-12.0", "", "train"}, job);
  fs::current_path(before);
  ASSERT_TRUE(chosen_one.ok() && given_one.ok());
  EXPECT_EQ(chosen_one.value().path, theirs + "/clusterprof-train-12.0-2");
  EXPECT_EQ(given_one.value().path, theirs + "/run");
  EXPECT_FALSE(refused.ok());
}

// A file server that does not trust root makes all it does somebody else's.
TEST_F(RunDirectoryTest, RanksAgreeWhereTheServerChangesOwners) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root is somebody else";
  ASSERT_EQ(::chmod(root_.c_str(), 01777), 0);
  ::setfsuid(1);
  Identity job = rank_of("a");
  job.batch_name = "12.0";
  for (int rank = 0; rank < 2; ++rank) {
    const auto met = agree_on_run_directory(chosen(), job);
    EXPECT_TRUE(met.ok() && met.value().path == root_ + "/clusterprof-train-12.0");
  }
  ::setfsuid(0);
  EXPECT_EQ(entries(), (std::set<std::string>{".clusterprof-a", "clusterprof-train-12.0"}));
  struct stat status {};
  ASSERT_EQ(::stat((root_ + "/clusterprof-train-12.0").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1u);
}

TEST_F(RunDirectoryTest, IsReadableByItsOwnerAlone) {
  const mode_t before = ::umask(0);
  const auto made = agree_on_run_directory(given("deep/run"), rank_of("a"));
  ::umask(before);
  ASSERT_TRUE(made.ok());
  struct stat run {
  }, above{};
  ASSERT_EQ(::stat(made.value().path.c_str(), &run), 0);
  EXPECT_EQ(run.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((root_ + "/deep").c_str(), &above), 0);
  EXPECT_EQ(above.st_mode & 0777, 0775u);
}

TEST_F(RunDirectoryTest, JobsDoNotShareADirectory) {
  const auto first = agree_on_run_directory(chosen(), rank_of("a"));
  const auto second = agree_on_run_directory(chosen(), rank_of("b"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value().path, second.value().path);
}

TEST_F(RunDirectoryTest, BatchNamesAreUsedAndNumberedWhenTaken) {
  Identity task = rank_of("a");
  task.batch_name = "12.0";
  EXPECT_EQ(agree_on_run_directory(chosen(), task).value().path, root_ + "/clusterprof-train-12.0");
  task.key = "requeued";
  EXPECT_EQ(agree_on_run_directory(chosen(), task).value().path, root_ + "/clusterprof-train-12.0-2");
  task.key = "b";
  std::ofstream(root_ + "/clusterprof-train-12.0-3") << "a file";
  EXPECT_EQ(agree_on_run_directory(chosen(), task).value().path, root_ + "/clusterprof-train-12.0-4");
}

TEST_F(RunDirectoryTest, PlainRunsLeaveNoLink) {
  Identity plain = rank_of("a");
  plain.has_peers = false;
  const auto directory = agree_on_run_directory(chosen(), plain);
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_TRUE(directory.value().rendezvous_link.empty());
}

TEST_F(RunDirectoryTest, RendezvousLinkIsRemovedAndDirectoryStays) {
  const auto directory = agree_on_run_directory(chosen(), rank_of("a"));
  EXPECT_EQ(entries().size(), 2u);
  remove_rendezvous_link(directory.value());
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_TRUE(fs::exists(directory.value().path));
}

TEST_F(RunDirectoryTest, RecordsTheJob) {
  Identity task = rank_of("a");
  task.batch_name = task.batch_id = "12.0";
  const RunDirectory first = agree_on_run_directory(chosen(), task).value();
  EXPECT_EQ(fs::read_symlink(first.path + "/.job"), "12.0");
  EXPECT_EQ(agree_on_run_directory(chosen(), task).value().path, first.path);
  task.key = "of an array";
  task.batch_name = "12_7.0", task.batch_id = "15.0";
  RunDirectory named = agree_on_run_directory(given("mine"), task).value();
  EXPECT_EQ(fs::read_symlink(named.path + "/.job"), "12_7.0 15.0");
  withdraw_run_directory(named);
  EXPECT_FALSE(fs::exists(named.path));
  EXPECT_FALSE(fs::is_symlink(agree_on_run_directory(chosen(), rank_of("b")).value().path + "/.job"));
}

TEST_F(RunDirectoryTest, LastNodeToLeaveRemovesTheLink) {
  const RunDirectory directory = agree_on_run_directory(chosen(), rank_of("a")).value();
  leave_rendezvous(directory, "n1", 2, 6);
  leave_rendezvous(directory, "n2", 1, 6);
  leave_rendezvous(directory, "n2", 1, 6);  // one that came late
  EXPECT_EQ(entries().size(), 2u);
  leave_rendezvous(directory, "n3", 2, 6);
  EXPECT_EQ(entries().size(), 1u);
  const fs::directory_iterator left(directory.path);
  EXPECT_EQ(left->path().filename(), ".run");
  EXPECT_EQ(std::distance(fs::begin(left), fs::end(left)), 1);
}

TEST_F(RunDirectoryTest, OnlyNodeRemovesTheLink) {
  const RunDirectory directory = agree_on_run_directory(chosen(), rank_of("a")).value();
  leave_rendezvous(directory, "n1", -1, 4);
  EXPECT_EQ(entries().size(), 2u);
  leave_rendezvous(directory, "n1", 4, 4);
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(RunDirectoryTest, LeftoversOfTheClockExchangeAreRemoved) {
  const RunDirectory directory = agree_on_run_directory(chosen(), rank_of("a")).value();
  remove_clock_rendezvous(directory, 0);  // there was none
  const std::string place = clock_rendezvous_path(directory, 0);
  fs::create_directory(place);
  fs::create_symlink("out", place + "/0-3");
  fs::create_symlink("in-1-2", place + "/0-4");
  // A spawned world has a place of its own.
  const std::string spawned = clock_rendezvous_path(directory, 2);
  fs::create_directory(spawned);
  remove_clock_rendezvous(directory, 0);
  EXPECT_FALSE(fs::exists(place));
  EXPECT_TRUE(fs::exists(spawned));
  remove_clock_rendezvous(directory, 2);
  EXPECT_FALSE(fs::exists(spawned));
  EXPECT_TRUE(fs::exists(directory.path));
}

// Who may write into the run directory may have put something else there.
TEST_F(RunDirectoryTest, OnlyLinksOfTheClockExchangeAreRemoved) {
  const RunDirectory directory = agree_on_run_directory(chosen(), rank_of("a")).value();
  const std::string place = clock_rendezvous_path(directory, 0), home = root_ + "/home";
  fs::create_directory(home);
  std::ofstream(home + "/thesis.tex") << "x";
  fs::create_symlink("thesis.tex", home + "/link");
  fs::create_symlink(home, place);
  remove_clock_rendezvous(directory, 0);
  EXPECT_TRUE(fs::exists(home + "/thesis.tex"));
  EXPECT_TRUE(fs::is_symlink(home + "/link"));
  fs::remove(place);
  fs::rename(home, place);
  remove_clock_rendezvous(directory, 0);
  EXPECT_TRUE(fs::exists(place + "/thesis.tex"));
  EXPECT_FALSE(fs::is_symlink(place + "/link"));
  if (::geteuid() != 0) return;
  fs::create_symlink("thesis.tex", place + "/link");
  ASSERT_EQ(::chown(place.c_str(), 1, 1), 0);
  remove_clock_rendezvous(directory, 0);
  EXPECT_TRUE(fs::is_symlink(place + "/link"));
}

TEST_F(RunDirectoryTest, ShardsOfOneNodeAreRemovedByTheirMaker) {
  Identity alone = rank_of("alone");
  alone.has_peers = false;
  RunDirectory directory = agree_on_run_directory(chosen(), alone).value();
  for (const char* const name :
       {"node-n1.h5", ".node-n1.h5.1.2.tmp", ".node-n1.claim", "node-n10.h5", "other"})
    std::ofstream(directory.path + "/" + name) << "x";
  directory.created = false;
  remove_shards(directory, "n1");
  EXPECT_TRUE(fs::exists(directory.path + "/node-n1.h5"));
  directory.created = true;
  remove_shards(directory, "n1");
  withdraw_run_directory(directory);
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(directory.path))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{".run", "node-n10.h5", "other"}));
}

TEST_F(RunDirectoryTest, AbandonedLinksAreSweptUp) {
  const std::string old = root_ + "/.clusterprof-old";
  ASSERT_EQ(::symlink("somewhere", old.c_str()), 0);
  const timespec hour_ago[2] = {{std::time(nullptr) - 3600, 0}, {std::time(nullptr) - 3600, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, old.c_str(), hour_ago, AT_SYMLINK_NOFOLLOW), 0);
  ASSERT_EQ(::symlink("somewhere", (root_ + "/.clusterprof-new").c_str()), 0);
  ASSERT_TRUE(agree_on_run_directory(chosen(), rank_of("a")).ok());
  EXPECT_EQ(entries().count(".clusterprof-old"), 0u);
  EXPECT_EQ(entries().count(".clusterprof-new"), 1u);
}

TEST_F(RunDirectoryTest, OldUseOfAReusableKeyIsIgnored) {
  const auto old = agree_on_run_directory(chosen(), rank_of("port"));
  ASSERT_TRUE(old.ok());
  Identity now = rank_of("port");
  now.job_start_unix_s = std::time(nullptr) + 3600;
  const auto fresh = agree_on_run_directory(chosen(), now);
  ASSERT_TRUE(fresh.ok());
  EXPECT_NE(fresh.value().path, old.value().path);
  EXPECT_FALSE(agree_on_run_directory({old.value().path, "", "train"}, now).ok());
}

TEST_F(RunDirectoryTest, DanglingLinkIsSkipped) {
  ASSERT_EQ(::symlink("gone", (root_ + "/.clusterprof-a").c_str()), 0);
  const auto directory = agree_on_run_directory(chosen(), rank_of("a"));
  ASSERT_TRUE(directory.ok()) << directory.error().message;
  EXPECT_EQ(agree_on_run_directory(chosen(), rank_of("a")).value().path, directory.value().path);
}

TEST_F(RunDirectoryTest, GivenDirectoryIsMadeOrUsedIfEmpty) {
  const auto made = agree_on_run_directory(given("x/y/run/"), rank_of("a"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(made.value().path, root_ + "/x/y/run");
  EXPECT_EQ(owner_of(made.value().path), "a");
  ::mkdir((root_ + "/empty").c_str(), 0755);
  EXPECT_TRUE(agree_on_run_directory(given("empty"), rank_of("a")).ok());
}

TEST_F(RunDirectoryTest, GivenDirectoryOfAnotherRunIsRefused) {
  ASSERT_TRUE(agree_on_run_directory(given("run"), rank_of("a")).ok());
  EXPECT_TRUE(agree_on_run_directory(given("run"), rank_of("a")).ok());
  const auto other = agree_on_run_directory(given("run"), rank_of("b"));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message, root_ + "/run: a run is there already; choose another -o");
}

TEST_F(RunDirectoryTest, GivenDirectoryWithOtherFilesIsRefused) {
  ::mkdir((root_ + "/home").c_str(), 0755);
  std::ofstream(root_ + "/home/thesis.tex") << "x";
  EXPECT_FALSE(agree_on_run_directory(given("home"), rank_of("a")).ok());
  EXPECT_FALSE(agree_on_run_directory(given("home/thesis.tex"), rank_of("a")).ok());
  EXPECT_FALSE(agree_on_run_directory(given("home/thesis.tex/run"), rank_of("a")).ok());
  EXPECT_EQ(fs::file_size(root_ + "/home/thesis.tex"), 1u);
  EXPECT_FALSE(fs::is_symlink(root_ + "/home/.run"));
}

TEST_F(RunDirectoryTest, UnwritableDirectoryIsAnErrorWithTheReason) {
  const auto directory = agree_on_run_directory({"/proc/nothing", "", "train"}, rank_of("a"));
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().message.rfind("/proc/nothing: ", 0), 0u);
  EXPECT_FALSE(agree_on_run_directory({"", "/proc", "train"}, rank_of("a")).ok());
}

TEST_F(RunDirectoryTest, KnowsWrongRequestsFromFileSystemsThatFail) {
  std::ofstream(root_ + "/file") << "x";
  fs::create_directory(root_ + "/full");
  std::ofstream(root_ + "/full/file") << "x";
  for (const std::string name : {"file", "file/run", "full"}) {
    bool refused = false;
    EXPECT_FALSE(agree_on_run_directory(given(name), rank_of("a"), &refused).ok());
    EXPECT_TRUE(refused) << name;
  }
  for (const RunDirectoryRequest& request :
       {RunDirectoryRequest{"/proc/nothing", "", "train"}, RunDirectoryRequest{"", "/proc", "train"}}) {
    bool refused = false;
    EXPECT_FALSE(agree_on_run_directory(request, rank_of("a"), &refused).ok());
    EXPECT_FALSE(refused);
  }
}

// Processes started at one moment by a pipe that closes.
std::multiset<std::string> agree_at_once(int processes, const RunDirectoryRequest& request,
                                         const Identity& identity) {
  int start[2], answers[2];
  EXPECT_EQ(::pipe(start), 0);
  EXPECT_EQ(::pipe(answers), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(start[1]);
      char byte = 0;
      [[maybe_unused]] const ssize_t got = ::read(start[0], &byte, 1);
      const auto directory = agree_on_run_directory(request, identity);
      const std::string line =
          (directory ? directory.value().path : "error " + directory.error().message) + "\n";
      ::_exit(::write(answers[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 1);
    }
    children.push_back(pid);
  }
  ::close(start[0]);
  ::close(start[1]);
  ::close(answers[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(answers[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(answers[0]);
  for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

TEST_F(RunDirectoryTest, SixtyFourRanksAgreeAtOnce) {
  for (int round = 0; round < 10; ++round) {
    const Identity identity = rank_of("job" + std::to_string(round));
    const auto paths = agree_at_once(64, chosen(), identity);
    ASSERT_EQ(paths.size(), 64u);
    EXPECT_EQ(paths.count(*paths.begin()), 64u) << *paths.begin() << "\n" << *paths.rbegin();
    EXPECT_EQ(owner_of(*paths.begin()), identity.key);
  }
  // One directory and one link for each round, nothing left of those who came second.
  EXPECT_EQ(entries().size(), 20u);
}

TEST_F(RunDirectoryTest, SixtyFourRanksAgreeOnAGivenDirectory) {
  for (int round = 0; round < 10; ++round) {
    const auto paths = agree_at_once(64, given("run" + std::to_string(round)), rank_of("a"));
    EXPECT_EQ(paths.count(root_ + "/run" + std::to_string(round)), 64u) << *paths.begin();
  }
}

// In /dev/shm, where other users may write, too.
TEST_F(RunDirectoryTest, RanksOfANodeShareAWaitingPlace) {
  JobStep step = rank_of("test-" + random_suffix());
  step.batch_name = "4711.0";
  const auto first = agree_on_waiting_place(step), second = agree_on_waiting_place(step);
  ASSERT_TRUE(first.ok() && second.ok());
  const std::string path = first.value().path;
  EXPECT_TRUE(path.starts_with("/dev/shm/clusterprof-waiting-") ||
              path.starts_with("/tmp/clusterprof-waiting-"));
  EXPECT_EQ(second.value().path, path);
  EXPECT_NE(first.value().secret, HashKey{});
  EXPECT_EQ(second.value().secret, first.value().secret);
  EXPECT_TRUE(first.value().created);
  EXPECT_FALSE(second.value().created);
  EXPECT_TRUE(entries().empty());
  remove_waiting_place(path);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(RunDirectoryTest, AWaitingPlaceIsRemovedLaterIfItsCollectorWasKilled) {
  const auto make = [] { return agree_on_waiting_place(rank_of("test-" + random_suffix())).value().path; };
  const std::string left = make(), held = make(), young = make();
  const UniqueFd holder = hold_waiting_place(held);
  ASSERT_TRUE(holder);
  for (const std::string& path : {left, held}) {
    const timespec long_ago[2] = {{std::time(nullptr) - 3600, 0}, {std::time(nullptr) - 3600, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  }
  const std::string next = make();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(held));
  EXPECT_TRUE(fs::exists(young));
  for (const std::string& path : {held, young, next}) remove_waiting_place(path);
}

}  // namespace
}  // namespace clusterprof::cli
