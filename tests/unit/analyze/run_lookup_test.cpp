// SPDX-License-Identifier: BSD-3-Clause
#include "cli/analyze/run_lookup.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/analyze/output.hpp"
#include "formats/run/run_control.hpp"

namespace clusterprof::cli {
namespace {

namespace fs = std::filesystem;

TEST(RunLookup, FindsTheJobInTheName) {
  EXPECT_EQ(job_in_name("clusterprof-train-1234.0"), "1234.0");
  EXPECT_EQ(job_in_name("clusterprof-train-1234.0-2"), "1234.0");
  EXPECT_EQ(job_in_name("clusterprof-train-1234"), "1234");
  EXPECT_EQ(job_in_name("clusterprof-train-1234.snapshot-1"), "");
  EXPECT_EQ(job_in_name("clusterprof-train-1234.0.snapshot-12"), "");
  EXPECT_EQ(job_in_name("clusterprof-train-1234-3"), "1234");
  EXPECT_EQ(job_in_name("clusterprof-train-1234_7.0"), "1234_7.0");
  EXPECT_EQ(job_in_name("clusterprof-train-1234_7"), "1234_7");
  EXPECT_EQ(job_in_name("clusterprof-train-1234_7-2"), "1234_7");
  EXPECT_EQ(job_in_name("clusterprof-train-3.1-2"), "3.1");
  EXPECT_EQ(job_in_name("clusterprof-a-b-12-1234.0"), "1234.0");
  EXPECT_EQ(job_in_name("clusterprof-train-20261121-134502"), "20261121-134502");
  EXPECT_EQ(job_in_name("clusterprof-train-20261121-134502-2"), "20261121-134502");
  for (const char* name :
       {"", "mine", "mine-1234", "clusterprof-1234", "clusterprof-train", "clusterprof-train-",
        "clusterprof-train-12a", "clusterprof-train-1234.", "clusterprof-train-_7"})
    EXPECT_EQ(job_in_name(name), "") << name;
}

TEST(RunLookup, ComparesTheJobOfARun) {
  for (const char* id : {"1234", "1234_7", "1234_7.0"}) EXPECT_TRUE(is_of_job("1234_7.0", id)) << id;
  for (const char* id :
       {"123", "12345", "1234_8", "1234_70", "1234_7.1", "1234.0", "7", "", "1234_", "1234."})
    EXPECT_FALSE(is_of_job("1234_7.0", id)) << id;
  for (const char* id : {"1234", "1234.0"}) EXPECT_TRUE(is_of_job("1234.0", id)) << id;
  for (const char* id : {"1234.1", "1234.00", "1234_0", "0", "234"})
    EXPECT_FALSE(is_of_job("1234.0", id)) << id;
  EXPECT_TRUE(is_of_job("1234", "1234"));
  EXPECT_FALSE(is_of_job("1234", "1234.0"));
  EXPECT_TRUE(is_of_job("f2jQ8z", "f2jQ8z"));  // of other batch systems
  EXPECT_FALSE(is_of_job("f2jQ8z", "f2jQ8"));
  EXPECT_FALSE(is_of_job("20261121-134502", "20261121"));
}

class FindPath : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/clusterprof-lookup-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = fs::canonical(name);
    ::setenv("CLUSTERPROF_ROOT", root_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("CLUSTERPROF_ROOT");
    fs::remove_all(root_);
  }

  void make(const std::string& name, const std::string& job = "", bool recorded = true) {
    fs::create_directory(root_ / name);
    if (recorded) std::ofstream(root_ / name / "profile.h5") << "x";
    if (!job.empty()) fs::create_symlink(job, root_ / name / ".job");
  }
  // The name of what was found, or "exit STATUS: MESSAGE".
  static std::string find(const std::string& argument, Meant meant = Meant::kAny) {
    const Result<fs::path> found = find_path(argument, "run", meant);
    if (found) return found.value().filename().string();
    return "exit " + std::to_string(exit_status_of(found.error().kind)) + ": " + found.error().message;
  }

  fs::path root_;
};

TEST_F(FindPath, OfSeveralRunsOfAJobTheOneThatRunsIsMeant) {
  make("clusterprof-a-1234.0");
  make("clusterprof-b-1234.1");
  make("clusterprof-c-1234.2");
  const std::string all =
      "exit 2: 1234: which of these runs: clusterprof-a-1234.0, clusterprof-b-1234.1, clusterprof-c-1234.2";
  EXPECT_EQ(find("1234", Meant::kRunning), all) << "none runs";
  const auto begin = [&](const char* name) {
    ControlAnswer answer;
    answer.node = "n1";
    ASSERT_TRUE(write_answer((root_ / name).string(), answer));
  };
  begin("clusterprof-b-1234.1");
  EXPECT_EQ(find("1234", Meant::kRunning), "clusterprof-b-1234.1");
  EXPECT_EQ(find("1234"), all);
  EXPECT_EQ(find("1234.0", Meant::kRunning), "clusterprof-a-1234.0");
  begin("clusterprof-c-1234.2");
  EXPECT_EQ(find("1234", Meant::kRunning),
            "exit 2: 1234: which of these runs: clusterprof-b-1234.1, clusterprof-c-1234.2");
}

TEST_F(FindPath, FindsRunsByJobAndStep) {
  make("clusterprof-a-1234.0");
  make("clusterprof-b-1234.1");
  make("clusterprof-c-1235");
  make("clusterprof-c-1235-2");
  make("clusterprof-d-1236_7.0");
  make("clusterprof-d-1236_8.0");
  make("clusterprof-e-1236_8.1");
  make("clusterprof-f-1237.0");
  EXPECT_EQ(find("1234.0"), "clusterprof-a-1234.0");
  EXPECT_EQ(find("1237"), "clusterprof-f-1237.0");
  EXPECT_EQ(find("1236_7"), "clusterprof-d-1236_7.0");
  EXPECT_EQ(find("1236_8.1"), "clusterprof-e-1236_8.1");
  EXPECT_EQ(find("1234"), "exit 2: 1234: which of these runs: clusterprof-a-1234.0, clusterprof-b-1234.1");
  EXPECT_EQ(find("1235"), "exit 2: 1235: which of these runs: clusterprof-c-1235, clusterprof-c-1235-2");
  EXPECT_EQ(find("1236").substr(0, 6), "exit 2");
  EXPECT_EQ(find("clusterprof-c-1235-2"), "clusterprof-c-1235-2");
  EXPECT_EQ(find("1238"), "exit 1: 1238: nothing found: no run of that job in " + root_.string());
  EXPECT_EQ(find("nowhere"), "exit 1: nowhere: nothing found: there is no such run");
  EXPECT_EQ(find("no/1234"), "exit 1: no/1234: nothing found: there is no such run");
}

TEST_F(FindPath, RecordedJobCountsMoreThanTheName) {
  make("mine", "1234_7.0 1241.0");
  make("clusterprof-sweep-512-77", "77");  // not the second run of job 512
  make("clusterprof-x-7-2", "7");          // not job 2
  EXPECT_EQ(find("1234"), "mine");
  EXPECT_EQ(find("1234_7"), "mine");
  EXPECT_EQ(find("1241"), "mine");
  EXPECT_EQ(find("1241.0"), "mine");
  EXPECT_EQ(find("77"), "clusterprof-sweep-512-77");
  EXPECT_EQ(find("7"), "clusterprof-x-7-2");
  EXPECT_EQ(find("512").substr(0, 6), "exit 1");
  EXPECT_EQ(find("2").substr(0, 6), "exit 1");
  EXPECT_EQ(job_of_run(root_ / "mine"), "1234_7.0");
  EXPECT_EQ(job_of_run(root_ / "clusterprof-x-7-2"), "7");
}

TEST_F(FindPath, DirectoryOfThatNameWins) {
  make("clusterprof-a-1234.0");
  make("1234.0");
  EXPECT_EQ(find("1234.0"), "1234.0");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  fs::create_directory("1234");
  EXPECT_EQ(find_path("1234", "run").value(), fs::path("1234"));
  std::ofstream("77") << "a file";
  EXPECT_EQ(find("77").substr(0, 6), "exit 1");
  fs::current_path(before);
}

TEST_F(FindPath, PrefersRunsThatRecordedSomething) {
  make("clusterprof-a-1234.0", "", false);
  EXPECT_EQ(find("1234"), "clusterprof-a-1234.0");
  make("clusterprof-b-1234.1");
  EXPECT_EQ(find("1234"), "clusterprof-b-1234.1");
}

TEST_F(FindPath, IgnoresTheRendezvousLinkOfAKilledRun) {
  make("clusterprof-a-1234.0", "1234.0");
  fs::create_symlink("clusterprof-a-1234.0", root_ / ".clusterprof-slurm-80bc891b2279561b");
  EXPECT_EQ(find("1234.0"), "clusterprof-a-1234.0");
}

TEST_F(FindPath, NamesAFewOfMany) {
  for (int step = 0; step < 12; ++step) make("clusterprof-a-1234." + std::to_string(step));
  const std::string said = find("1234");
  EXPECT_NE(said.find("clusterprof-a-1234.2, clusterprof-a-1234.3"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("clusterprof-a-1234.7 and 4 more (clusterprof ls --job 1234)")) << said;
}

TEST_F(FindPath, LooksInTheCurrentDirectoryWithoutRoot) {
  ::setenv("CLUSTERPROF_ROOT", (root_ / "none").c_str(), 1);
  EXPECT_EQ(find("1234").substr(0, 6), "exit 1");
  ::setenv("CLUSTERPROF_ROOT", "", 1);
  EXPECT_EQ(run_root(), ".");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  make("clusterprof-a-1234.0");
  EXPECT_EQ(find("1234"), "clusterprof-a-1234.0");
  EXPECT_NE(find("1").find("in . (CLUSTERPROF_ROOT is not set)"), std::string::npos);
  fs::current_path(before);
}

}  // namespace
}  // namespace clusterprof::cli
