// SPDX-License-Identifier: BSD-3-Clause
#include "collector/shard/shard_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

namespace clusterprof::collector {
namespace {

struct ShardNames : testing::Test {
  ShardNames() {
    std::string pattern = testing::TempDir() + "shard_names_XXXXXX";
    directory = mkdtemp(pattern.data());
  }
  ~ShardNames() override { std::filesystem::remove_all(directory); }
  void make_file(const std::string& name, time_t age_s = 0) const {
    std::ofstream(directory / name) << "x";
    const time_t time = ::time(nullptr) - age_s;
    const timespec times[2] = {{time, 0}, {time, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory / name).c_str(), times, 0), 0);
  }
  std::filesystem::path directory;
};

TEST_F(ShardNames, SecondCollectorOfTheNodeTakesTheNextName) {
  const ShardName first(directory, "n1"), second(directory, "n1"), other(directory, "n2");
  EXPECT_EQ(first.path(), directory / "node-n1.h5");
  EXPECT_EQ(second.path(), directory / "node-n1.2.h5");
  EXPECT_EQ(other.path(), directory / "node-n2.h5");
}

TEST_F(ShardNames, NameOfAnExistingShardIsSkippedAndItsClaimReleased) {
  make_file("node-n1.h5");
  {
    const ShardName name(directory, "n1");
    EXPECT_EQ(name.path(), directory / "node-n1.2.h5");
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "node-n1.h5"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++files;
  EXPECT_EQ(files, 1u);  // no claim is left
}

TEST_F(ShardNames, OnlyOldHalfWrittenShardsOfTheNodeAreRemoved) {
  make_file(".node-n1.123.tmp", 3600);
  make_file(".node-n1.124.tmp", 10);
  make_file(".node-n2.125.tmp", 3600);
  const ShardName name(directory, "n1");
  EXPECT_FALSE(std::filesystem::exists(directory / ".node-n1.123.tmp"));
  EXPECT_TRUE(std::filesystem::exists(directory / ".node-n1.124.tmp"));
  EXPECT_TRUE(std::filesystem::exists(directory / ".node-n2.125.tmp"));
}

TEST_F(ShardNames, MissingDirectoryFailsWhenTheShardIsWritten) {
  ShardFile file(directory / "missing", "n1");
  NodeSnapshot nothing;
  const Result<void> written = file.write(nothing, 1, [](auto) { return true; });
  ASSERT_FALSE(written.ok());
  EXPECT_FALSE(written.error().message.empty());
}

}  // namespace
}  // namespace clusterprof::collector
