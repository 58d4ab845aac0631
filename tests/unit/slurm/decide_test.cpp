// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/start/decide.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "slurm/start/match.hpp"

namespace clusterprof::start {
namespace {

// An environment as the kernel lays it out.
class Variables {
 public:
  explicit Variables(std::vector<std::string> entries) : entries_(std::move(entries)) {
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> entries;
    for (char* const* at = pointers_.data(); *at != nullptr; ++at) entries.emplace_back(*at);
    return entries;
  }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

constexpr long kPid = 4711;
const std::string kActive = "CLUSTERPROF_START=/opt/clusterprof/bin/clusterprof";

std::vector<std::string> task_of_srun(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {kActive, "SLURM_STEP_ID=0", "SLURM_TASK_PID=4711", "SLURM_PROCID=3"});
  return more;
}

Action of(const char* path, std::vector<std::string> entries, const char* executable = nullptr,
          long pid = kPid) {
  Variables variables(std::move(entries));
  return decide({path, executable == nullptr ? path : executable, variables.data(), pid});
}

TEST(Starter, StartsTasksOfSrun) {
  EXPECT_EQ(of("/home/u/stencil", task_of_srun()), Action::kStart);
  EXPECT_EQ(of("/home/u/job.py", task_of_srun(), "/usr/bin/python3.11"), Action::kStart);
  EXPECT_EQ(of("stencil", task_of_srun(), "/home/u/stencil"), Action::kStart);
  EXPECT_EQ(of("/usr/bin/sh", {kActive, "SLURM_STEP_ID=17", "SLURM_TASK_PID=4711"}), Action::kStart);
}

TEST(Starter, DoesNothingUnlessAsked) {
  EXPECT_EQ(of("/home/u/stencil", {"SLURM_STEP_ID=0", "SLURM_TASK_PID=4711"}), Action::kLeave);
  EXPECT_EQ(of("/usr/bin/srun", {}), Action::kLeave);
  EXPECT_EQ(of("/home/u/stencil", {"CLUSTERPROF_START=", "SLURM_STEP_ID=0", "SLURM_TASK_PID=4711"}),
            Action::kLeave);
  EXPECT_EQ(
      of("/home/u/stencil", {"CLUSTERPROF_START=bin/clusterprof", "SLURM_STEP_ID=0", "SLURM_TASK_PID=4711"}),
      Action::kLeave);
  EXPECT_EQ(of("/home/u/stencil", {"CLUSTERPROF_STARTER=/x", "SLURM_STEP_ID=0", "SLURM_TASK_PID=4711"}),
            Action::kLeave);
}

TEST(Starter, LeavesProcessesThatATaskStartsAlone) {
  // TaskProlog and its children, and those of the task.
  EXPECT_EQ(of("/etc/slurm/task_prolog", task_of_srun(), "/usr/bin/dash", kPid + 1), Action::kLeave);
  EXPECT_EQ(of("/usr/bin/date", task_of_srun(), nullptr, kPid + 2), Action::kLeave);
}

TEST(Starter, LeavesBatchScriptsAndShellsAlone) {
  for (const char* step :
       {"SLURM_STEP_ID=4294967291", "SLURM_STEP_ID=4294967290", "SLURM_STEP_ID=4294967292"}) {
    EXPECT_EQ(of("/var/spool/slurm_script", {kActive, step, "SLURM_TASK_PID=4711"}, "/usr/bin/bash"),
              Action::kLeave)
        << step;
  }
  EXPECT_EQ(of("/var/spool/slurm_script", {kActive, "SLURM_TASK_PID=4711"}, "/usr/bin/bash"), Action::kLeave);
}

TEST(Starter, IsNotMisledByTheStepThatTheJobWasSubmittedFrom) {
  EXPECT_EQ(of("/var/spool/slurm_script", task_of_srun({"CLUSTERPROF_START_BATCH=1"}), "/usr/bin/bash"),
            Action::kLeave);
  EXPECT_EQ(of("/home/u/stencil", task_of_srun({"CLUSTERPROF_START_BATCH=1", "OMPI_COMM_WORLD_RANK=0"})),
            Action::kStart);
}

TEST(Starter, IsNotMisledByGarbage) {
  for (const char* step : {"", "abc", "0x0", "-1", " 0", "0 ", "99999999999999999999"}) {
    const std::vector<std::string> entries = {kActive, std::string("SLURM_STEP_ID=") + step,
                                              "SLURM_TASK_PID=4711"};
    EXPECT_EQ(of("/home/u/stencil", entries), Action::kLeave) << step;
  }
  for (const char* pid : {"", "abc", "4711x", "-4711", "99999999999999999999"}) {
    const std::vector<std::string> entries = {kActive, "SLURM_STEP_ID=0",
                                              std::string("SLURM_TASK_PID=") + pid};
    EXPECT_EQ(of("/home/u/stencil", entries), Action::kLeave) << pid;
  }
  EXPECT_EQ(of("/home/u/stencil", {kActive, "OMPI_COMM_WORLD_RANK=x", "MPI_LOCALRANKID="}), Action::kLeave);
  EXPECT_EQ(of("/home/u/stencil", {kActive, "SLURM_STEP_ID", "SLURM_TASK_PID=4711"}), Action::kLeave);
  EXPECT_EQ(of("", task_of_srun()), Action::kStart);
}

TEST(Starter, LeavesMpiLaunchersAlone) {
  const std::vector<std::string> batch = {kActive, "SLURM_TASK_PID=99"};
  for (const char* path : {"/usr/bin/mpirun", "/usr/bin/mpirun.openmpi", "/usr/bin/mpiexec.hydra",
                           "/usr/bin/orterun", "/usr/bin/orted", "/usr/bin/prterun", "/usr/bin/prted",
                           "/usr/bin/hydra_pmi_proxy", "/usr/bin/hydra_bstrap_proxy"}) {
    EXPECT_EQ(of(path, batch), Action::kLeave) << path;
    EXPECT_EQ(of(path, task_of_srun()), Action::kLeave) << path;
  }
  // A link, and a script.
  EXPECT_EQ(of("/opt/mpi/bin/run", task_of_srun(), "/opt/mpi/bin/orterun"), Action::kLeave);
  EXPECT_EQ(of("/opt/mpi/bin/mpiexec", task_of_srun(), "/usr/bin/bash"), Action::kLeave);
  // But not these.
  EXPECT_EQ(of("/home/u/mpirunner", task_of_srun()), Action::kStart);
  EXPECT_EQ(of("/home/u/mpirun/stencil", task_of_srun()), Action::kStart);
}

TEST(Starter, StartsRanksOfMpiLaunchers) {
  EXPECT_EQ(of("/home/u/stencil", {kActive, "SLURM_TASK_PID=99", "OMPI_COMM_WORLD_RANK=0"}), Action::kStart);
  EXPECT_EQ(
      of("/home/u/stencil", {kActive, "SLURM_TASK_PID=99", "SLURM_STEP_ID=0", "OMPI_COMM_WORLD_RANK=7"}),
      Action::kStart);
  EXPECT_EQ(of("/home/u/stencil", {kActive, "MPI_LOCALRANKID=1"}), Action::kStart);
}

TEST(Starter, StepsAsideForSrunAndContainers) {
  for (const char* path :
       {"/opt/clusterprof/bin/clusterprof", "/usr/bin/apptainer", "/usr/bin/singularity", "/usr/bin/podman",
        "/usr/bin/enroot", "/usr/bin/ch-run", "/usr/bin/shifter", "/usr/bin/srun"}) {
    EXPECT_EQ(of(path, task_of_srun()), Action::kStepAside) << path;
    EXPECT_EQ(of(path, {kActive, "OMPI_COMM_WORLD_RANK=0"}), Action::kStepAside) << path;
  }
  EXPECT_EQ(of("/usr/bin/sbatch", {kActive}), Action::kSubmit);
  EXPECT_EQ(of("/usr/bin/salloc", task_of_srun()), Action::kSubmit);
}

int first(const char* path, bool is_script, std::vector<const char*> argv) {
  return first_argument(path, is_script, static_cast<int>(argv.size()), argv.data());
}

TEST(Starter, FindsTheUsersArguments) {
  EXPECT_EQ(first("/usr/bin/python3", false, {"python3", "train.py"}), 1);
  EXPECT_EQ(first("/usr/bin/true", false, {"true"}), 1);
  EXPECT_EQ(first("/usr/bin/true", false, {}), -1);
  EXPECT_EQ(first("./run.sh", true, {"/bin/sh", "./run.sh", "a", "./run.sh"}), 2);
  EXPECT_EQ(first("./run.sh", true, {"/bin/sh", "-e", "./run.sh", "a"}), 3);
  EXPECT_EQ(first("./run.py", true, {"/usr/bin/env", "-S python3 -u", "./run.py"}), 3);
  // An interpreter that is a script.
  EXPECT_EQ(first("./job", true, {"/bin/sh", "-e", "/opt/interpreter", "-x", "./job", "a"}), 5);
  EXPECT_EQ(first("./run.sh", true, {"/bin/sh", "/dev/fd/3", "a"}), -1);
}

TEST(Starter, RemovesItself) {
  const auto left = [](std::vector<std::string> entries) {
    Variables variables(std::move(entries));
    remove_starter(variables.data());
    return variables.left();
  };
  using Entries = std::vector<std::string>;
  const std::string it = "/opt/clusterprof/lib/clusterprof/libclusterprof_start.so";
  EXPECT_EQ(left({"A=1", "LD_PRELOAD=" + it, kActive, "B=2", "CLUSTERPROF_START_BATCH=1"}),
            (Entries{"A=1", "B=2"}));
  EXPECT_EQ(left({"LD_PRELOAD=libm.so:" + it}), Entries{"LD_PRELOAD=libm.so"});
  EXPECT_EQ(left({"LD_PRELOAD=" + it + ":libm.so"}), Entries{"LD_PRELOAD=libm.so"});
  EXPECT_EQ(left({"LD_PRELOAD=a.so " + it + " b.so:" + it}), Entries{"LD_PRELOAD=a.so b.so"});
  EXPECT_EQ(left({"LD_PRELOAD=" + it + ":" + it}), Entries{});
  EXPECT_EQ(left({"LD_PRELOAD=x" + it + "x:/y/libclusterprof_starter.so"}),
            Entries{"LD_PRELOAD=x" + it + "x:/y/libclusterprof_starter.so"});
  EXPECT_EQ(left({"LD_PRELOADS=" + it, "CLUSTERPROF_STARTED=1"}),
            (Entries{"LD_PRELOADS=" + it, "CLUSTERPROF_STARTED=1"}));
  EXPECT_EQ(left({}), Entries{});
}

TEST(Starter, RemovesTheOptionOfTheJob) {
  Variables variables({"A=1", "_SLURM_SPANK_OPTION_clusterprof_clusterprof=(null)",
                       "SLURM_SPANK_CLUSTERPROF=1",
                       "SLURM_SPANK__SLURM_SPANK_OPTION_clusterprof_clusterprof=(null)",
                       "_SLURM_SPANK_OPTION_other_other=1"});
  remove_option(variables.data());
  EXPECT_EQ(variables.left(), (std::vector<std::string>{"A=1", "_SLURM_SPANK_OPTION_other_other=1"}));
}

TEST(Starter, PrintsMessagesFromOneRankOnly) {
  const auto speaks = [](std::vector<std::string> entries) {
    Variables variables(std::move(entries));
    return speaks_for_all(variables.data());
  };
  EXPECT_TRUE(speaks({}));
  EXPECT_TRUE(speaks({"SLURM_PROCID=0"}));
  EXPECT_FALSE(speaks({"SLURM_PROCID=2"}));
  // Under mpirun those of Slurm are the daemon's.
  EXPECT_FALSE(speaks({"SLURM_PROCID=0", "OMPI_COMM_WORLD_RANK=5"}));
  EXPECT_TRUE(speaks({"SLURM_PROCID=1", "PMI_RANK=0"}));
}

// The site's reason against recording; "": there is none.
std::string reason(const char* path, std::vector<std::string> entries) {
  Variables variables(std::move(entries));
  const char* const word = reason_against({path, path, variables.data(), kPid});
  return word == nullptr ? "" : word;
}

TEST(Starter, FollowsTheSitesListsOfCommands) {
  const auto task = [](const char* more) { return task_of_srun({more}); };
  EXPECT_EQ(reason("/usr/bin/hostname", task_of_srun()), "");
  EXPECT_EQ(reason("/usr/bin/hostname", task("CLUSTERPROF_START_NOT_COMMANDS=date,host*")),
            "command-excluded");
  EXPECT_EQ(reason("hostname", task("CLUSTERPROF_START_NOT_COMMANDS=hostname")), "command-excluded");
  EXPECT_EQ(reason("/usr/bin/hostnames", task("CLUSTERPROF_START_NOT_COMMANDS=hostname,?ostname")), "");
  EXPECT_EQ(reason("/opt/a/solve", task("CLUSTERPROF_START_NOT_COMMANDS=/opt/*")), "command-excluded");
  EXPECT_EQ(reason("/home/opt/solve", task("CLUSTERPROF_START_NOT_COMMANDS=/opt/*,opt")), "");
  EXPECT_EQ(reason("/home/u/train.py", task("CLUSTERPROF_START_COMMANDS=*.py,,vasp")), "");
  EXPECT_EQ(reason("/home/u/train", task("CLUSTERPROF_START_COMMANDS=*.py,vasp")), "command-not-included");
  EXPECT_EQ(reason("/home/u/train", task("CLUSTERPROF_START_COMMANDS=")), "");
}

TEST(Starter, LeavesSmallRunsAloneWhereTheSiteSaysSo) {
  const std::string four = "CLUSTERPROF_START_MIN_RANKS=4";
  EXPECT_EQ(reason("a", task_of_srun({four, "SLURM_STEP_NUM_TASKS=3"})), "too-few-ranks");
  EXPECT_EQ(reason("a", task_of_srun({four, "SLURM_STEP_NUM_TASKS=4"})), "");
  EXPECT_EQ(reason("a", task_of_srun({four})), "");
  // A component of a heterogeneous step knows only its own tasks.
  EXPECT_EQ(reason("a", task_of_srun({four, "SLURM_STEP_NUM_TASKS=3", "SLURM_HET_SIZE=2"})), "");
  // Under mpirun the step is that of its daemons.
  EXPECT_EQ(reason("a", {kActive, four, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2",
                         "SLURM_STEP_NUM_TASKS=8"}),
            "too-few-ranks");
  EXPECT_EQ(reason("a", {kActive, four, "MPI_LOCALRANKID=0", "PMI_SIZE=16", "SLURM_STEP_NUM_TASKS=2"}), "");
}

// What a rank of mpirun starts looks like the rank.
TEST(Starter, StepsAsideWhereWhatAnExcludedProgramStartsWouldBeTakenForTheRank) {
  const auto against = [](std::vector<std::string> entries) {
    Variables variables(std::move(entries));
    return action_against({"/usr/bin/bash", "/usr/bin/bash", variables.data(), kPid});
  };
  const std::string bash = "CLUSTERPROF_START_NOT_COMMANDS=bash";
  for (const char* const rank : {"OMPI_COMM_WORLD_RANK=0", "MPI_LOCALRANKID=1"}) {
    EXPECT_EQ(of("/usr/bin/mkdir", {kActive, bash, rank}, nullptr, kPid + 1), Action::kStart);
    EXPECT_EQ(against({kActive, bash, rank}), Action::kStepAside);
  }
  EXPECT_EQ(of("/usr/bin/mkdir", task_of_srun({bash}), nullptr, kPid + 1), Action::kLeave);
  EXPECT_EQ(against(task_of_srun({bash})), Action::kLeave);
}

TEST(Starter, ExplainsToThoseWhoAsk) {
  const auto is = [](std::vector<std::string> entries) {
    Variables variables(std::move(entries));
    return is_explained(variables.data());
  };
  EXPECT_FALSE(is({}));
  EXPECT_FALSE(is({"CLUSTERPROF_EXPLAIN=0"}));
  EXPECT_TRUE(is({"CLUSTERPROF_EXPLAIN=1"}));
  EXPECT_TRUE(is({"CLUSTERPROF_START_ASKED=1"}));
}

TEST(Patterns, Match) {
  const auto fits = [](const std::string& pattern, const char* text) {
    return matches(pattern.data(), pattern.data() + pattern.size(), text);
  };
  for (const auto& [pattern, text] : {std::pair{"", ""},
                                      {"*", ""},
                                      {"*", "abc"},
                                      {"a*c", "abbc"},
                                      {"a*b*c", "aXbbYc"},
                                      {"*ab", "aab"},
                                      {"a?c", "abc"},
                                      {"**c", "c"},
                                      {"*a*a*a", "aaa"}})
    EXPECT_TRUE(fits(pattern, text)) << pattern << " " << text;
  for (const auto& [pattern, text] : {std::pair{"", "a"},
                                      {"a", ""},
                                      {"?", ""},
                                      {"a*c", "abcd"},
                                      {"*ab", "aba"},
                                      {"abc", "ab"},
                                      {"*a*a*a", "aa"}})
    EXPECT_FALSE(fits(pattern, text)) << pattern << " " << text;
}

}  // namespace
}  // namespace clusterprof::start
