// SPDX-License-Identifier: BSD-3-Clause
// Identities in environments that real launchers made (slurm_environments.txt).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cli/identity.hpp"
#include "fake_environment.hpp"

namespace clusterprof::cli {
namespace {

struct Task {
  std::string host;
  std::map<std::string, std::string> variables;
};

std::map<std::string, std::vector<Task>> read_cases() {
  std::map<std::string, std::vector<Task>> cases;
  std::ifstream file(SLURM_ENVIRONMENTS);
  EXPECT_TRUE(file) << SLURM_ENVIRONMENTS;
  std::string name;
  std::map<std::string, std::string> common;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      name = line.substr(1, line.size() - 2);
      common.clear();
    } else if (line.starts_with("- ")) {
      cases[name].push_back({line.substr(2), common});
    } else {
      const std::size_t equals = line.find('=');
      auto& variables = cases[name].empty() ? common : cases[name].back().variables;
      const std::string value = line.substr(equals + 1);
      variables[line.substr(0, equals)] = value == "own" ? std::to_string(::getpid()) : value;
    }
  }
  return cases;
}

struct Expected {
  const char* name;
  const char* batch_name;
  const char* batch_id;  // nullptr: the same
};

// All of them are steps of more than one task.
constexpr Expected kSteps[] = {
    {"plain", "1.0", nullptr},
    {"export_none", "2.0", nullptr},
    {"other_cluster", "1.0", nullptr},
    {"array_3", "19_3.0", "20.0"},
    {"array_7", "19_7.0", "19.0"},
    {"het_both", "4.0", nullptr},
    {"het_1", "4.1", nullptr},
    {"het_0", "4.2", nullptr},
    {"het_pmix", "4.3", nullptr},
    {"het_pmi2", "4.4", nullptr},
    {"het_both_export_none", "4.5", nullptr},
    {"het_0_meanwhile", "4.6", nullptr},
    {"het_1_meanwhile", "4.7", nullptr},
    {"het_colon", "4.8", nullptr},
    {"first", "7.0", nullptr},
    {"overlap", "7.4", nullptr},
    {"other_overlap", "7.3", nullptr},
    {"overcommit", "7.5", nullptr},
    {"multi_prog", "7.6", nullptr},
    {"pmix", "7.7", nullptr},
    {"pmi2", "7.8", nullptr},
    {"pty", "7.10", nullptr},
    {"before_requeue", "13.0", nullptr},
    {"after_requeue", "13.0", nullptr},
    {"before_requeue_export_none", "13.1", nullptr},
    {"after_requeue_export_none", "13.1", nullptr},
    {"salloc_step", "12.0", nullptr},
    {"salloc_openmpi", "12", nullptr},
    {"openmpi", "11_5", "11"},
    // srun in a script that another launcher has started, whose variables are still there.
    {"none_within_pmix", "28.1", nullptr},
    {"pmi2_within_pmix", "28.2", nullptr},
    {"pmix_within_pmix", "28.3", nullptr},
    {"none_within_pmi2", "28.5", nullptr},
    {"pmi2_within_pmi2", "28.6", nullptr},
    {"pmix_within_pmi2", "28.7", nullptr},
    {"none_within_ompi", "28.9", nullptr},
    {"pmi2_within_ompi", "28.10", nullptr},
    {"pmix_within_ompi", "28.11", nullptr},
    {"none_within_hydra", "28.13", nullptr},
    {"pmi2_within_hydra", "28.14", nullptr},
    {"pmix_within_hydra", "28.15", nullptr},
};

Identity identity_of(const Task& task) {
  auto identity = identify(fake_environment(task.variables));
  EXPECT_TRUE(identity.ok());
  return identity.value();
}

TEST(SlurmIdentity, OfStepsOfSeveralTasks) {
  const auto cases = read_cases();
  std::map<std::string, std::string> case_of_key;
  for (const Expected& expected : kSteps) {
    SCOPED_TRACE(expected.name);
    ASSERT_TRUE(cases.contains(expected.name));
    const std::vector<Task>& tasks = cases.at(expected.name);
    ASSERT_GT(tasks.size(), 1u);
    std::map<std::string, std::set<int>> local_ranks;
    std::set<int> ranks;
    std::set<std::string> keys;
    for (const Task& task : tasks) {
      const Identity identity = identity_of(task);
      keys.insert(identity.key);
      ranks.insert(identity.rank);
      EXPECT_TRUE(local_ranks[task.host].insert(identity.local_rank).second);
      EXPECT_EQ(identity.world_size, static_cast<int>(tasks.size()));
      EXPECT_EQ(identity.local_size, std::count_if(tasks.begin(), tasks.end(), [&](const Task& other) {
                  return other.host == task.host;
                }));
      EXPECT_TRUE(identity.has_peers);
      EXPECT_EQ(identity.batch_name, expected.batch_name);
      EXPECT_EQ(identity.batch_id, expected.batch_id == nullptr ? expected.batch_name : expected.batch_id);
    }
    EXPECT_EQ(ranks.size(), tasks.size());
    EXPECT_EQ(*ranks.begin(), 0);
    EXPECT_EQ(*ranks.rbegin(), static_cast<int>(tasks.size()) - 1);
    for (const auto& [host, numbers] : local_ranks) {
      EXPECT_EQ(*numbers.begin(), 0) << host;
      EXPECT_EQ(*numbers.rbegin(), static_cast<int>(numbers.size()) - 1) << host;
    }
    EXPECT_EQ(keys.size(), 1u) << "all tasks of a step meet";
    for (const std::string& key : keys) {
      const auto [other, is_new] = case_of_key.emplace(key, expected.name);
      EXPECT_TRUE(is_new) << "no other does: " << other->second;
    }
  }
}

TEST(SlurmIdentity, OfSingleTasks) {
  const auto cases = read_cases();
  for (const Expected& expected : {Expected{"one", "7.9", nullptr},
                                   {"pty_one", "7.11", nullptr},
                                   {"half", "7.2", nullptr},
                                   {"other_half", "7.1", nullptr},
                                   {"from_array", "9_5.0", "10.0"}}) {
    SCOPED_TRACE(expected.name);
    const std::vector<Task>& tasks = cases.at(expected.name);
    ASSERT_EQ(tasks.size(), 1u);
    const Identity identity = identity_of(tasks[0]), again = identity_of(tasks[0]);
    EXPECT_EQ(identity.rank, 0);
    EXPECT_EQ(identity.world_size, 1);
    EXPECT_FALSE(identity.has_peers);
    EXPECT_NE(identity.key, again.key) << "many commands in one shell";
    EXPECT_EQ(identity.batch_name, expected.batch_name);
    EXPECT_EQ(identity.batch_id, expected.batch_id == nullptr ? expected.batch_name : expected.batch_id);
  }
}

TEST(SlurmIdentity, OfTheBatchScriptAndOfTheShellOfSalloc) {
  const auto cases = read_cases();
  for (const Expected& expected : {Expected{"array_batch", "19_3", "20"},
                                   {"het_batch", "4", nullptr},
                                   {"salloc_shell", "12", nullptr}}) {
    SCOPED_TRACE(expected.name);
    const Identity identity = identity_of(cases.at(expected.name)[0]);
    EXPECT_EQ(identity.rank, -1);
    EXPECT_FALSE(identity.has_peers);
    EXPECT_EQ(identity.batch_name, expected.batch_name);
    EXPECT_EQ(identity.batch_id, expected.batch_id == nullptr ? expected.batch_name : expected.batch_id);
  }
}

// The daemons of Hydra, from whose command lines the key is made, are not there.
TEST(SlurmIdentity, OfHydrasRanksIsNotThatOfTheirDaemons) {
  const auto cases = read_cases();
  std::set<int> ranks;
  std::set<std::string> keys;
  for (const Task& task : cases.at("hydra")) {
    const Identity identity = identity_of(task);
    ranks.insert(identity.rank);
    keys.insert(identity.key);
    EXPECT_EQ(identity.world_size, 3);
    EXPECT_EQ(identity.local_size, task.variables.at("MPI_LOCALNRANKS") == "2" ? 2 : 1);
  }
  EXPECT_EQ(ranks, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(keys.size(), 1u);
}

TEST(SlurmIdentity, OfWhatATaskStarts) {
  const auto cases = read_cases();
  for (const char* name : {"none_within_ompi", "pmi2_within_pmix", "none_within_hydra"}) {
    SCOPED_TRACE(name);
    Task task = cases.at(name)[2];
    const Identity itself = identity_of(task);
    task.variables["SLURM_TASK_PID"] = std::to_string(::getppid());  // the task is the shell we are in
    EXPECT_EQ(identity_of(task).rank, 2);
    EXPECT_EQ(identity_of(task).key, itself.key);
    task.variables["SLURM_TASK_PID"] = "4194305";  // none of ours: a daemon's on another node
    EXPECT_NE(identity_of(task).rank, 2);
  }
}

// On the other nodes there is a step, that of mpirun's daemons.
TEST(SlurmIdentity, OfTheOneRankOfMpirun) {
  const auto cases = read_cases();
  Task task = cases.at("openmpi")[1];
  ASSERT_TRUE(task.variables.contains("SLURM_STEP_ID"));
  task.variables["OMPI_COMM_WORLD_RANK"] = "0";
  task.variables["OMPI_COMM_WORLD_SIZE"] = "1";
  EXPECT_EQ(identity_of(task).batch_name, "11_5");
  EXPECT_FALSE(identity_of(task).has_peers);
}

// Ports and addresses that slurmd tells its tasks may differ from node to node, in large jobs.
TEST(SlurmIdentity, IsNotMadeOfWhatDiffersByNode) {
  const auto cases = read_cases();
  Task task = cases.at("plain")[0];
  const std::string key = identity_of(task).key;
  for (const char* name : {"SLURM_SRUN_COMM_PORT", "SLURM_LAUNCH_NODE_IPADDR", "SLURMD_NODENAME"})
    task.variables[name] += "9";
  EXPECT_EQ(identity_of(task).key, key);
  task.variables["SLURM_STEP_LAUNCHER_PORT"] = "1";  // another srun
  EXPECT_NE(identity_of(task).key, key);
}

}  // namespace
}  // namespace clusterprof::cli
