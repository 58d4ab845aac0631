// SPDX-License-Identifier: BSD-3-Clause
#include "cli/identity.hpp"

#include <gtest/gtest.h>

#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

using Variables = std::map<std::string, std::string>;

Identity who(const Variables& variables) {
  auto identity = identify(fake_environment(variables));
  EXPECT_TRUE(identity.ok());
  return identity.value();
}

Variables openmpi(const std::string& rank) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"PMIX_RANK", rank},
          {"PMIX_NAMESPACE", "1900412929"},
          {"OMPI_MCA_orte_hnp_uri", "1900412928.0;tcp://192.0.2.2:33031"},
          {"OMPI_MCA_orte_precondition_transports", "d41c96bf548f4ff0-53c8bfc50217a6a1"}};
}

Variables srun(const std::string& rank) {
  return {{"SLURM_JOB_ID", "1234"},    {"SLURM_STEP_ID", "5"},
          {"SLURM_PROCID", rank},      {"SLURM_LOCALID", "0"},
          {"SLURM_NTASKS", "8"},       {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_NODEID", "1"},       {"SLURM_STEP_TASKS_PER_NODE", "3,1"},
          {"SLURM_CLUSTER_NAME", "c"}, {"SLURMD_NODENAME", "other"}};
}

TEST(Identity, OfAnOpenMpiRank) {
  const Identity identity = who(openmpi("3"));
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.world_size, 4);
  EXPECT_EQ(identity.local_rank, 1);
  EXPECT_EQ(identity.local_size, 2);
  EXPECT_TRUE(identity.has_peers);
  EXPECT_TRUE(identity.batch_name.empty());
  EXPECT_FALSE(identity.speaks_for_all());
}

TEST(Identity, KeyIsTheJobs) {
  EXPECT_EQ(who(openmpi("0")).key, who(openmpi("3")).key);
  Variables next = openmpi("0");
  next["OMPI_MCA_orte_precondition_transports"] = "0-1";
  EXPECT_NE(who(openmpi("0")).key, who(next).key);
  EXPECT_EQ(who(srun("0")).key, who(srun("3")).key);
  next = srun("0");
  next["SLURM_STEP_ID"] = "6";
  EXPECT_NE(who(srun("0")).key, who(next).key);
  next = srun("0");
  next["SLURM_RESTART_COUNT"] = "1";
  EXPECT_NE(who(srun("0")).key, who(next).key);
}

TEST(Identity, OfASlurmTask) {
  const Identity identity = who(srun("3"));
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.world_size, 4);
  EXPECT_EQ(identity.local_rank, 0);
  EXPECT_EQ(identity.local_size, 1);
  EXPECT_EQ(identity.batch_name, "1234.5");
  EXPECT_NE(identity.node, "other");
}

TEST(Identity, MpirunInsideSlurmGoesByMpirun) {
  Variables both = srun("0");
  both.merge(openmpi("3"));
  const Identity identity = who(both);
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.local_size, 2);
  EXPECT_EQ(identity.key, who(openmpi("1")).key);
  EXPECT_EQ(identity.batch_name, "1234");
}

TEST(Identity, OfABatchScriptIsAPlainRun) {
  Variables batch = srun("0");
  batch["SLURM_STEP_ID"] = "4294967291";
  const Identity identity = who(batch);
  EXPECT_EQ(identity.rank, -1);
  EXPECT_FALSE(identity.has_peers);
  EXPECT_EQ(identity.batch_name, "1234");
}

TEST(Identity, OfAPlainRunIsUnique) {
  EXPECT_EQ(who({}).rank, -1);
  EXPECT_FALSE(who({}).has_peers);
  EXPECT_TRUE(who({}).speaks_for_all());
  EXPECT_NE(who({}).key, who({}).key);
}

TEST(Identity, OfAWorldOfOneIsUnique) {
  Variables one = openmpi("0");
  one["OMPI_COMM_WORLD_SIZE"] = "1";
  EXPECT_EQ(who(one).rank, 0);
  EXPECT_FALSE(who(one).has_peers);
  EXPECT_NE(who(one).key, who(one).key);
}

TEST(Identity, UnderAnUnknownLauncherIsThatOfTheParent) {
  const Identity identity = who({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(identity.rank, 2);
  EXPECT_TRUE(identity.has_peers);
  EXPECT_EQ(identity.key, who({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}).key);
  EXPECT_GT(identity.job_start_unix_s, 0);
}

TEST(Identity, NodeNameCanBeSet) {
  EXPECT_EQ(who({{"CLUSTERPROF_NODE", "n1"}}).node, "n1");
  Variables two_nodes_here = openmpi("0");
  two_nodes_here["CLUSTERPROF_NODE"] = "n1";
  EXPECT_EQ(who(two_nodes_here).local_size, -1);
  for (const char* bad : {"a/b", "a b", "..", "a\nb"}) {
    EXPECT_FALSE(identify(fake_environment({{"CLUSTERPROF_NODE", bad}})).ok()) << bad;
  }
}

TEST(HydraJob, IsTheControlPortAndGroup) {
  const std::vector<std::string> proxy = {"/usr/bin/hydra_pmi_proxy",
                                          "--control-port",
                                          "host:37021",
                                          "--rmk",
                                          "user",
                                          "--pgid",
                                          "0",
                                          "--proxy-id",
                                          "0"};
  EXPECT_EQ(hydra_job(proxy), "host:37021 0");
  std::vector<std::string> other_node = proxy;
  other_node.back() = "1";
  EXPECT_EQ(hydra_job(other_node), hydra_job(proxy));
  EXPECT_EQ(hydra_job({"hydra_bstrap_proxy", "--upstream-host", "h", "--upstream-port", "1", "--pgid", "0"}),
            "h 1 0");
  EXPECT_EQ(hydra_job({"bash", "--control-port", "host:1"}), "");
  EXPECT_EQ(hydra_job({}), "");
}

TEST(SlurmTasksOnNode, ReadsRepeats) {
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 0), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 4), -1);
  EXPECT_EQ(slurm_tasks_on_node("", 0), -1);
  EXPECT_EQ(slurm_tasks_on_node("2(x", 0), -1);
}

TEST(Identity, OfASpawnedProcess) {
  SpawnedAs spawned;
  ASSERT_TRUE(parse_spawned_as("openmpi-0123456789abcdef:2:7", spawned));
  EXPECT_EQ(spawned.key, "openmpi-0123456789abcdef");
  EXPECT_EQ(spawned.world, 2);
  EXPECT_EQ(spawned.first_rank, 7);
  Identity identity = who(openmpi("3"));
  ASSERT_TRUE(join_run(spawned, identity).ok());
  EXPECT_EQ(identity.key, spawned.key);
  EXPECT_EQ(identity.rank, 3);
  EXPECT_EQ(identity.run_rank(), 10);
  EXPECT_EQ(identity.run_size(), 11);
  EXPECT_TRUE(identity.has_peers);

  Variables alone = openmpi("0");
  alone["OMPI_COMM_WORLD_SIZE"] = "1";
  identity = who(alone);
  ASSERT_TRUE(join_run(spawned, identity).ok());
  EXPECT_EQ(identity.key, spawned.key);
  EXPECT_EQ(identity.run_size(), 8);
  EXPECT_TRUE(identity.has_peers);

  // Without a number it could be any of its world.
  identity = who({});
  EXPECT_FALSE(join_run(spawned, identity).ok());
  EXPECT_EQ(identity.world, 0);
}

TEST(Identity, MalformedSpawnedWorldsAreRefused) {
  SpawnedAs spawned;
  for (const char* text : {"", "key", "key:1", ":1:2", "key:0:2", "key:1:0", "key:1:-2", "key:1:2x",
                           "key:x:2", "key:1:", "key::2", "key:99999999999:2"}) {
    EXPECT_FALSE(parse_spawned_as(text, spawned)) << text;
  }
}

}  // namespace
}  // namespace clusterprof::cli
