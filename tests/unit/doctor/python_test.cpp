// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

struct Python : testing::Test {
  Python() {
    system.variables["PATH"] = "/usr/bin:/root/.pyenv/shims:/opt/py/bin";
    system.variables["HOME"] = "/root";
    add("/usr/bin/python3", "cpython 3.11.2 0");
  }
  void add(const std::string& path, const std::string& says) {
    system.add(path);
    system.says(path + " -c", says + "\n" + path + "\n");
  }
  std::map<std::string, Check> look() { return found_by(check_python, system); }
  FakeSystem system;
};

TEST_F(Python, IsSupported) {
  const auto checks = look();
  EXPECT_EQ(checks.at("python.default").status, Status::kOk);
  EXPECT_EQ(checks.at("python.default").found, "/usr/bin/python3: 3.11.2");
  EXPECT_EQ(checks.at("python.others").found, "none");
  add("/usr/bin/python3", "cpython 3.12.1 1");
  EXPECT_EQ(look().at("python.default").found, "/usr/bin/python3: 3.12.1, a virtual environment");
}

TEST_F(Python, OtherVersionsAreNotSupported) {
  const std::pair<const char*, const char*> cases[] = {
      {"cpython 3.7.16 0", "not supported (3.8 to 3.15 are)"},
      {"cpython 3.16.0 0", "not supported (3.8 to 3.15 are)"},
      {"pypy 3.10.14 0", "pypy is not supported"},
      {"hello", "says nothing that is understood"}};
  for (const auto& [says, problem] : cases) {
    add("/usr/bin/python3", says);
    const Check check = look().at("python.default");
    EXPECT_EQ(check.status, Status::kWarn) << says;
    EXPECT_NE(check.found.find(problem), std::string::npos) << check.found;
    EXPECT_NE(check.costs.find("without Python functions"), std::string::npos);
  }
  for (const char* edge : {"cpython 3.8.0 0", "cpython 3.15.0 0", "cpython 3.14.2t 0"}) {
    add("/usr/bin/python3", edge);
    EXPECT_EQ(look().at("python.default").status, Status::kOk) << edge;
  }
  system.hangs("/usr/bin/python3 -c");
  EXPECT_NE(look().at("python.default").found.find("does not answer"), std::string::npos);
  system.facts.erase("/usr/bin/python3");
  EXPECT_EQ(look().at("python.default").found, "none in PATH");
  EXPECT_EQ(look().at("python.default").status, Status::kOk);
}

TEST_F(Python, OthersAreListedOnce) {
  add("/usr/bin/python3.11", "cpython 3.11.2 0");
  system.links["/usr/bin/python3"] = "/usr/bin/python3.11";
  add("/opt/py/bin/python3.13t", "cpython 3.13.0t 0");
  add("/opt/py/bin/python3.10", "pypy 3.10.14 0");
  add("/root/.pyenv/versions/3.9.18/bin/python3", "cpython 3.9.18 0");
  add("/root/.pyenv/shims/python3.9", "cpython 3.9.18 0");
  system.add("/usr/bin/python3-config");
  const Check others = look().at("python.others");
  EXPECT_EQ(others.status, Status::kOk);
  EXPECT_EQ(others.found, "3, 1 of them not supported");
  EXPECT_EQ(others.details,
            (std::vector<std::string>{"/opt/py/bin/python3.10: 3.10.14, pypy is not supported",
                                      "/opt/py/bin/python3.13t: 3.13.0t",
                                      "/root/.pyenv/versions/3.9.18/bin/python3: 3.9.18"}));
}

TEST(Symbols, AreLookedForByBuildId) {
  FakeSystem system;
  system.libraries = {{"libc.so.6", "/lib/libc.so.6"},
                      {"libmpi.so.40", "/lib/libmpi.so.40"},
                      {"libmpich.so.12", "/lib/libmpich.so.12"}};
  system.elfs = {{"/lib/libc.so.6", {EM_X86_64, false, false, "abcdef"}},
                 {"/lib/libmpi.so.40", {EM_X86_64, true, true, "012345"}},
                 {"/lib/libmpich.so.12", {EM_X86_64, true, false, ""}}};
  Check check = found_by(check_symbols, system).at("symbols.libraries");
  EXPECT_EQ(check.status, Status::kOk);
  EXPECT_EQ(check.found, "names of exported functions only: libc.so.6");
  EXPECT_EQ(check.details, (std::vector<std::string>{"libc.so.6: exported functions only",
                                                     "libmpi.so.40: functions, lines and what is inlined",
                                                     "libmpich.so.12: functions"}));
  EXPECT_FALSE(check.fix.empty());
  system.add("/usr/lib/debug/.build-id/ab/cdef.debug", 0644);
  check = found_by(check_symbols, system).at("symbols.libraries");
  EXPECT_EQ(check.found, "for all of libc.so.6, libmpi.so.40, libmpich.so.12");
  EXPECT_TRUE(check.fix.empty());
}

}  // namespace
}  // namespace clusterprof::cli::doctor
