// SPDX-License-Identifier: BSD-3-Clause
#include "cli/library_token.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/wire/preload_entry.h"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

bool is_entry(const std::string& entry, const char* object) {
  const std::string more = entry + ":/other.so";  // in a list
  return wire::is_entry_of(more.c_str(), entry.size(), object);
}

TEST(LibraryToken, EntriesNameTheSameObject) {
  EXPECT_EQ(with_library_token("/p/lib/x.so"), "/p/lib/$LIB/x.so");
  EXPECT_TRUE(is_entry("/p/lib/x.so", "/p/lib/x.so"));
  EXPECT_TRUE(is_entry("/p/lib/$LIB/x.so", "/p/lib/x.so"));
  EXPECT_TRUE(is_entry("/p/lib//x.so", "/p/lib/x.so")) << "a shell has expanded it";
  EXPECT_TRUE(is_entry("x.so", "x.so"));
  for (const char* const other : {"", "/", "/p/lib/y.so", "/p/lib/$LIB/y.so", "/p/$LIB/lib/x.so",
                                  "/q/lib/$LIB/x.so", "/p/lib/$BIL/x.so", "/p/lib/lib64/x.so",
                                  "/p/lib/x.so.1", "/p/lib/x.s", "/p/lib/$LIB/$LIB/x.so", "x.so"})
    EXPECT_FALSE(is_entry(other, "/p/lib/x.so")) << other;
}

class LibraryTokenFiles : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-token-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
    // An object of this system that is not loaded under the copy's name.
    Dl_info libc{};
    ASSERT_NE(::dladdr(reinterpret_cast<const void*>(&::dlerror), &libc), 0);
    fs::copy_file(libc.dli_fname, object());
  }
  void TearDown() override { fs::remove_all(directory_); }
  [[nodiscard]] std::string object() const { return directory_ + "/x.so"; }
  void link_all() const {
    for (const char* const name : wire::kLibraryDirectories) {
      fs::create_directories(fs::path(directory_) / name);
      fs::create_symlink(object(), fs::path(directory_) / name / "x.so");
    }
  }
  std::string script(const char* name, const std::string& first_line) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << first_line << "\ntext\n";
    return path;
  }
  std::string directory_;
};

TEST_F(LibraryTokenFiles, ObjectsAreFoundByTheirLinks) {
  const std::string loader = loader_of_program("/proc/self/exe");
  if (loader != wire::kUsualLoader) GTEST_SKIP() << "this system's loader is " << loader;
  EXPECT_FALSE(finds_by_library_token(loader, {object()})) << "there is no link";
  link_all();
  EXPECT_TRUE(finds_by_library_token(loader, {object()}))
      << "this system's directory is none of those that are known";
  EXPECT_FALSE(finds_by_library_token(loader, {object(), directory_ + "/y.so"}));
  EXPECT_EQ(::dlopen(object().c_str(), RTLD_LAZY | RTLD_NOLOAD), nullptr) << "it was loaded";
}

TEST_F(LibraryTokenFiles, NothingIsKnownOfOtherLoaders) {
  link_all();
  EXPECT_FALSE(finds_by_library_token("", {object()}));
  EXPECT_FALSE(finds_by_library_token("/opt/glibc/lib/ld-linux-x86-64.so.2", {object()}));
  EXPECT_FALSE(finds_by_library_token(wire::kUsualLoader, {"/p$LIB/x.so"}));
}

TEST_F(LibraryTokenFiles, LoaderOfAScriptIsThatOfItsProgram) {
  const std::string loader = loader_of_program("/bin/sh");
  EXPECT_FALSE(loader.empty());
  EXPECT_EQ(loader_of_program(script("plain", "#!/bin/sh")), loader);
  EXPECT_EQ(loader_of_program(script("words", "#! \t/bin/sh -e")), loader);
  EXPECT_EQ(loader_of_program(script("nested", "#!" + script("inner", "#!/bin/sh"))), loader);
  EXPECT_EQ(loader_of_program(script("text", "echo")), "");
  EXPECT_EQ(loader_of_program(script("nothing", "#!")), "");
  EXPECT_EQ(loader_of_program(script("itself", "#!" + directory_ + "/itself")), "");
  EXPECT_EQ(loader_of_program(directory_ + "/none"), "");
}

}  // namespace
}  // namespace clusterprof::cli
