// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/write_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/support/meanwhile.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-write-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = fs::canonical(name).string();
    ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
    umask_ = ::umask(0);
  }
  void TearDown() override {
    ::umask(umask_);
    fs::remove_all(root_);
  }

  [[nodiscard]] std::string at(const std::string& name) const { return root_ + "/" + name; }
  std::string file(const std::string& name, mode_t mode) const {
    std::ofstream(at(name)) << "content of " << name;
    EXPECT_EQ(::chmod(at(name).c_str(), mode), 0);
    return at(name);
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  }
  static std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  mode_t mode_with(const std::vector<std::string>& quoted) const {
    EXPECT_TRUE(write_file(at("page"), "new", quoted));
    const mode_t mode = mode_of(at("page"));
    ::unlink(at("named").c_str());
    EXPECT_TRUE(write_named_file(at("named"), "new", quoted));
    EXPECT_EQ(mode_of(at("named")), mode);
    return mode;
  }

  std::string root_;
  mode_t umask_ = 0;
};

TEST_F(WriteFile, IsNeverWritableByEverybody) { EXPECT_EQ(mode_with({}), 0664u); }

TEST_F(WriteFile, IsReadableOnlyByThoseWhoMayReadItsSources) {
  EXPECT_EQ(mode_with({file("all", 0644)}), 0664u);
  EXPECT_EQ(mode_with({file("own", 0600)}), 0600u);
  EXPECT_EQ(mode_with({file("group", 0640)}), 0660u);
  EXPECT_EQ(mode_with({at("all"), at("own")}), 0600u);
  EXPECT_EQ(mode_with({at("gone")}), 0600u);
  fs::create_directory(at("private"));
  const std::string inside = file("private/inside", 0644);
  ASSERT_EQ(::chmod(at("private").c_str(), 0700), 0);
  EXPECT_EQ(mode_with({inside}), 0600u);
  fs::create_symlink("private/inside", at("link"));
  EXPECT_EQ(mode_with({at("link")}), 0600u);
  ::umask(077);
  EXPECT_EQ(mode_with({at("all")}), 0600u);
}

// Between looking at a name and opening it, another file may take its place.
TEST_F(WriteFile, RefusesAFileThatReplacesAPipe) {
  const std::string victim = file("victim", 0644);
  for (const bool is_link : {true, false}) {
    ::unlink(at("pipe").c_str());
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    PathResolver resolver(at("pipe"));
    ASSERT_EQ(resolver.error(), 0);
    const UniqueFd reader(::open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK));
    ASSERT_TRUE(open_resolved(resolver.result()));
    ASSERT_EQ(::unlink(at("pipe").c_str()), 0);
    if (is_link)
      fs::create_symlink("victim", at("pipe"));
    else
      ASSERT_EQ(::link(victim.c_str(), at("pipe").c_str()), 0);
    const bool opened = static_cast<bool>(open_resolved(resolver.result()));
    const int error = errno;
    EXPECT_FALSE(opened);
    EXPECT_EQ(error, is_link ? ELOOP : ESTALE);
    EXPECT_EQ(content_of(victim), "content of victim");
  }
}

// The same with a link in /proc, which may be followed, but not to another file.
TEST_F(WriteFile, RefusesAFileThatReplacesAnOpenFile) {
  const std::string first = file("first", 0644), second = file("second", 0644);
  UniqueFd open_file(::open(first.c_str(), O_RDWR));
  ASSERT_EQ(::unlink(first.c_str()), 0);
  PathResolver resolver("/proc/self/fd/" + std::to_string(open_file.get()));
  ASSERT_EQ(resolver.error(), 0);
  ASSERT_TRUE(resolver.result().unnamed);
  const UniqueFd other(::open(second.c_str(), O_RDWR));
  ASSERT_EQ(::dup2(other.get(), open_file.get()), open_file.get());
  const bool opened = static_cast<bool>(open_resolved(resolver.result()));
  const int error = errno;
  EXPECT_FALSE(opened);
  EXPECT_EQ(error, ESTALE);
  EXPECT_EQ(content_of(second), "content of second");
}

TEST_F(WriteFile, DoesNotOpenToAnotherFilesGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const std::string theirs = file("theirs", 0640);
  ASSERT_EQ(::chown(theirs.c_str(), 0, 1), 0);
  EXPECT_EQ(mode_with({theirs}), 0600u);
}

TEST_F(WriteFile, RefusesFilesOfOthersWhereEverybodyMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  fs::create_directory(at("shared"));
  ASSERT_EQ(::chmod(at("shared").c_str(), 01777), 0);
  const std::string victim = file("victim", 0644);
  fs::create_symlink("../victim", at("shared/link"));
  ASSERT_EQ(::mkfifo(at("shared/pipe").c_str(), 0666), 0);
  file("shared/file", 0666);
  for (const char* name : {"shared/link", "shared/pipe", "shared/file"}) {
    ASSERT_EQ(::lchown(at(name).c_str(), 1, 1), 0);
    const auto written = write_named_file(at(name), "new");
    ASSERT_FALSE(written) << name;
    EXPECT_NE(written.error().message.find("another user"), std::string::npos) << written.error().message;
  }
  EXPECT_EQ(content_of(victim), "content of victim");
  // Where only we may write, whoever made an entry was allowed to.
  ASSERT_EQ(::chmod(at("shared").c_str(), 0755), 0);
  EXPECT_TRUE(write_named_file(at("shared/link"), "new"));
  EXPECT_EQ(content_of(victim), "new");
}

// As `export -o /tmp/tables/` would.
TEST_F(WriteFile, RefusesDirectoriesOfOthersWhereEverybodyMayWrite) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  fs::create_directories(at("shared/tables"));
  ASSERT_EQ(::chmod(at("shared").c_str(), 01777), 0);
  const std::string victim = file("victim", 0644);
  fs::create_symlink("../../victim", at("shared/tables/link"));
  for (const char* name : {"shared/tables", "shared/tables/link"})
    ASSERT_EQ(::lchown(at(name).c_str(), 1, 1), 0);
  for (const char* name : {"shared/tables/link", "shared/tables/new"}) {
    const auto written = write_named_file(at(name), "new");
    ASSERT_FALSE(written) << name;
    EXPECT_EQ(written.error().message, at(name) + ": cannot be written: another user has made " +
                                           at("shared/tables") + ", where everybody may write");
  }
  EXPECT_EQ(content_of(victim), "content of victim");
  EXPECT_FALSE(fs::exists(at("shared/tables/new")));
}

TEST_F(WriteFile, RefusesAPipeThatOthersMoveIntoPlace) {
  UniqueFd reader;
  const Meanwhile made("page", {}, [&] {
    ASSERT_EQ(::mkfifo(at("page").c_str(), 0666), 0);
    reader = UniqueFd(::open(at("page").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  });
  ASSERT_TRUE(write_named_file(at("page"), "new"));
  EXPECT_TRUE(made.happened());
  ASSERT_TRUE(fs::is_regular_file(at("page")));
  EXPECT_EQ(content_of(at("page")), "new");
  char read[8];
  EXPECT_LT(::read(reader.get(), read, sizeof read), 0);
}

TEST_F(WriteFile, WritesToPipesDevicesAndUnnamedFiles) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  const UniqueFd reader(::open(at("pipe").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  file("gone", 0600);
  const UniqueFd gone(::open(at("gone").c_str(), O_RDWR | O_CLOEXEC));
  fs::remove(at("gone"));
  fs::create_symlink("pipe", at("link"));
  const auto through = [](const UniqueFd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); };
  for (const std::string& name : {at("pipe"), at("link"), through(reader)})
    EXPECT_TRUE(write_named_file(name, "new")) << name;
  char read[16];
  EXPECT_EQ(::read(reader.get(), read, sizeof read), 9);
  EXPECT_TRUE(write_named_file(through(gone), "new"));
  EXPECT_EQ(::read(gone.get(), read, sizeof read), 3);
  EXPECT_TRUE(write_named_file("/dev/null", "new"));
  // By its name where it has one, like any file.
  const UniqueFd named(::open(file("named", 0600).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(write_named_file(through(named), "new"));
  EXPECT_EQ(content_of(at("named")), "new");
  EXPECT_FALSE(write_named_file(root_, "new"));
  EXPECT_FALSE(write_named_file(at("none") + "/", "new"));
  EXPECT_FALSE(fs::exists(at("none")));
  EXPECT_FALSE(write_named_file(at("none/none"), "new"));
}

}  // namespace
}  // namespace clusterprof::cli
