// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

struct Installation : testing::Test {
  Installation() {
    for (const char* program : {"bin/clusterprof", "libexec/clusterprof/collector",
                                "libexec/clusterprof/analyze", "libexec/clusterprof/tui"})
      system.add(std::string("/opt/cp/") + program);
    for (const char* library : {"libclusterprof_agent.so", "libclusterprof_memory.so",
                                "libclusterprof_start.so", "python/clusterprof/__init__.py"})
      system.add(std::string("/opt/cp/lib/clusterprof/") + library, 0644);
    for (const char* link : {"lib64", "lib", "lib/x86_64-linux-gnu", "x86_64-linux-gnu", "IB"})
      system.add(std::string("/opt/cp/lib/clusterprof/") + link + "/libclusterprof_agent.so", 0644);
    for (const char* directory : {"/opt", "/opt/cp"}) {
      system.add(directory);
      system.facts[directory].is_directory = true;
    }
  }
  Check of(CheckFunction check, const std::string& id) { return found_by(check, system).at(id); }
  FakeSystem system;
};

TEST_F(Installation, IsWhole) {
  const Check check = of(check_files, "install.files");
  EXPECT_EQ(check.status, Status::kOk);
  EXPECT_EQ(check.found, "whole, below /opt/cp");
  EXPECT_TRUE(check.fix.empty());
}

TEST_F(Installation, WithoutTheAgentNothingIsRecorded) {
  system.facts.erase("/opt/cp/lib/clusterprof/libclusterprof_agent.so");
  system.facts.erase("/opt/cp/lib/clusterprof/libclusterprof_start.so");
  const Check check = of(check_files, "install.files");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_EQ(check.found, "missing: the agent, the starter");
  EXPECT_EQ(check.costs, "nothing can be recorded");
  EXPECT_EQ(check.details.front(), "/opt/cp/lib/clusterprof/libclusterprof_agent.so: missing");
}

TEST_F(Installation, WithoutTheStarterMuchStillWorks) {
  system.facts.erase("/opt/cp/lib/clusterprof/libclusterprof_start.so");
  const Check check = of(check_files, "install.files");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_NE(check.costs.find("srun --clusterprof"), std::string::npos);
}

TEST_F(Installation, EachNameThatOtherSystemsHaveForTheAgentIsLookedAt) {
  system.facts.erase("/opt/cp/lib/clusterprof/lib64/libclusterprof_agent.so");
  const Check check = of(check_files, "install.files");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "missing: lib64/libclusterprof_agent.so");
  EXPECT_NE(check.costs.find("containers"), std::string::npos);
}

TEST_F(Installation, PermissionsAndProcessor) {
  system.add("/opt/cp/libexec/clusterprof/collector", 0644);
  EXPECT_EQ(of(check_files, "install.files").found, "may not be executed: the collector");
  system.add("/opt/cp/libexec/clusterprof/collector");
  system.add("/opt/cp/lib/clusterprof/libclusterprof_agent.so", 0600);
  EXPECT_EQ(of(check_files, "install.files").found, "may not be read: the agent");
  system.add("/opt/cp/lib/clusterprof/libclusterprof_agent.so", 0644);
  system.elfs["/opt/cp/lib/clusterprof/libclusterprof_agent.so"] = {EM_PPC64, false, false, ""};
  const Check check = of(check_files, "install.files");
  EXPECT_EQ(check.found, "built for another processor: the agent");
  EXPECT_EQ(check.status, Status::kFail);
}

TEST_F(Installation, LibrariesOfLibrariesAreLookedFor) {
  system.needed["/opt/cp/libexec/clusterprof/collector"] = {"libdw.so.1", "libc.so.6"};
  system.needed["/lib/libdw.so.1"] = {"libelf.so.1", "libdw.so.1"};
  system.libraries = {{"libdw.so.1", "/lib/libdw.so.1"},
                      {"libc.so.6", "/lib/libc.so.6"},
                      {"libelf.so.1", "/lib/libelf.so.1"}};
  EXPECT_EQ(of(check_libraries, "install.libraries").status, Status::kOk);
  system.libraries.erase("libelf.so.1");
  const Check check = of(check_libraries, "install.libraries");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_EQ(check.found, "not found: libelf.so.1");
}

TEST_F(Installation, IsOpenToOthers) {
  EXPECT_EQ(of(check_access, "install.access").status, Status::kOk);
  system.facts["/opt"].mode = 0750;
  const Check closed = of(check_access, "install.access");
  EXPECT_EQ(closed.status, Status::kWarn);
  EXPECT_NE(closed.found.find("/opt is closed"), std::string::npos) << closed.found;
  EXPECT_NE(closed.fix.find("chmod a+rX /opt"), std::string::npos) << closed.fix;
  // Somebody's own.
  system.facts["/opt/cp"].owner = 1000;
  const Check own = of(check_access, "install.access");
  EXPECT_EQ(own.status, Status::kOk);
  EXPECT_EQ(own.found, "yours alone (/opt is closed to others)");
}

TEST_F(Installation, ClosedFilesAreNamed) {
  system.facts["/opt/cp/libexec/clusterprof/collector"].mode = 0700;
  const Check check = of(check_access, "install.access");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_NE(check.found.find("collector is closed"), std::string::npos) << check.found;
}

}  // namespace
}  // namespace clusterprof::cli::doctor
