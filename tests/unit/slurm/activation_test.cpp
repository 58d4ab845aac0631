// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/activation/activation.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace clusterprof::slurm {
namespace {

using Environment = std::map<std::string, std::string>;

JobVariable job(const Environment& environment) {
  return [environment](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

Environment changed(Environment environment, const Variables& changes) {
  for (const auto& [name, value] : changes) {
    if (value.empty()) {
      environment.erase(name);
    } else {
      environment[name] = value;
    }
  }
  return environment;
}

const auto kStays = [] { return false; };
const auto kOptsOut = [] { return true; };
const std::string kStarter = "/opt/cp/lib/clusterprof/libclusterprof_start.so";
const std::string kLauncher = "/opt/cp/bin/clusterprof";

Environment after(const std::optional<std::string>& option, const std::vector<std::string>& site_words,
                  const Environment& before, const std::function<bool()>& opted_out = kStays,
                  bool has_tasks = true) {
  Site site = parse_site(site_words);
  EXPECT_TRUE(site.problems.empty());
  site.prefix = "/opt/cp";
  const Decision decision = decide(option, site, job(before), opted_out);
  return changed(before, activate(decision, site, {has_tasks, "ada", "/home/ada"}, job(before)));
}

TEST(SlurmActivation, DoesNothingUnlessAsked) {
  const Environment before = {{"LD_PRELOAD", "a.so"}, {"CLUSTERPROF_RATE", "5"}};
  EXPECT_EQ(after(std::nullopt, {"root=/scratch", "options=quiet"}, before), before);
  EXPECT_EQ(after(std::nullopt, {"default=off"}, before), before);
}

TEST(SlurmActivation, FollowsTheOption) {
  EXPECT_EQ(after("", {}, {}), (Environment{{"LD_PRELOAD", kStarter}, {"CLUSTERPROF_START", kLauncher}}));
  EXPECT_EQ(after("rate=7", {}, {{"LD_PRELOAD", "libasan.so.8 a.so"}, {"CLUSTERPROF_RATE", "5"}}),
            (Environment{{"LD_PRELOAD", "libasan.so.8:a.so:" + kStarter},
                         {"CLUSTERPROF_START", kLauncher},
                         {"CLUSTERPROF_RATE", "7"}}));
  // A step of a job that has it, of another release.
  EXPECT_EQ(after("", {}, {{"LD_PRELOAD", "/old/libclusterprof_start.so:a.so"}}),
            (Environment{{"LD_PRELOAD", "a.so:" + kStarter}, {"CLUSTERPROF_START", kLauncher}}));
}

TEST(SlurmActivation, FollowsTheVariable) {
  EXPECT_EQ(after(std::nullopt, {}, {{"CLUSTERPROF_SLURM", "on,no-mpi"}}),
            (Environment{{"LD_PRELOAD", kStarter},
                         {"CLUSTERPROF_START", kLauncher},
                         {"CLUSTERPROF_SLURM", "on,no-mpi"},
                         {"CLUSTERPROF_NO_MPI", "1"}}));
  const Environment off = {{"CLUSTERPROF_SLURM", "off"}};
  EXPECT_EQ(after(std::nullopt, {"default=on"}, off), off);
  EXPECT_EQ(after("", {}, off).count("CLUSTERPROF_START"), 1u);
}

TEST(SlurmActivation, FollowsTheSitesConfiguration) {
  const std::vector<std::string> site = {"default=on", "root=/scratch/%u/%%/%h/runs",
                                         "options=quiet,rate=50"};
  EXPECT_EQ(after(std::nullopt, site, {{"CLUSTERPROF_RATE", "9"}}),
            (Environment{{"LD_PRELOAD", kStarter},
                         {"CLUSTERPROF_START", kLauncher},
                         {"CLUSTERPROF_ROOT", "/scratch/ada/%//home/ada/runs"},
                         {"CLUSTERPROF_QUIET", "1"},
                         {"CLUSTERPROF_RATE", "9"}}));
  EXPECT_EQ(after("rate=7", site, {{"CLUSTERPROF_ROOT", "."}}), (Environment{{"LD_PRELOAD", kStarter},
                                                                             {"CLUSTERPROF_START", kLauncher},
                                                                             {"CLUSTERPROF_ROOT", "."},
                                                                             {"CLUSTERPROF_QUIET", "1"},
                                                                             {"CLUSTERPROF_RATE", "7"}}));
  EXPECT_EQ(after(std::nullopt, site, {}, kOptsOut), Environment{});
  EXPECT_EQ(after("off", site, {}), Environment{});
  EXPECT_EQ(after("", {"default=on"}, {}, kOptsOut).count("CLUSTERPROF_START"), 1u);
}

TEST(SlurmActivation, OffRemovesTheJobsSetting) {
  const Environment active = {{"LD_PRELOAD", "a.so:" + kStarter}, {"CLUSTERPROF_START", kLauncher}};
  EXPECT_EQ(after("off", {}, active), (Environment{{"LD_PRELOAD", "a.so"}}));
  EXPECT_EQ(after("off", {}, {{"LD_PRELOAD", kStarter}, {"CLUSTERPROF_START", kLauncher}}), Environment{});
  EXPECT_EQ(after("off", {}, {{"LD_PRELOAD", "a.so  b.so"}}), (Environment{{"LD_PRELOAD", "a.so  b.so"}}));
}

TEST(SlurmActivation, LeavesBatchScriptsAlone) {
  const Environment batch = after("", {}, {}, kStays, false);
  EXPECT_EQ(batch, (Environment{{"LD_PRELOAD", kStarter},
                                {"CLUSTERPROF_START", kLauncher},
                                {"CLUSTERPROF_START_BATCH", "1"}}));
  EXPECT_EQ(after("", {}, batch), (Environment{{"LD_PRELOAD", kStarter}, {"CLUSTERPROF_START", kLauncher}}));
  EXPECT_EQ(after("off", {}, batch), Environment{});
}

TEST(SlurmActivation, BadOptionsRecordNothing) {
  const Site site = parse_site({});
  const Decision decision = decide("rte=5", site, job({}), kStays);
  EXPECT_EQ(decision.kind, Decision::kStrip);
  EXPECT_NE(decision.problem.find("rte"), std::string::npos);
  EXPECT_NE(decide(std::nullopt, site, job({{"CLUSTERPROF_SLURM", "maybe"}}), kStays).problem.find("maybe"),
            std::string::npos);
  EXPECT_EQ(decide(std::nullopt, site, job({{"CLUSTERPROF_SLURM", ""}}), kStays).kind, Decision::kNothing);
}

TEST(SlurmActivation, NamesMistakesInTheSitesConfiguration) {
  for (const char* word : {"defualt=on", "default=maybe", "root=here", "prefix=", "options=rte=5",
                           "options=off", "starter=x", "starter=/x.so", "x"}) {
    const Site site = parse_site({word, "default=on"});
    ASSERT_EQ(site.problems.size(), 1u) << word;
    EXPECT_NE(site.problems[0].find(word), std::string::npos);
    EXPECT_TRUE(site.records_by_default);
  }
}

TEST(SlurmActivation, FindsThePrefixOfThePlugin) {
  EXPECT_EQ(prefix_of("/opt/cp/lib/clusterprof/spank_clusterprof.so"), "/opt/cp");
  EXPECT_EQ(prefix_of("/opt/cp/lib/clusterprof/slurm-22.05/spank_clusterprof.so"), "/opt/cp");
  EXPECT_EQ(prefix_of("/usr/lib/slurm/spank_clusterprof.so"), "");
  EXPECT_EQ(prefix_of("spank_clusterprof.so"), "");
  EXPECT_NE(obstacle(Site{}), "");
  Site site;
  site.prefix = "/opt/a b";
  EXPECT_NE(obstacle(site).find("blank"), std::string::npos);
}

// So that a prefix that does not answer keeps nobody waiting, and LD_PRELOAD names nothing in it.
TEST(SlurmActivation, UsesTheStarterOnTheNodesDisk) {
  const std::filesystem::path local = std::filesystem::path(::testing::TempDir()) / "clusterprof-on-node";
  std::filesystem::create_directories(local);
  const std::string starter = local / "libclusterprof_start.so", plugin = local / "spank_clusterprof.so";
  std::filesystem::remove(starter);
  EXPECT_EQ(starter_beside(plugin), "");
  EXPECT_NE(obstacle(parse_site({"prefix=/nowhere", "starter=" + starter})).find(starter), std::string::npos);
  std::ofstream(starter) << "x";
  EXPECT_EQ(starter_beside(plugin), starter);
  EXPECT_EQ(starter_beside("/opt/cp/lib/clusterprof/spank_clusterprof.so"), "");

  EXPECT_EQ(obstacle(parse_site({"prefix=/nowhere", "starter=" + starter})), "");
  EXPECT_NE(obstacle(parse_site({"prefix=/nowhere"})), "");
  const Environment environment = after("", {"prefix=/nowhere", "starter=" + starter}, {});
  EXPECT_EQ(environment.at("LD_PRELOAD"), starter);
  EXPECT_EQ(environment.at("CLUSTERPROF_START"), kLauncher);
  std::filesystem::remove_all(local);
}

}  // namespace
}  // namespace clusterprof::slurm
