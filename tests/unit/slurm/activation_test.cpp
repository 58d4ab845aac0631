// SPDX-License-Identifier: BSD-3-Clause
#include "slurm/activation/activation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
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
const auto kNobody = [] { return std::string(); };
const auto kOptsOut = [] { return true; };
const std::string kStarter = "/opt/cp/lib/clusterprof/libclusterprof_start.so";
const std::string kLauncher = "/opt/cp/bin/clusterprof";

Environment after(const std::optional<std::string>& option, const std::vector<std::string>& site_words,
                  const Environment& before, const std::function<bool()>& opted_out = kStays,
                  bool has_tasks = true) {
  Site site = parse_site(site_words);
  EXPECT_TRUE(site.problems.empty());
  site.prefix = "/opt/cp";
  const Decision decision = decide(option, site, job(before), {opted_out, [] { return std::string("ada"); }});
  const Step step{has_tasks, [] { return std::string("ada"); }, [] { return std::string("/home/ada"); }};
  return changed(before, activate(decision, site, step, job(before)));
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
  const Decision decision = decide("rte=5", site, job({}), {kStays, kNobody});
  EXPECT_EQ(decision.kind, Decision::kStrip);
  EXPECT_NE(decision.problem.find("rte"), std::string::npos);
  EXPECT_NE(decide(std::nullopt, site, job({{"CLUSTERPROF_SLURM", "maybe"}}), {kStays, kNobody})
                .problem.find("maybe"),
            std::string::npos);
  EXPECT_EQ(decide(std::nullopt, site, job({{"CLUSTERPROF_SLURM", ""}}), {kStays, kNobody}).kind,
            Decision::kNothing);
}

// That may take as long as the directory service does, and all tasks of a job would do it.
TEST(SlurmActivation, LooksUpOnlyWhatTheRootHas) {
  const auto looked_up = [](const char* root, const Environment& before, const char* request = "") {
    std::string asked;
    Site site = parse_site({std::string("root=") + root});
    site.prefix = "/opt/cp";
    const Step step{true,
                    [&asked] {
                      asked += 'u';
                      return std::string("ada");
                    },
                    [&asked] {
                      asked += 'h';
                      return std::string("/home/ada");
                    }};
    const Decision decision = decide(request, site, job(before), {kStays, kNobody});
    (void)activate(decision, site, step, job(before));
    return asked;
  };
  EXPECT_EQ(looked_up("/scratch/%u", {}), "u");
  EXPECT_EQ(looked_up("/scratch/%h", {}), "h");
  EXPECT_EQ(looked_up("/scratch/%%u", {}), "");
  EXPECT_EQ(looked_up("/scratch/%u", {{"CLUSTERPROF_ROOT", "."}}), "");
  EXPECT_EQ(looked_up("/scratch/%u", {{"CLUSTERPROF_START", kLauncher}}, "off"), "");
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
  std::string pattern = ::testing::TempDir() + "clusterprof-on-node-XXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path local = pattern;
  const std::string starter = local / "libclusterprof_start.so", plugin = local / "spank_clusterprof.so";
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

// --- what is worth recording ---

// The reason why a job that runs under these words of the site is not recorded. Empty: it is.
std::string reason(const std::vector<std::string>& site_words, const Environment& before,
                   const std::optional<std::string>& option = std::nullopt) {
  std::vector<std::string> words = {"default=on"};
  words.insert(words.end(), site_words.begin(), site_words.end());
  const Site site = parse_site(words);
  EXPECT_EQ(site.problems, std::vector<std::string>());
  const Decision decision = decide(option, site, job(before), {kStays, [] { return std::string("ada"); }});
  EXPECT_EQ(decision.kind, decision.reason.empty() ? Decision::kActivate : Decision::kStrip);
  EXPECT_EQ(decision.explanation.empty(), decision.reason.empty());
  return decision.reason;
}

TEST(SlurmFilters, ListsOfUsersPartitionsAndAccounts) {
  const Environment job = {{"SLURM_JOB_PARTITION", "gpu-long"}, {"SLURM_JOB_ACCOUNT", "physics"}};
  EXPECT_EQ(reason({}, job), "");
  EXPECT_EQ(reason({"users=bob,a*", "partitions=gpu-*", "accounts=phys?cs"}, job), "");
  EXPECT_EQ(reason({"users=bob,eve"}, job), "user-not-included");
  EXPECT_EQ(reason({"partitions=cpu,gpu"}, job), "partition-not-included");
  EXPECT_EQ(reason({"accounts=chem*"}, job), "account-not-included");
  EXPECT_EQ(reason({"accounts=chem*"}, {}), "account-not-included");
  EXPECT_EQ(reason({"not-users=bob,ada"}, job), "user-excluded");
  EXPECT_EQ(reason({"not-users=bob", "not-users=ad*"}, job), "user-excluded");
  EXPECT_EQ(reason({"not-partitions=*long"}, job), "partition-excluded");
  EXPECT_EQ(reason({"not-accounts=physics"}, job), "account-excluded");
  EXPECT_EQ(reason({"users=ada", "not-users=ada"}, job), "user-excluded");
}

TEST(SlurmFilters, ARequestBeatsEverythingButExclusions) {
  const Environment job = {{"SLURM_JOB_PARTITION", "gpu"}, {"SLURM_JOB_ID", "1"}};
  for (const char* const words : {"users=bob", "partitions=cpu", "accounts=x", "fraction=0"}) {
    EXPECT_NE(reason({words}, job), "") << words;
    EXPECT_EQ(reason({words}, job, "rate=5"), "") << words;
  }
  EXPECT_EQ(reason({"not-partitions=gpu"}, job, ""), "partition-excluded");
  Environment asks = job;
  asks["CLUSTERPROF_SLURM"] = "on";
  EXPECT_EQ(reason({"users=bob"}, asks), "");
  EXPECT_EQ(reason({"not-users=ada"}, asks), "user-excluded");
}

TEST(SlurmFilters, TheReasonIsToldToThoseWhoAsk) {
  const auto explained = [](const char* words, const Environment& environment,
                            const std::optional<std::string>& option) {
    const auto variables = job(environment);
    return is_explained(decide(option, parse_site({"default=on", words}), variables,
                               {kStays, [] { return std::string("ada"); }}),
                        variables);
  };
  EXPECT_FALSE(explained("users=bob", {}, std::nullopt));
  EXPECT_FALSE(explained("users=bob", {{"CLUSTERPROF_EXPLAIN", "0"}}, std::nullopt));
  EXPECT_TRUE(explained("users=bob", {{"CLUSTERPROF_EXPLAIN", "1"}}, std::nullopt));
  EXPECT_FALSE(explained("users=ada", {{"CLUSTERPROF_EXPLAIN", "1"}}, std::nullopt));
  EXPECT_TRUE(explained("not-users=ada", {}, ""));
}

TEST(SlurmFilters, WrongWordsAreReported) {
  for (const char* const words : {"users=", "not-root=/x", "fraction=2", "fraction=110%", "fraction=-1",
                                  "fraction=", "fraction=%", "fraction=1e-1", "fraction=a", "hosts=a"})
    EXPECT_EQ(parse_site({words}).problems.size(), 1u) << words;
  EXPECT_DOUBLE_EQ(parse_site({"fraction=2.5%"}).fraction, 0.025);
  EXPECT_DOUBLE_EQ(parse_site({"fraction=0.25"}).fraction, 0.25);
}

// Every step and node of a job has the same SLURM_JOB_ID; tasks of an array have one each.
TEST(SlurmFilters, AJobIsSampledByItsNumber) {
  int recorded = 0;
  for (int number = 1; number <= 400; ++number) {
    const std::string id = std::to_string(number);
    const std::string step_0 =
        reason({"fraction=25%"}, {{"SLURM_JOB_ID", id}, {"SLURM_STEP_ID", "0"}, {"SLURM_NODEID", "0"}});
    const std::string step_7 =
        reason({"fraction=25%"}, {{"SLURM_JOB_ID", id}, {"SLURM_STEP_ID", "7"}, {"SLURM_NODEID", "3"}});
    EXPECT_EQ(step_0, step_7);
    // The second component of a heterogeneous job.
    EXPECT_EQ(
        reason({"fraction=25%"}, {{"SLURM_JOB_ID", std::to_string(number + 1)}, {"SLURM_HET_JOB_ID", id}}),
        step_0);
    EXPECT_TRUE(step_0.empty() || step_0 == "not-sampled");
    recorded += step_0.empty() ? 1 : 0;
  }
  EXPECT_NEAR(recorded, 100, 4 * 8.7);  // four standard deviations
}

// Numbers of jobs come in patterns: those of one user who submits pairs, of arrays, of a busy night.
TEST(SlurmFilters, TheFractionDoesNotDependOnPatternsInJobNumbers) {
  constexpr int kJobs = 100'000;
  for (const double fraction : {0.001, 0.01, 0.1, 0.5, 0.9}) {
    for (const std::uint64_t stride : {1u, 2u, 10u, 64u, 100u, 1000u, 1024u, 65'536u}) {
      for (const std::uint64_t first : {1u, 123'456u}) {
        int sampled = 0, pairs = 0;
        bool before = false;
        for (int i = 0; i < kJobs; ++i) {
          const bool is = is_sampled(first + stride * static_cast<std::uint64_t>(i), fraction);
          sampled += is ? 1 : 0;
          pairs += is && before ? 1 : 0;
          before = is;
        }
        // Five standard deviations of independent draws.
        const double p = fraction, q = p * p;
        EXPECT_NEAR(sampled, kJobs * p, 5 * std::sqrt(kJobs * p * (1 - p))) << p << " " << stride;
        EXPECT_NEAR(pairs, kJobs * q, 5 * std::sqrt(kJobs * q * (1 - q) * 3) + 1) << p << " " << stride;
      }
    }
  }
  for (std::uint64_t job = 1; job < 1000; ++job) {
    EXPECT_FALSE(is_sampled(job, 0));
    EXPECT_TRUE(is_sampled(job, 1));
    EXPECT_TRUE(!is_sampled(job, 0.1) || is_sampled(job, 0.2));
  }
}

TEST(SlurmActivation, AUserGetsAFullRecordingWhereTheSiteMakesLightOnes) {
  const std::vector<std::string> site = {"default=on", "options=mode=light"};
  EXPECT_EQ(after(std::nullopt, site, {}).at("CLUSTERPROF_MODE"), "light");
  EXPECT_EQ(after("mode=full", site, {}).at("CLUSTERPROF_MODE"), "full");
  EXPECT_EQ(after("mode=full", site, after(std::nullopt, site, {})).at("CLUSTERPROF_MODE"), "full");
  EXPECT_EQ(after(std::nullopt, site, {{"CLUSTERPROF_MODE", "full"}}).at("CLUSTERPROF_MODE"), "full");
}

TEST(SlurmFilters, WhatTheStarterLooksAt) {
  const std::vector<std::string> site = {"default=on", "commands=train*,/opt/*", "not-commands=bash,hostname",
                                         "options=min-duration=60,min-ranks=2,rate=20"};
  EXPECT_EQ(after(std::nullopt, site, {}), (Environment{{"LD_PRELOAD", kStarter},
                                                        {"CLUSTERPROF_START", kLauncher},
                                                        {"CLUSTERPROF_START_COMMANDS", "train*,/opt/*"},
                                                        {"CLUSTERPROF_START_NOT_COMMANDS", "bash,hostname"},
                                                        {"CLUSTERPROF_START_MIN_DURATION", "60"},
                                                        {"CLUSTERPROF_START_MIN_RANKS", "2"},
                                                        {"CLUSTERPROF_RATE", "20"}}));
  // A step that somebody asks for in such a job, and one with a minimum of the user's own.
  const Environment asked = {{"LD_PRELOAD", kStarter},
                             {"CLUSTERPROF_START", kLauncher},
                             {"CLUSTERPROF_START_ASKED", "1"},
                             {"CLUSTERPROF_START_NOT_COMMANDS", "bash,hostname"},
                             {"CLUSTERPROF_RATE", "20"}};
  EXPECT_EQ(after("", site, after(std::nullopt, site, {})), asked);
  Environment with_minimum = asked;
  with_minimum["CLUSTERPROF_MIN_RANKS"] = "8";
  EXPECT_EQ(after("min-ranks=8", site, after(std::nullopt, site, {})), with_minimum);
  EXPECT_EQ(after("off", site, after(std::nullopt, site, {})), (Environment{{"CLUSTERPROF_RATE", "20"}}));
}

}  // namespace
}  // namespace clusterprof::slurm
