// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_checkpoints.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string>

#include "collector/shard/shard_file.hpp"
#include "formats/shard/shard_reader.hpp"

namespace clusterprof::collector {
namespace {

namespace fs = std::filesystem;

struct LocalFiles : testing::Test {
  LocalFiles() {
    fs::create_directories(run);
    fs::create_directories(disk);
    setenv("TMPDIR", disk.c_str(), 1);
  }
  ~LocalFiles() override {
    unsetenv("TMPDIR");
    fs::remove_all(root);
  }
  static fs::path new_directory() {
    std::string pattern = testing::TempDir() + "local_files_XXXXXX";
    return mkdtemp(pattern.data());
  }
  static std::size_t files_in(const fs::path& directory) {
    std::size_t files = 0;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) ++files;
    return files;
  }
  static void write(ShardFile& file, ShardFile::Which which) {
    const NodeSnapshot nothing;
    ASSERT_TRUE(file.write(nothing, which, [](auto, auto) { return true; }));
  }
  static void bring_home(const fs::path& place) { bring_home_checkpoints({place}); }
  // What a collector that was killed leaves: its file without the lock. `use`: what it did before.
  void leave(
      const std::string& node, const std::function<void(ShardFile&)>& use = [](ShardFile& file) {
        write(file, ShardFile::Which::kCheckpoint);
      }) const {
    const pid_t pid = fork();
    if (pid == 0) {
      auto* const killed = new ShardFile({run, node, 1, true});
      use(*killed);
      _exit(0);
    }
    waitpid(pid, nullptr, 0);
  }
  [[nodiscard]] bool has_local_place() const {
    struct statfs system {};
    return statfs(disk.c_str(), &system) == 0 && is_node_local(system.f_type);
  }
  [[nodiscard]] std::optional<fs::path> local_shard() const {
    for (const auto& entry : fs::directory_iterator(ours))
      if (entry.path().extension() == ".h5") return entry.path();
    return std::nullopt;
  }
  static std::string contents(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void set_age(const fs::path& file, std::chrono::hours age) {
    fs::last_write_time(file, fs::file_time_type::clock::now() - age);
  }
  const fs::path root = new_directory(), run = root / "run", disk = root / "disk",
                 ours = disk / ("clusterprof-" + std::to_string(geteuid()));
};

TEST_F(LocalFiles, CheckpointsStayOnTheNodeUntilTheLast) {
  struct statfs system {};
  ASSERT_EQ(statfs(disk.c_str(), &system), 0);
  if (!is_node_local(system.f_type)) GTEST_SKIP() << "temporary files are on another kind of file system";
  ShardFile file({run, "n1", 1, true});
  const fs::path shard = run / "node-n1.h5", claim = run / ".node-n1.claim";
  write(file, ShardFile::Which::kCheckpoint);
  write(file, ShardFile::Which::kCheckpoint);
  EXPECT_FALSE(fs::exists(shard));
  EXPECT_EQ(files_in(ours), 3u);
  EXPECT_EQ(fs::status(ours).permissions(), fs::perms::owner_all);
  std::string line;
  std::getline(std::ifstream(claim), line);
  EXPECT_TRUE(line.starts_with("n1:" + ours.string() + "/")) << line;
  EXPECT_TRUE(shard::read_shard(line.substr(3)));
  // It is locked, so another collector leaves it alone.
  bring_home(disk);
  EXPECT_FALSE(fs::exists(shard));

  write(file, ShardFile::Which::kUrgent);
  EXPECT_TRUE(shard::read_shard(shard));
  EXPECT_FALSE(fs::exists(claim));
  write(file, ShardFile::Which::kCheckpoint);
  write(file, ShardFile::Which::kLast);
  EXPECT_TRUE(shard::read_shard(shard));
  EXPECT_EQ(files_in(ours), 0u);
}

TEST_F(LocalFiles, LauncherTakesWhatAKilledCollectorLeftToItsRunDirectory) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1");
  const fs::path shard = run / "node-n1.h5";
  ASSERT_FALSE(fs::exists(shard));
  bring_home(disk);
  EXPECT_TRUE(shard::read_shard(shard));
  EXPECT_EQ(files_in(run), 1u);
  EXPECT_EQ(files_in(ours), 0u);
}

// Its file server may not answer.
TEST_F(LocalFiles, CollectorLeavesOtherRunsAlone) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1");
  const fs::path other = root / "other";
  fs::create_directories(other);
  for (const bool local : {false, true}) {
    ShardFile next({other, "n1", 1, local});
    write(next, ShardFile::Which::kCheckpoint);
    write(next, ShardFile::Which::kLast);
  }
  EXPECT_FALSE(fs::exists(run / "node-n1.h5"));
  EXPECT_EQ(files_in(ours), 3u);
}

TEST_F(LocalFiles, NewerCheckpointReplacesAnOlderShard) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1", [](ShardFile& file) {
    write(file, ShardFile::Which::kCheckpoint);
    write(file, ShardFile::Which::kUrgent);
    write(file, ShardFile::Which::kCheckpoint);
  });
  const fs::path shard = run / "node-n1.h5";
  ASSERT_TRUE(fs::exists(shard) && local_shard());
  set_age(shard, std::chrono::hours(1));
  const std::string newest = contents(*local_shard());
  bring_home(disk);
  EXPECT_EQ(contents(shard), newest);
  EXPECT_EQ(files_in(run), 1u);
  EXPECT_EQ(files_in(ours), 0u);
}

TEST_F(LocalFiles, OlderCheckpointLeavesTheShardAsItIs) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1", [](ShardFile& file) {
    write(file, ShardFile::Which::kCheckpoint);
    write(file, ShardFile::Which::kUrgent);
  });
  set_age(*local_shard(), std::chrono::hours(1));
  const std::string before = contents(run / "node-n1.h5");
  bring_home(disk);
  EXPECT_EQ(contents(run / "node-n1.h5"), before);
  EXPECT_EQ(files_in(ours), 0u);
}

// The file server has no room for the last shard.
TEST_F(LocalFiles, CheckpointOutlivesALastShardThatCannotBeWritten) {
  if (!has_local_place()) GTEST_SKIP();
  const fs::path shard = run / "node-n1.h5", claim = run / ".node-n1.claim";
  {
    ShardFile file({run, "n1", 1, true});
    write(file, ShardFile::Which::kCheckpoint);
    fs::create_directories(shard / "in the way");  // so the claim cannot be renamed
    const NodeSnapshot nothing;
    EXPECT_FALSE(file.write(nothing, ShardFile::Which::kLast, [](auto, auto) { return true; }));
  }
  ASSERT_TRUE(local_shard());
  EXPECT_EQ(contents(claim), "n1:" + local_shard()->string() + "\n");
  fs::remove_all(shard);
  bring_home(disk);
  EXPECT_TRUE(shard::read_shard(shard));
  EXPECT_FALSE(fs::exists(claim));
  EXPECT_EQ(files_in(ours), 0u);
}

TEST_F(LocalFiles, CollectorWithoutCheckpointsLeavesNothing) {
  { const ShardFile file({run, "n1", 1, true}); }
  EXPECT_EQ(files_in(run), 0u);
  EXPECT_EQ(files_in(ours), 0u);
}

// Removed, or not to be seen just now.
TEST_F(LocalFiles, CheckpointWaitsSevenDaysForItsRunDirectory) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1");
  fs::rename(run, root / "hidden");
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 3u);
  fs::rename(root / "hidden", run);
  bring_home(disk);
  EXPECT_TRUE(shard::read_shard(run / "node-n1.h5"));

  leave("n2");
  fs::remove_all(run);
  set_age(*local_shard(), std::chrono::hours(7 * 24 - 1));
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 3u);
  set_age(*local_shard(), std::chrono::hours(7 * 24 + 1));
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 0u);
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(LocalFiles, CheckpointWithoutAClaimIsRemoved) {
  if (!has_local_place()) GTEST_SKIP();
  leave("n1");
  fs::remove(run / ".node-n1.claim");
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 0u);
  EXPECT_EQ(files_in(run), 0u);
}

// Others may own files in a directory of theirs. Only root can give files away.
TEST_F(LocalFiles, FilesThatSeemToBeSomebodyElsesAreLeftAlone) {
  if (!has_local_place() || geteuid() != 0) GTEST_SKIP();
  leave("n1");
  const fs::path claim = run / ".node-n1.claim";
  ASSERT_EQ(chown(claim.c_str(), 12345, 12345), 0);
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 3u);
  ASSERT_EQ(chown(claim.c_str(), 0, 0), 0);
  bring_home(disk);
  EXPECT_TRUE(shard::read_shard(run / "node-n1.h5"));
}

// A file that is made again would not be locked.
TEST_F(LocalFiles, RemovedLocalFileIsNotMadeAgain) {
  if (!has_local_place()) GTEST_SKIP();
  ShardFile file({run, "n1", 1, true});
  write(file, ShardFile::Which::kCheckpoint);
  fs::remove(*local_shard());
  write(file, ShardFile::Which::kCheckpoint);
  EXPECT_FALSE(local_shard());
  EXPECT_TRUE(shard::read_shard(run / "node-n1.h5"));
  write(file, ShardFile::Which::kLast);
  EXPECT_TRUE(shard::read_shard(run / "node-n1.h5"));
  EXPECT_EQ(files_in(ours), 0u);
}

TEST_F(LocalFiles, DirectoryThatOthersMayEnterOrALinkIsNotUsed) {
  const fs::path claim = run / ".node-n1.claim";
  fs::create_directories(ours);
  fs::permissions(ours, fs::perms::owner_all | fs::perms::others_write);
  EXPECT_FALSE(LocalCheckpoints::create(claim, run / "node-n1.h5", {disk}));
  fs::remove(ours);
  fs::create_directories(root / "elsewhere");
  fs::permissions(root / "elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(root / "elsewhere", ours);
  EXPECT_FALSE(LocalCheckpoints::create(claim, run / "node-n1.h5", {disk}));
  EXPECT_FALSE(LocalCheckpoints::create(claim, run / "node-n1.h5", {root / "missing"}));
}

TEST(NodeLocal, NetworkFileSystemsAreNot) {
  for (const long type : {0xef53L, 0x58465342L, 0x01021994L, 0x9123683eL}) EXPECT_TRUE(is_node_local(type));
  // NFS, SMB, CIFS, Lustre, GPFS, Ceph, FUSE, 9P
  for (const long type :
       {0x6969L, 0x517bL, 0xff534d42L, 0x0bd00bd0L, 0x47504653L, 0x00c36400L, 0x65735546L, 0x01021997L})
    EXPECT_FALSE(is_node_local(type));
}

}  // namespace
}  // namespace clusterprof::collector
