// SPDX-License-Identifier: BSD-3-Clause
#include "cli/elf_needed.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

// A root directory with one library and ldconfig's cache of it.
class LoaderCacheTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (::access("/sbin/ldconfig", X_OK) != 0) GTEST_SKIP() << "no /sbin/ldconfig here";
    std::string name = fs::temp_directory_path() / "clusterprof-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    fs::create_directories(root_ / "lib");
    fs::create_directories(root_ / "etc");
    fs::create_directories(root_ / "var/cache/ldconfig");
    const std::string library = find_library("libm.so.6", "", {}, "");
    ASSERT_FALSE(library.empty());
    fs::copy_file(library, root_ / "lib/libm.so.6");
    const std::string command = "/sbin/ldconfig -X -r " + name + " -c " + GetParam();
    ASSERT_EQ(std::system(command.c_str()), 0);
    cache_ = root_ / "etc/ld.so.cache";
    ASSERT_TRUE(fs::exists(cache_));
  }
  void TearDown() override {
    if (!root_.empty()) fs::remove_all(root_);
  }

  fs::path root_, cache_;
};

TEST_P(LoaderCacheTest, FindsLibrary) {
  EXPECT_EQ(find_in_loader_cache("libm.so.6", cache_), "/lib/libm.so.6");
  EXPECT_EQ(find_in_loader_cache("libm.so.7", cache_), "");
}

TEST_P(LoaderCacheTest, CacheThatIsCutOffGivesNothingWrong) {
  std::ifstream file(cache_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(cache_, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const std::string found = find_in_loader_cache("libm.so.6", cache_);
    EXPECT_TRUE(found.empty() || found == "/lib/libm.so.6") << size << ": " << found;
  }
}

// "compat" is what ldconfig wrote before glibc 2.32.
INSTANTIATE_TEST_SUITE_P(Formats, LoaderCacheTest, testing::Values("new", "compat"),
                         [](const testing::TestParamInfo<const char*>& tested) { return tested.param; });

TEST(LoaderCache, MissingCacheHasNothing) {
  EXPECT_EQ(find_in_loader_cache("libm.so.6", "/nonexistent/ld.so.cache"), "");
}

}  // namespace
}  // namespace clusterprof::cli
