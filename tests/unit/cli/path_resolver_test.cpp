// SPDX-License-Identifier: BSD-3-Clause
#include "base/path_resolver.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace clusterprof {
namespace {

namespace fs = std::filesystem;

class PathResolverTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-path-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = fs::canonical(name);
    before_ = fs::current_path();
    fs::create_directories(root_ + "/shared/theirs/below");
    fs::create_directories(root_ + "/shared/ours");
    std::ofstream(root_ + "/file") << "x";
    ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
    ASSERT_EQ(::chmod(at("shared").c_str(), 01777), 0);
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(root_);
  }
  [[nodiscard]] std::string at(const std::string& name) const { return root_ + "/" + name; }
  void give_away(const std::string& name, uid_t to = 1) const {
    ASSERT_EQ(::lchown(at(name).c_str(), to, to), 0);
  }
  // "DIRECTORY NAME" below the root, or an error and the part it is about.
  [[nodiscard]] std::string leads(const std::string& path, mode_t make_mode = 0) const {
    PathResolver resolver(path, make_mode);
    if (resolver.found_untrusted()) return "others: " + resolver.failed_part();
    if (resolver.error() != 0) return failed(resolver.error(), resolver.failed_part());
    const fs::path parent =
        fs::read_symlink("/proc/self/fd/" + std::to_string(resolver.result().parent.fd.get()));
    return parent.lexically_relative(root_).string() + " " + resolver.result().name +
           (resolver.result().file ? "" : " (none)");
  }

  static std::string failed(int error, const std::string& part) {
    return std::string(std::strerror(error)) + ": " + part;
  }

  std::string root_;
  fs::path before_;
};

TEST_F(PathResolverTest, ResolvesLikeTheKernel) {
  fs::create_symlink("shared/ours", at("link"));
  fs::create_symlink(root_, at("shared/ours/root"));
  fs::create_symlink("loop", at("loop"));
  EXPECT_EQ(leads(at("file")), ". file");
  EXPECT_EQ(leads(at("shared")), ". shared");
  EXPECT_EQ(leads(at("shared//") + "./"), "shared .");
  EXPECT_EQ(leads(at("link/new")), "shared/ours new (none)");
  EXPECT_EQ(leads(at("link")), "shared ours");
  EXPECT_EQ(leads(at("link/../theirs")), "shared theirs");
  EXPECT_EQ(leads(at("link/root/file")), ". file");
  EXPECT_EQ(leads(at("loop")), failed(ELOOP, at("loop")));
  EXPECT_EQ(leads(at("file/x")), failed(ENOTDIR, at("file")));
  EXPECT_EQ(leads(at("file/")), failed(ENOTDIR, at("file")));
  EXPECT_EQ(leads(at("none/x")), failed(ENOENT, at("none")));
  EXPECT_EQ(leads(at("none/")), failed(ENOENT, at("none")));
  EXPECT_EQ(leads(""), failed(ENOENT, ""));
  EXPECT_EQ(leads("/proc/self/cwd/none/x"), failed(ENOENT, before_.string() + "/none"));
  fs::current_path(at("shared"));
  EXPECT_EQ(leads("ours/x"), "shared/ours x (none)");
  EXPECT_EQ(leads("../file"), ". file");
  EXPECT_EQ(leads("."), "shared .");
  EXPECT_EQ(leads("none/x"), failed(ENOENT, "none"));
  EXPECT_EQ(leads("a/b/c", 0700), "shared/a/b c (none)");
  EXPECT_EQ(leads("d/", 0700), "shared/d .");
  EXPECT_FALSE(fs::exists(at("shared/a/b/c")));
}

TEST_F(PathResolverTest, RefusesEntriesPlantedByOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  fs::create_symlink("../theirs/below", at("shared/ours/inside"));
  fs::create_symlink("/etc", at("shared/link"));
  std::ofstream(at("shared/file")) << "x";
  for (const char* name : {"shared/theirs", "shared/theirs/below", "shared/link", "shared/file"})
    give_away(name);
  for (const char* name : {"theirs", "link", "file"})
    EXPECT_EQ(leads(at("shared/") + name), "others: " + at("shared/") + name);
  EXPECT_EQ(leads(at("shared/theirs/below/x")), "others: " + at("shared/theirs"));
  EXPECT_EQ(leads(at("shared/theirs/new/x"), 0700), "others: " + at("shared/theirs"));
  EXPECT_FALSE(fs::exists(at("shared/theirs/new")));
  EXPECT_EQ(leads(at("shared/link/passwd")), "others: " + at("shared/link"));
  EXPECT_EQ(leads(at("shared/theirs/../ours")), "others: " + at("shared/theirs"));
  EXPECT_EQ(leads(at("shared/ours/x")), "shared/ours x (none)");
  // Our own link leads to a file of theirs.
  EXPECT_EQ(leads(at("shared/ours/inside/x")), "others: " + at("shared/ours/../theirs"));
}

// The owner of a directory in which not everybody may write is trusted with its entries.
TEST_F(PathResolverTest, AcceptsOthersDirectoriesThatAreNotSticky) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  give_away("shared/theirs/below", 2);
  ASSERT_EQ(::chmod(at("shared/theirs").c_str(), 02775), 0);
  give_away("shared/theirs");
  for (const mode_t mode : {0755, 02775}) {
    ASSERT_EQ(::chmod(at("shared").c_str(), mode), 0);
    EXPECT_EQ(leads(at("shared/theirs/below/x")), "shared/theirs/below x (none)");
  }
  ASSERT_EQ(::chmod(at("shared").c_str(), 03775), 0);
  EXPECT_EQ(leads(at("shared/theirs/below/x")), "others: " + at("shared/theirs"));
  // Entries of a directory's owner are as trustworthy as the directory. That matters in containers, where
  // root appears as nobody.
  give_away("shared");
  EXPECT_EQ(leads(at("shared/theirs/below/x")), "shared/theirs/below x (none)");
}

TEST_F(PathResolverTest, AcceptsEntriesOfRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be others";
  give_away("shared", 3);
  ASSERT_EQ(::chmod(at("shared").c_str(), 01777), 0);
  give_away("shared/theirs");
  ASSERT_EQ(::seteuid(2), 0);
  const std::string ours = leads(at("shared/ours/x")), theirs = leads(at("shared/theirs/x"));
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(ours, "shared/ours x (none)");
  EXPECT_EQ(theirs, "others: " + at("shared/theirs"));
}

// A user who changed into a directory of others wants to write there, but not to where its links lead.
TEST_F(PathResolverTest, AcceptsAnUntrustedCurrentDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  give_away("shared/theirs");
  give_away("shared/theirs/below");
  fs::current_path(at("shared/theirs"));
  fs::create_directory("ours");
  fs::create_symlink("/etc/passwd", "link.csv");
  give_away("shared/theirs/link.csv");
  for (const std::string& here : {std::string(), at("shared/theirs/"), at("shared/ours/../theirs/")}) {
    EXPECT_EQ(leads(here + "x"), "shared/theirs x (none)");
    EXPECT_EQ(leads(here + "ours/x"), "shared/theirs/ours x (none)");
    EXPECT_EQ(leads(here + "below/x").substr(0, 7), "others:");
    EXPECT_EQ(leads(here + "link.csv").substr(0, 7), "others:");
  }
  EXPECT_EQ(leads(at("shared/ours/x")), "shared/ours x (none)");
  EXPECT_EQ(leads("../ours/x"), "shared/ours x (none)");
  // But links of others cannot lead us there.
  fs::create_symlink(root_, at("shared/theirs/link"));
  fs::create_symlink(root_, at("shared/link"));
  give_away("shared/theirs/link");
  give_away("shared/link");
  fs::current_path(root_);
  EXPECT_EQ(leads(at("shared/link/file")), "others: " + at("shared/link"));
  EXPECT_EQ(leads(at("shared/theirs/link/file")), "others: " + at("shared/theirs"));
  EXPECT_EQ(leads(at("shared/theirs/../../file")), "others: " + at("shared/theirs"));
  fs::current_path(at("shared/theirs/below"));
  EXPECT_EQ(leads(at("shared/theirs/x")), "others: " + at("shared/theirs"));
}

}  // namespace
}  // namespace clusterprof
