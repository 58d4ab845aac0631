// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_checkpoints.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <fstream>
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
    ASSERT_TRUE(file.write(nothing, which, [](auto) { return true; }));
  }
  static void bring_home(const fs::path& place) { bring_home_checkpoints({place}); }
  // What a collector that was killed leaves: its file without the lock.
  void leave(const std::string& node) const {
    auto* const killed = new ShardFile({run, node, 1, true});
    write(*killed, ShardFile::Which::kCheckpoint);
    const fs::path copy = root / "copy";
    fs::copy(ours, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const fs::path claim = run / (".node-" + node + ".claim");
    fs::copy_file(claim, root / "claim");
    delete killed;  // removes its claim
    fs::remove_all(ours);
    fs::rename(copy, ours);
    fs::rename(root / "claim", claim);
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

TEST_F(LocalFiles, NextCollectorTakesWhatAKilledOneLeftToItsRunDirectory) {
  leave("n1");
  const fs::path shard = run / "node-n1.h5";
  ASSERT_FALSE(fs::exists(shard));
  const fs::path other = root / "other";
  fs::create_directories(other);
  ShardFile next({other, "n1"});
  write(next, ShardFile::Which::kLast);
  EXPECT_TRUE(shard::read_shard(shard));
  EXPECT_FALSE(fs::exists(run / ".node-n1.claim"));
  EXPECT_EQ(files_in(ours), 0u);
}

TEST_F(LocalFiles, WhatNobodyWantsAnyMoreIsRemoved) {
  leave("n1");
  fs::remove_all(run);
  bring_home(disk);
  EXPECT_EQ(files_in(ours), 0u);
  EXPECT_FALSE(fs::exists(run));
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
