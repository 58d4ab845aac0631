// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_file.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "formats/shard/run_files.hpp"
#include "formats/shard/shard_reader.hpp"

namespace clusterprof::collector {
namespace {

struct ShardNames : testing::Test {
  ShardNames() {
    std::string pattern = testing::TempDir() + "shard_names_XXXXXX";
    directory = mkdtemp(pattern.data());
  }
  ~ShardNames() override { std::filesystem::remove_all(directory); }
  std::filesystem::path directory;
};

TEST_F(ShardNames, SecondCollectorOfTheNodeTakesTheNextName) {
  const ShardName first({directory, "n1"}), second({directory, "n1"}), other({directory, "n2"});
  EXPECT_EQ(first.path(), directory / "node-n1.h5");
  EXPECT_EQ(second.path(), directory / "node-n1.2.h5");
  EXPECT_EQ(other.path(), directory / "node-n2.h5");
}

TEST_F(ShardNames, NameOfAnExistingShardIsSkippedAndItsClaimReleased) {
  std::ofstream(directory / "node-n1.h5") << "x";
  {
    const ShardName name({directory, "n1"});
    EXPECT_EQ(name.path(), directory / "node-n1.2.h5");
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "node-n1.h5"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++files;
  EXPECT_EQ(files, 1u);  // no claim is left
}

TEST_F(ShardNames, ShardsOfManyNodesAreSpreadOverSubdirectories) {
  std::set<std::filesystem::path> directories;
  for (int i = 0; i < 300; ++i) {
    const ShardName name({directory, "n" + std::to_string(i), 300});
    EXPECT_EQ(name.path().parent_path(), directory / shard::shard_directory("n" + std::to_string(i), 300));
    EXPECT_TRUE(std::filesystem::exists(name.claim()));
    directories.insert(name.path().parent_path());
  }
  EXPECT_GT(directories.size(), 60u);
  EXPECT_FALSE(directories.contains(directory));
  for (const auto& path : directories) EXPECT_TRUE(shard::is_shard_directory(path.filename().string()));
  EXPECT_EQ(ShardName({directory, "n1", 256}).path(), directory / "node-n1.h5");
}

TEST_F(ShardNames, ClaimBecomesTheShard) {
  ShardFile file({directory, "n1"});
  EXPECT_TRUE(std::filesystem::exists(directory / ".node-n1.claim"));
  NodeSnapshot nothing;
  for (const auto which :
       {ShardFile::Which::kCheckpoint, ShardFile::Which::kCheckpoint, ShardFile::Which::kLast}) {
    ASSERT_TRUE(file.write(nothing, which, [](auto, auto) { return true; }));
    EXPECT_FALSE(std::filesystem::exists(directory / ".node-n1.claim"));
    EXPECT_TRUE(shard::read_shard(directory / "node-n1.h5"));
  }
}

TEST_F(ShardNames, ShardsHaveTheSettings) {
  ShardFile file({directory, "n1"});
  NodeSnapshot snapshot;
  const auto source = std::make_shared<SettingsSource>();
  source->environment = {"OMP_NUM_THREADS=4"};
  snapshot.settings = source;
  ASSERT_TRUE(file.write(snapshot, ShardFile::Which::kLast, [](auto, auto) { return true; }));
  const Result<shard::ShardData> data = shard::read_shard(directory / "node-n1.h5");
  ASSERT_TRUE(data);
  const std::vector<shard::Setting> expected = {{shard::SettingKind::kVariable, "OMP_NUM_THREADS", "4"}};
  EXPECT_EQ(data.value().settings, expected);
}

TEST_F(ShardNames, MissingDirectoryFailsWhenTheShardIsWritten) {
  ShardFile file({directory / "missing", "n1"});
  NodeSnapshot nothing;
  const Result<void> written =
      file.write(nothing, ShardFile::Which::kCheckpoint, [](auto, auto) { return true; });
  ASSERT_FALSE(written.ok());
  EXPECT_FALSE(written.error().message.empty());
}

}  // namespace
}  // namespace clusterprof::collector
