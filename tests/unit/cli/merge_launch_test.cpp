// SPDX-License-Identifier: BSD-3-Clause
#include "cli/merge_launch.hpp"

#include <gtest/gtest.h>

#include <set>

#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

using Variables = std::map<std::string, std::string>;

const InstallLayout kLayout{"/p/bin/clusterprof", "/p/libexec/clusterprof/collector",
                            "/p/libexec/clusterprof/analyze", "/p/lib/clusterprof"};
const std::string kOpenMpi = "/p/libexec/clusterprof/merge-openmpi";
const std::string kMpich = "/p/libexec/clusterprof/merge-mpich";

// With these programs, under a launcher's daemon that does not have the variables of its processes.
MergeLaunch choose(const Variables& variables, const std::set<std::string>& programs,
                   const Variables& parent = {}) {
  const auto check = [&](const std::string& program) {
    return programs.contains(program) ? std::nullopt : std::optional(ProgramProblem{"no " + program, true});
  };
  return choose_merge_program(kLayout, fake_environment(variables), fake_environment(parent), check);
}

const Variables kUnderOpenMpi{
    {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}};
const Variables kUnderHydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}, {"MPI_LOCALRANKID", "1"}};

TEST(MergeLaunch, TakesTheProgramOfTheLaunchersFamily) {
  EXPECT_EQ(choose(kUnderOpenMpi, {kOpenMpi, kMpich}).program, kOpenMpi);
  EXPECT_EQ(choose(kUnderHydra, {kOpenMpi, kMpich}).program, kMpich);
}

TEST(MergeLaunch, DoesNotTakeTheOtherFamilysProgram) {
  for (const auto& [variables, missing] :
       {std::pair(kUnderOpenMpi, kOpenMpi), std::pair(kUnderHydra, kMpich)}) {
    const MergeLaunch launch = choose(variables, {missing == kMpich ? kOpenMpi : kMpich});
    EXPECT_EQ(launch.program, "");
    EXPECT_EQ(launch.alone_because.text, "no " + missing);
    EXPECT_TRUE(launch.alone_because.of_this_node);
  }
}

TEST(MergeLaunch, UnderSlurmGoesByTheProtocolAndWhatIsThere) {
  const Variables slurm{{"SLURM_STEP_ID", "5"}, {"SLURM_PROCID", "1"}};
  Variables pmix = slurm, pmi2 = slurm;
  pmix.merge(Variables{{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "slurm.pmix.7.5"}});
  pmi2.merge(Variables{{"PMI_RANK", "1"}, {"PMI_FD", "7"}});
  EXPECT_EQ(choose(pmix, {kOpenMpi, kMpich}).program, kOpenMpi);
  EXPECT_EQ(choose(pmix, {kMpich}).program, kMpich);
  EXPECT_EQ(choose(pmi2, {kOpenMpi, kMpich}).program, kMpich);
  EXPECT_EQ(choose(pmi2, {kOpenMpi}).program, kOpenMpi);
  EXPECT_EQ(choose(pmi2, {}).alone_because.text, "no " + kMpich);

  const MergeLaunch without = choose(slurm, {kOpenMpi, kMpich});
  EXPECT_EQ(without.program, "");
  EXPECT_NE(without.alone_because.text.find("--mpi="), std::string::npos);
  EXPECT_FALSE(without.alone_because.of_this_node);
}

TEST(MergeLaunch, IsForWhatTheLauncherItselfStarted) {
  const MergeLaunch in_script = choose(kUnderOpenMpi, {kOpenMpi}, kUnderOpenMpi);
  EXPECT_EQ(in_script.program, "");
  EXPECT_NE(in_script.alone_because.text.find("script"), std::string::npos);
  EXPECT_EQ(choose(kUnderHydra, {kMpich}, kUnderHydra).program, "");

  // mpirun in a batch script, and mpirun started by a process of another one.
  Variables in_batch = kUnderOpenMpi;
  in_batch["SLURM_PROCID"] = "0";
  EXPECT_EQ(choose(in_batch, {kOpenMpi}, {{"SLURM_PROCID", "0"}}).program, kOpenMpi);
  Variables outer = kUnderOpenMpi, inner = kUnderOpenMpi;
  outer["PMIX_NAMESPACE"] = "1";
  inner["PMIX_NAMESPACE"] = "2";
  EXPECT_EQ(choose(inner, {kOpenMpi}, outer).program, kOpenMpi);
}

TEST(MergeLaunch, CheckSaysWhyAProgramDoesNotRun) {
  EXPECT_FALSE(check_by_running("/bin/true"));
  const auto absent = check_by_running("/nowhere/merge-openmpi");
  ASSERT_TRUE(absent);
  EXPECT_NE(absent->text.find("has no /nowhere/merge-openmpi"), std::string::npos);
  EXPECT_FALSE(absent->of_this_node);
  const auto failing = check_by_running("/bin/false");
  ASSERT_TRUE(failing);
  EXPECT_NE(failing->text.find("/bin/false"), std::string::npos);
  EXPECT_TRUE(failing->of_this_node);
  const auto complaining = check_by_running("/bin/cat");  // which knows no --can-run
  ASSERT_TRUE(complaining);
  EXPECT_NE(complaining->text.find("can-run"), std::string::npos);
  EXPECT_EQ(complaining->text.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::cli
