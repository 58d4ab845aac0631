// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdio>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

const std::string kLauncher = "/opt/cp/bin/clusterprof";

std::string recording(const std::string& run, const std::string& program) {
  return kLauncher + " --quiet --rate 1000 --output /scratch/" + run + " -- " + kLibexec + program;
}

struct SelfTest : testing::Test {
  SelfTest() {
    request.self_test = true;
    request.scratch = "/scratch";
    system.variables["PATH"] = "/usr/bin";
    system.says(recording("shares", "self-test"),
                "three_quarters_s 2.25\none_quarter_s 0.75\nsleeps_s 0.5\n");
    profile_of_shares(2.25, 0.75, 0.5, 4e-6);
  }
  void profile_of_shares(double three, double one, double idle, double handler) {
    char text[512];
    std::snprintf(text, sizeof text,
                  R"({"run":{"dropped":{"ring_full":3}},"ranks":[{"rank":0,"idle_s":%g}],"functions":[)"
                  R"({"name":"three_quarters","cpu_s":%g},{"name":"one_quarter","cpu_s":%g}],)"
                  R"("quality":{"handler_median_s":%g}})",
                  idle, three, one, handler);
    system.says(kLauncher + " report --json /scratch/shares", text);
  }
  // With Open MPI's mpirun; `more`: after "-n 2 ".
  void with_mpi() {
    system.add("/usr/bin/mpirun");
    system.add(kLibexec + "self-test-openmpi");
    system.says("/usr/bin/mpirun --version", "mpirun (Open MPI) 4.1.4\n");
    system.says(kMpirun + kLibexec + "self-test-openmpi calls", "call_s 0.00000005\n");
    system.says(kMpirun + recording("calls_openmpi", "self-test-openmpi calls"), "call_s 0.00000012\n");
    system.says(kLauncher + " report --json /scratch/calls_openmpi", "{}");
    system.says(kMpirun + recording("waits_openmpi", "self-test-openmpi waits"),
                "waited_s 1.0\nlate_s 1.01\n");
    profile_of_waits(1.0, "late_rank", 1.0);
  }
  void profile_of_waits(double wait, const char* cause, double charged) {
    char text[512];
    std::snprintf(
        text, sizeof text,
        R"({"mpi":{"waits":[{"kind":"late_sender","rank":1,"wait_s":9},)"
        R"({"kind":"late_sender","rank":0,"wait_s":%g,"caused_by":[)"
        R"({"rank":0,"wait_s":9,"function":"late_rank"},{"rank":1,"wait_s":%g,"function":"%s"}]}]}})",
        wait, charged, cause);
    system.says(kLauncher + " report --json /scratch/waits_openmpi", text);
  }
  const std::string kMpirun = "/usr/bin/mpirun --oversubscribe --bind-to none -n 2 ";
  FakeSystem system;
  Request request;
};

TEST_F(SelfTest, AcceptsARightProfile) {
  const auto checks = found_by(check_shares, system, request);
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_EQ(checks.at("self_test.shares").status, Status::kOk);
  EXPECT_EQ(checks.at("self_test.shares").found,
            "three_quarters() has 75.0 % of the CPU time by the program's own clock, 75.0 % in the profile: "
            "0.0 points off; both functions together 3.000 s and 3.000 s");
  EXPECT_EQ(checks.at("self_test.idle").found,
            "slept for 0.500 s by its own clock, 0.500 s in the profile: 0 ms off");
  EXPECT_EQ(checks.at("self_test.sample_cost").status, Status::kOk);
  EXPECT_EQ(
      checks.at("self_test.sample_cost").found,
      "4.0 µs (median, by the handler's own clock): 0.04 % of the program's time at the default rate of "
      "100 Hz");
  EXPECT_EQ(checks.at("self_test.sample_cost").details,
            std::vector<std::string>{"3 samples were lost at 1000 Hz: the collector was too slow"});
}

TEST_F(SelfTest, NoticesWrongShares) {
  profile_of_shares(2.15, 0.85, 0.5, 4e-6);  // 71.7 %
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").status, Status::kWarn);
  profile_of_shares(2.0, 1.0, 0.5, 4e-6);  // 66.7 %
  const Check off = found_by(check_shares, system, request).at("self_test.shares");
  EXPECT_EQ(off.status, Status::kFail);
  EXPECT_NE(off.found.find("66.7 % in the profile: 8.3 points off"), std::string::npos) << off.found;
  EXPECT_FALSE(off.costs.empty());
  EXPECT_TRUE(off.fix.starts_with("you: "));
  // The right shares of half of the time.
  profile_of_shares(1.125, 0.375, 0.5, 4e-6);
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").status, Status::kFail);
  // Sleep that was told as something else, and samples that cost a hundredth.
  profile_of_shares(2.25, 0.75, 0.3, 150e-6);
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.idle").status, Status::kFail);
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.sample_cost").status, Status::kWarn);
}

TEST_F(SelfTest, ReportsProgramsThatFail) {
  system.says(recording("shares", "self-test"), "", 125, "clusterprof: no room\nmore\n");
  Check check = found_by(check_shares, system, request).at("self_test.shares");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_EQ(check.found, "recording it failed: clusterprof: no room");
  system.hangs(recording("shares", "self-test"));
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").found,
            "recording it did not end within a minute");
  system.says(recording("shares", "self-test"), "three_quarters_s 2.25\n");
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").found,
            "the program did not say what it did");
  system.says(recording("shares", "self-test"), "three_quarters_s 2.25\none_quarter_s 0.75\nsleeps_s 0.5\n");
  system.says(kLauncher + " report --json /scratch/shares", "{");
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").found, "the report is no JSON");
  system.says(kLauncher + " report --json /scratch/shares", R"({"functions":[{"name":7,"cpu_s":"x"}]})");
  EXPECT_EQ(found_by(check_shares, system, request).at("self_test.shares").found,
            "none of the program's functions is in the profile");
}

TEST_F(SelfTest, WaitsAreThoseOfRankZeroForRankOne) {
  with_mpi();
  auto checks = found_by(check_waits, system, request);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks.at("self_test.waits_openmpi").status, Status::kOk);
  EXPECT_EQ(
      checks.at("self_test.waits_openmpi").found,
      "rank 0 waited 1.000 s for rank 1 by their own clocks, 1.000 s in the profile; late_rank() of rank 1 "
      "is charged with 1.000 s: the wait is 0.0 % off, its cause 0.0 %");
  EXPECT_EQ(checks.at("self_test.call_cost_openmpi").status, Status::kOk);
  EXPECT_EQ(checks.at("self_test.call_cost_openmpi").found,
            "MPI_Iprobe takes 50 ns alone and 120 ns recorded: 70 ns more");
}

TEST_F(SelfTest, NoticesWrongWaits) {
  with_mpi();
  const auto status = [&] {
    return found_by(check_waits, system, request).at("self_test.waits_openmpi").status;
  };
  profile_of_waits(0.95, "late_rank", 0.95);
  EXPECT_EQ(status(), Status::kWarn);
  profile_of_waits(0.8, "late_rank", 0.8);
  EXPECT_EQ(status(), Status::kFail);
  profile_of_waits(1.0, "main", 1.0);  // the right time, and another's fault
  EXPECT_EQ(status(), Status::kFail);
  profile_of_waits(1.0, "late_rank", 0.85);
  EXPECT_EQ(status(), Status::kWarn);
  profile_of_waits(1.0, "waiting for a processor", 1.0);  // a busy machine
  EXPECT_EQ(status(), Status::kOk);
  system.says(kLauncher + " report --json /scratch/waits_openmpi", R"({"mpi":{}})");
  EXPECT_EQ(status(), Status::kFail);
}

TEST_F(SelfTest, WithoutAnMpiThatFits) {
  const auto without = found_by(check_waits, system, request);
  ASSERT_EQ(without.size(), 1u);
  EXPECT_EQ(without.at("self_test.waits").status, Status::kOk);
  EXPECT_TRUE(without.at("self_test.waits").found.starts_with("not tried: "));
  // The launcher of another family.
  with_mpi();
  system.says("/usr/bin/mpirun --version", "HYDRA build details:\n    Version: 4.0.2\n");
  EXPECT_TRUE(found_by(check_waits, system, request).contains("self_test.waits"));
}

TEST_F(SelfTest, TwoRanksNeedTwoProcessors) {
  with_mpi();
  system.cpus = 1;
  const auto checks = found_by(check_waits, system, request);
  EXPECT_EQ(checks.at("self_test.waits_openmpi").found, "not tried: two ranks need two processors");
  EXPECT_EQ(checks.at("self_test.waits_openmpi").status, Status::kOk);
}

TEST_F(SelfTest, RootNeedsOpenMpisPermission) {
  with_mpi();
  system.uid = 0;
  found_by(check_waits, system, request);
  EXPECT_NE(std::find(system.ran.begin(), system.ran.end(),
                      "/usr/bin/mpirun --oversubscribe --bind-to none --allow-run-as-root -n 2 " + kLibexec +
                          "self-test-openmpi calls"),
            system.ran.end());
}

}  // namespace
}  // namespace clusterprof::cli::doctor
