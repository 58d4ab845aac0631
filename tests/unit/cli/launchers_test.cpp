// SPDX-License-Identifier: BSD-3-Clause
// Ranks of every launcher of formats/wire/launchers.h, from the environment that it gives to them.
#include "formats/wire/launchers.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/identity.hpp"
#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

using Variables = std::map<std::string, std::string>;

// Rank 1 of 2 on its node, of a launch of 2; "<r>" stands for the rank. -1: the launcher does not say.
struct Case {
  const char* name;      // of the case
  const char* launcher;  // in the table; empty: none is named
  Variables variables;
  int size, local_rank, local_size;
  // Another launch has another value here.
  const char* job;
};

const std::vector<Case> kCases = {
    {"openmpi",
     "openmpi",
     {{"OMPI_COMM_WORLD_RANK", "<r>"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "<r>"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"PMIX_RANK", "<r>"},
      {"PMIX_NAMESPACE", "1900412929"}},
     2,
     1,
     2,
     "PMIX_NAMESPACE"},
    {"jsrun",
     "jsrun",
     {{"JSM_NAMESPACE_RANK", "<r>"},
      {"JSM_NAMESPACE_SIZE", "2"},
      {"JSM_NAMESPACE_LOCAL_RANK", "<r>"},
      {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
      {"PMIX_NAMESPACE", "7"},
      {"PMIX_RANK", "<r>"},
      {"LSB_JOBID", "991"}},
     2,
     1,
     2,
     "PMIX_NAMESPACE"},
    {"jsrun without a name space",
     "jsrun",
     {{"JSM_NAMESPACE_RANK", "<r>"},
      {"JSM_NAMESPACE_SIZE", "2"},
      {"JSM_NAMESPACE_LOCAL_RANK", "<r>"},
      {"JSM_NAMESPACE_LOCAL_SIZE", "2"},
      {"LSB_JOBID", "991"}},
     2,
     1,
     2,
     "LSB_JOBID"},
    {"pmix", "pmix", {{"PMIX_RANK", "<r>"}, {"PMIX_NAMESPACE", "host-1@1"}}, -1, -1, -1, "PMIX_NAMESPACE"},
    {"mpirun_rsh",
     "mpirun_rsh",
     {{"MV2_COMM_WORLD_RANK", "<r>"},
      {"MV2_COMM_WORLD_SIZE", "2"},
      {"MV2_COMM_WORLD_LOCAL_RANK", "<r>"},
      {"MV2_COMM_WORLD_LOCAL_SIZE", "2"},
      {"MPIRUN_RANK", "<r>"},
      {"MPIRUN_NPROCS", "2"},
      {"MPIRUN_HOST", "n<r>"},
      {"MPIRUN_ID", "4711"}},
     2,
     1,
     2,
     "MPIRUN_ID"},
    // Hydra's proxy is not above us here.
    {"hydra",
     "",
     {{"PMI_RANK", "<r>"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "<r>"}, {"MPI_LOCALNRANKS", "2"}},
     2,
     1,
     2,
     nullptr},
    {"flux",
     "flux",
     {{"FLUX_TASK_RANK", "<r>"},
      {"FLUX_JOB_SIZE", "2"},
      {"FLUX_TASK_LOCAL_ID", "<r>"},
      {"PMI_RANK", "<r>"},
      {"PMI_SIZE", "2"},
      {"FLUX_JOB_ID", "fuzzy"}},
     2,
     1,
     -1,
     "FLUX_JOB_ID"},
    {"pals",
     "pals",
     {{"PALS_RANKID", "<r>"},
      {"PALS_LOCAL_RANKID", "<r>"},
      {"PALS_LOCAL_SIZE", "2"},
      {"PALS_APID", "6d1e"},
      {"PMI_RANK", "<r>"},
      {"PMI_SIZE", "2"}},
     2,
     1,
     2,
     "PALS_APID"},
    {"aprun", "aprun", {{"ALPS_APP_PE", "<r>"}, {"ALPS_APP_ID", "88"}}, -1, -1, -1, "ALPS_APP_ID"},
    {"horovodrun",
     "horovodrun",
     {{"HOROVOD_RANK", "<r>"},
      {"HOROVOD_SIZE", "2"},
      {"HOROVOD_LOCAL_RANK", "<r>"},
      {"HOROVOD_LOCAL_SIZE", "2"},
      {"HOROVOD_CROSS_RANK", "0"},
      {"HOROVOD_CROSS_SIZE", "1"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "41234"}},
     2,
     1,
     2,
     "HOROVOD_GLOO_RENDEZVOUS_PORT"},
    {"torchrun",
     "torchrun",
     {{"RANK", "<r>"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "<r>"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "0"}},
     2,
     1,
     2,
     nullptr},
    {"accelerate launch",
     "accelerate",
     {{"RANK", "<r>"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "<r>"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"ACCELERATE_MIXED_PRECISION", "no"}},
     2,
     1,
     2,
     nullptr},
    {"deepspeed",
     "deepspeed",
     {{"RANK", "<r>"},
      {"WORLD_SIZE", "2"},
      {"LOCAL_RANK", "<r>"},
      {"LOCAL_SIZE", "2"},
      {"CROSS_RANK", "0"},
      {"CROSS_SIZE", "1"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", "29500"}},
     2,
     1,
     2,
     nullptr},
    {"srun",
     "srun",
     {{"SLURM_JOB_ID", "1234"},
      {"SLURM_STEP_ID", "5"},
      {"SLURM_PROCID", "<r>"},
      {"SLURM_LOCALID", "<r>"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_NODEID", "0"},
      {"SLURM_STEP_TASKS_PER_NODE", "2"}},
     2,
     1,
     2,
     "SLURM_STEP_ID"},
    {"pbsdsh",
     "pbsdsh",
     {{"PBS_JOBID", "77.server"}, {"PBS_VNODENUM", "<r>"}, {"PBS_TASKNUM", "3"}},
     -1,
     -1,
     -1,
     "PBS_JOBID"},
    {"blaunch", "blaunch", {{"LSB_JOBID", "991"}, {"LSF_PM_TASKID", "<r+1>"}}, -1, -1, -1, "LSB_JOBID"},
    // mpirun -n 3 dask-mpi: its scheduler, client and workers are ranks of mpirun.
    {"dask-mpi",
     "openmpi",
     {{"OMPI_COMM_WORLD_RANK", "<r>"},
      {"OMPI_COMM_WORLD_SIZE", "2"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "<r>"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
      {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED", "info"},
      {"PMIX_NAMESPACE", "5"}},
     2,
     1,
     2,
     "PMIX_NAMESPACE"},
};

Variables of_rank(const Variables& variables, int rank) {
  Variables result = variables;
  for (auto& [name, value] : result) {
    if (const auto at = value.find("<r>"); at != std::string::npos)
      value.replace(at, 3, std::to_string(rank));
    if (value == "<r+1>") value = std::to_string(rank + 1);
  }
  return result;
}

// Processes above, the parent first, and what they were started with.
struct FakeAncestor {
  std::vector<std::string> command;
  Variables variables;
};
Ancestry fake_ancestry(std::vector<FakeAncestor> ancestors, pid_t first_pid = 900) {
  Ancestry ancestry;
  ancestry.at = [=](int level) -> std::optional<Ancestor> {
    if (level >= static_cast<int>(ancestors.size())) return std::nullopt;
    Ancestor ancestor{first_pid - level, 100'000, ""};
    for (const std::string& word : ancestors[static_cast<std::size_t>(level)].command)
      ancestor.command_line += word + '\0';
    return ancestor;
  };
  ancestry.environment = [=](pid_t pid) {
    std::string block;
    for (const auto& [name, value] : ancestors.at(static_cast<std::size_t>(first_pid - pid)).variables)
      block += name + "=" + value + '\0';
    return block;
  };
  return ancestry;
}

Identity identity_of(const Variables& variables, const Ancestry& ancestry = process_ancestry()) {
  auto identity = identify(fake_environment(variables), ancestry);
  EXPECT_TRUE(identity.ok());
  return identity.value();
}

const Variables& variables_of(const std::string& name) {
  for (const Case& one : kCases)
    if (one.name == name) return one.variables;
  throw std::out_of_range(name);
}

Variables together(Variables first, const Variables& second) {
  first.insert(second.begin(), second.end());
  return first;
}

TEST(Launchers, GiveTheirRanksOneRun) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const Identity first = identity_of(of_rank(one.variables, 0)),
                   second = identity_of(of_rank(one.variables, 1));
    EXPECT_EQ(first.rank, 0);
    EXPECT_EQ(second.rank, 1);
    EXPECT_EQ(second.world_size, one.size);
    EXPECT_EQ(second.local_rank, one.local_rank);
    EXPECT_EQ(second.local_size, one.local_size);
    EXPECT_EQ(second.launcher, one.launcher);
    EXPECT_TRUE(second.has_peers);
    EXPECT_TRUE(second.launched);
    EXPECT_EQ(first.key, second.key);
    EXPECT_EQ(first.launch, second.launch);
    if (one.job == nullptr) continue;
    Variables other = of_rank(one.variables, 1);
    other[one.job] = "8";
    EXPECT_NE(identity_of(other).key, first.key);
  }
}

TEST(Launchers, HaveACaseEach) {
  std::set<std::string> tested = {"hydra"};  // under its name it needs its proxy
  for (const Case& one : kCases) tested.insert(one.launcher);
  for (const wire::Launcher& launcher : wire::kLaunchers) {
    EXPECT_TRUE(tested.contains(launcher.name)) << launcher.name;
    EXPECT_EQ(wire::find_launcher(launcher.name), &launcher);
  }
  EXPECT_EQ(wire::find_launcher("torch"), nullptr);
}

TEST(Launchers, TorchrunsRankBeatsThatOfItsOwnSlurmTask) {
  Variables variables = together(of_rank(variables_of("srun"), 0), of_rank(variables_of("torchrun"), 1));
  const Identity identity = identity_of(variables);
  EXPECT_EQ(identity.rank, 1);
  EXPECT_EQ(identity.launcher, "torchrun");
  EXPECT_EQ(identity.local_rank, 1);
}

// `mpirun -n 2 torchrun ...`: the workers inherit the MPI rank of torchrun.
TEST(Launchers, TorchrunsRankBeatsAnMpiRankOfTorchrunButNoneOfItsOwn) {
  const Variables mpi = of_rank(variables_of("openmpi"), 0);
  const Variables variables = together(mpi, of_rank(variables_of("torchrun"), 1));
  EXPECT_EQ(identity_of(variables, fake_ancestry({{{"python3", "/usr/bin/torchrun"}, mpi}, {{"mpirun"}, {}}}))
                .launcher,
            "torchrun");
  // A script that torchrun started started mpirun, and this is a rank of that.
  const Ancestry within = fake_ancestry({{{"mpirun"}, {}}, {{"python3", "/usr/bin/torchrun"}, {}}});
  EXPECT_EQ(identity_of(variables, within).launcher, "openmpi");
  EXPECT_EQ(identity_of(variables, within).rank, 0);
}

// A script that starts several programs has the rank, too; a launcher has not.
TEST(Launchers, RanksKnowWhetherTheyAreAllOfTheirRank) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const Variables variables = of_rank(one.variables, 1);
    EXPECT_TRUE(identity_of(variables, fake_ancestry({{{"bash", "run.sh"}, variables}, {{"launcher"}, {}}}))
                    .is_below_rank);
    EXPECT_FALSE(identity_of(variables, fake_ancestry({{{"launcher"}, {}}})).is_below_rank);
    EXPECT_FALSE(
        identity_of(variables, fake_ancestry({{{"launcher"}, of_rank(one.variables, 0)}})).is_below_rank);
    EXPECT_FALSE(identity_of(variables, fake_ancestry({})).is_below_rank);
  }
  // torchrun has the rank that mpirun has given it.
  const Variables mpi = of_rank(variables_of("openmpi"), 0), torch = of_rank(variables_of("torchrun"), 1);
  EXPECT_FALSE(identity_of(together(torch, mpi), fake_ancestry({{{"torchrun"}, mpi}, {{"mpirun"}, {}}}))
                   .is_below_rank);
  EXPECT_FALSE(identity_of({}, fake_ancestry({{{"bash"}, {}}})).is_below_rank);
}

TEST(Launchers, RankAloneIsNoRank) {
  Variables variables = of_rank(variables_of("torchrun"), 1);
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) variables.erase(name);
  EXPECT_EQ(identity_of(variables, fake_ancestry({{{"bash"}, {}}})).rank, -1);
  EXPECT_FALSE(identity_of(variables, fake_ancestry({{{"bash"}, {}}})).launched);
  // MPI and Slurm scripts export it, too.
  EXPECT_EQ(
      identity_of(together(of_rank(variables_of("srun"), 0), variables), fake_ancestry({{{"bash"}, {}}}))
          .rank,
      0);
  // torch.distributed.launch before 1.9 set nothing else.
  const Ancestry launch = fake_ancestry(
      {{{"sh", "-c", "x"}, {{"RANK", "1"}}}, {{"python3", "-u", "-m", "torch.distributed.launch"}, {}}});
  EXPECT_EQ(identity_of(variables, launch).rank, 1);
  EXPECT_EQ(identity_of(variables, launch).launcher, "torchrun");
  variables.erase("LOCAL_RANK");
  EXPECT_EQ(identity_of(variables, launch).rank, -1);
  variables = of_rank(variables_of("torchrun"), 1);
  variables["WORLD_SIZE"] = "1";  // no rank 1
  EXPECT_EQ(identity_of(variables).rank, -1);
}

// Whatever stands between torchrun and its workers, they have torchrun in common.
TEST(Launchers, WorkersOfOneNodeMeetAtTheProcessThatHasSetTheirRank) {
  const Variables first = of_rank(variables_of("torchrun"), 0), second = of_rank(variables_of("torchrun"), 1);
  const std::vector<std::string> torchrun = {"python3", "/opt/bin/my_launcher"};
  // The shells have process ids of their own; torchrun has 899 in both.
  Ancestry of_first = fake_ancestry({{{"sh"}, first}, {torchrun, {}}});
  Ancestry of_second = fake_ancestry({{{torchrun}, {}}}, 899);
  EXPECT_EQ(identity_of(first, of_first).key, identity_of(second, of_second).key);
  EXPECT_NE(identity_of(first, of_first).key,
            identity_of(second, fake_ancestry({{{torchrun}, {}}}, 898)).key);
  // After a restart as well.
  Variables again = second;
  again["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_EQ(identity_of(again, of_second).key, identity_of(second, of_second).key);
  EXPECT_NE(identity_of(again, of_second).launch, identity_of(second, of_second).launch);
}

TEST(Launchers, WorkersOfSeveralNodesMeetByTheNameOfTheirRun) {
  Variables variables = of_rank(variables_of("torchrun"), 1);
  variables["LOCAL_WORLD_SIZE"] = "1";
  variables["TORCHELASTIC_RUN_ID"] = "a-run";
  const Identity identity = identity_of(variables, fake_ancestry({{{"torchrun"}, {}}}, 500));
  EXPECT_EQ(identity.local_size, 1);
  Variables restarted = variables;
  restarted["MASTER_PORT"] = "41000";
  restarted["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_EQ(identity_of(restarted, fake_ancestry({{{"torchrun"}, {}}}, 600)).key, identity.key);
  variables["TORCHELASTIC_RUN_ID"] = "other-run";
  EXPECT_NE(identity_of(variables).key, identity.key);
  // Without a name for the run, the port stays the same and tells runs apart.
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const Identity unnamed = identity_of(variables);
  variables["MASTER_PORT"] = "29501";
  EXPECT_NE(identity_of(variables).key, unnamed.key);
}

// Its restarts belong to the same run.
TEST(Launchers, AWorkerAloneHasPeers) {
  Variables variables = of_rank(variables_of("torchrun"), 0);
  variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = "1";
  EXPECT_TRUE(identity_of(variables).has_peers);
  EXPECT_EQ(identity_of(variables).key, identity_of(variables).key);
}

TEST(Launchers, TheBatchScriptIsNoTask) {
  Variables script = of_rank(variables_of("pbsdsh"), 0);
  script["PBS_TASKNUM"] = "1";
  EXPECT_EQ(identity_of(script).rank, -1);
  EXPECT_FALSE(identity_of(script).launched);
}

bool starts_workers(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += word + '\0';
  return wire::starts_torch_workers(line.data(), line.size());
}

TEST(StartsTorchWorkers, KnowsTheLaunchers) {
  EXPECT_TRUE(starts_workers({"/usr/bin/python3", "/usr/bin/torchrun", "--nproc-per-node", "4", "train.py"}));
  EXPECT_TRUE(starts_workers({"torchrun", "train.py"}));
  EXPECT_TRUE(starts_workers({"python3", "-u", "-m", "torch.distributed.run", "train.py"}));
  EXPECT_TRUE(starts_workers({"/env/bin/python", "/env/bin/accelerate", "launch", "train.py"}));
  EXPECT_TRUE(starts_workers({"python", "-u", "-m", "deepspeed.launcher.launch", "--world_info=e", "t.py"}));
  EXPECT_FALSE(starts_workers({"python3", "train.py", "torchrun"}));
  EXPECT_FALSE(starts_workers({"python3", "-m", "torch.utils.collect_env"}));
  EXPECT_FALSE(starts_workers({"python3", "-m"}));
  EXPECT_FALSE(starts_workers({}));
  EXPECT_FALSE(wire::starts_torch_workers("torchrun", 8));  // without the null at its end
}

TEST(LaunchWords, SayWhatIsNotNewBelowUs) {
  const Variables variables = of_rank(variables_of("torchrun"), 1);
  EXPECT_EQ(launch_words(fake_environment(variables)), launch_words(fake_environment(variables)));
  EXPECT_NE(launch_words(fake_environment(variables)),
            launch_words(fake_environment(of_rank(variables_of("torchrun"), 0))));
  EXPECT_EQ(launch_words(fake_environment({})).substr(0, 20), "0000000000000000:-1:");
}

}  // namespace
}  // namespace clusterprof::cli
