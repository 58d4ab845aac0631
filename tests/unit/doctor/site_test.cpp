// SPDX-License-Identifier: BSD-3-Clause
#include "cli/doctor/site.hpp"

#include <gtest/gtest.h>

#include "cli/doctor/report.hpp"
#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

Check of_kernel(const std::string& release) {
  return {"node.system",        "node", "system", Status::kOk, "Linux " + release, "", "", {},
          {{"kernel", release}}};
}
Check of_clock(const std::string& source, Status status = Status::kOk) {
  return {"sampling.clock", "sampling", "clock", status, source, status == Status::kOk ? "" : "slow", "", {}};
}

TEST(DoctorSite, WritesListsOfNodes) {
  EXPECT_EQ(node_list({"n1", "n3", "n2", "n7"}), "n[1-3,7]");
  EXPECT_EQ(node_list({"n12"}), "n12");
  EXPECT_EQ(node_list({"a2b9", "a2b10", "login", "n007"}), "a2b[9-10],login,n007");
  EXPECT_EQ(node_list({}), "");
}

TEST(DoctorSite, AnswersSurviveMixedLines) {
  std::string json = json_of({of_kernel("6.1 \"x\""), of_clock(std::string(5000, 't'))}, "n1", false);
  const std::string one = answer_lines("n1", json), other = answer_lines("n2", json);
  for (std::size_t at = 0; at < one.size(); at = one.find('\n', at) + 1)
    EXPECT_LE(one.find('\n', at) - at, 1000u);
  // Lines of both in turn, and what others print.
  std::string mixed = "slurmstepd: hello\n";
  for (std::size_t a = 0, b = 0; a < one.size();) {
    const std::size_t to_a = one.find('\n', a) + 1, to_b = other.find('\n', b) + 1;
    mixed += other.substr(b, to_b - b) + one.substr(a, to_a - a);
    a = to_a, b = to_b;
  }
  const auto answers = answers_in(mixed);
  ASSERT_EQ(answers.size(), 2u);
  const NodeAnswer answer = parse_answer("n1", answers.at("n1"));
  ASSERT_EQ(answer.checks.size(), 2u);
  EXPECT_EQ(answer.checks[0].facts,
            (std::vector<std::pair<std::string, std::string>>{{"kernel", "6.1 \"x\""}}));
  EXPECT_EQ(answer.checks[1].found.size(), 5000u);

  // Without its end it is none.
  EXPECT_EQ(answers_in(one.substr(0, one.rfind("clusterprof-doctor-answer"))).size(), 0u);
  EXPECT_TRUE(parse_answer("n1", "{\"checks\": 5}").checks.empty());
  EXPECT_TRUE(parse_answer("n1", "{").checks.empty());
  EXPECT_TRUE(parse_answer("n1", "{\"checks\": " + std::string(1'000'000, '[')).checks.empty());
  EXPECT_TRUE(answers_in("clusterprof-doctor-answer n1 5 4 x\nclusterprof-doctor-answer n1 x 99999999999 \n")
                  .empty());
}

// A node says what its checks are called.
TEST(DoctorSite, GivesTheTerminalNoEscapesOfNodes) {
  const NodeAnswer first =
      parse_answer("n1", R"({"checks": [{"id": "a\u001b[31m", "title": "t\u001b[32m", "status": "warn",
                             "found": "f\u001b[33m", "facts": {"k\u001b[34m": "v\u001b[35m"}}]})");
  ASSERT_EQ(first.checks.size(), 1u);
  const std::string text = text_of(compare({first, {"n2", {of_kernel("6.1")}}}, {}, ""));
  EXPECT_NE(text.find("[31m"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(DoctorSite, ShowsWhatDiffers) {
  const SiteReport report = compare({{"n1", {of_kernel("6.1"), of_clock("tsc")}},
                                     {"n2", {of_kernel("6.1"), of_clock("hpet", Status::kWarn)}},
                                     {"n3", {of_kernel("6.1"), of_clock("tsc")}},
                                     {"n4", {of_kernel("5.14")}}},
                                    {"n5"}, "srun: error");
  EXPECT_EQ(text_of(report),
            "different\n"
            "  node.system  system: kernel\n"
            "      6.1\n"
            "        on n[1-3]\n"
            "      5.14\n"
            "        on n4\n"
            "  sampling.clock  clock\n"
            "      tsc\n"
            "        on n[1,3]\n"
            "      hpet\n"
            "        on n2\n"
            "      not told\n"
            "        on n4\n"
            "  sampling.clock  clock: status\n"
            "      ok\n"
            "        on n[1,3]\n"
            "      not told\n"
            "        on n4\n"
            "      warn\n"
            "        on n2\n"
            "\n"
            "not ok\n"
            "  warn  sampling.clock  clock\n"
            "      hpet: slow\n"
            "        on n2\n"
            "\n"
            "4 nodes answered: 3 differences, 1 check not ok\n"
            "no answer from n5\n"
            "  srun: error\n");
  EXPECT_NE(json_of(report).find(
                "{\"check\": \"node.system\", \"title\": \"system\", \"fact\": \"kernel\", \"values\": "
                "[{\"value\": \"6.1\", \"nodes\": [\"n1\", \"n2\", \"n3\"]}, "
                "{\"value\": \"5.14\", \"nodes\": [\"n4\"]}]}"),
            std::string::npos)
      << json_of(report);
  EXPECT_EQ(text_of(compare({{"n1", {of_kernel("6.1")}}, {"n2", {of_kernel("6.1")}}}, {}, "")),
            "2 nodes answered: no difference, 0 checks not ok\n");
}

class Asks : public testing::Test {
 protected:
  FakeSystem system;
  std::string error;
  std::string srun =
      "/usr/bin/srun --quiet --nodes=2 --ntasks-per-node=1 --nodelist=n[1-2] --kill-on-bad-exit=0 --no-kill";
  std::string doctor = " /opt/bin/clusterprof doctor --node --answer";

  void SetUp() override {
    system.variables["PATH"] = "/usr/bin";
    for (const char* name : {"srun", "scontrol", "sinfo"}) system.add(std::string("/usr/bin/") + name);
    system.says("/usr/bin/scontrol show hostnames n[1-2]", "n1\nn2\n");
  }
  std::string answer_of(const std::string& node) {
    return answer_lines(node, json_of({of_kernel("6.1")}, node, false));
  }
};

TEST_F(Asks, TheNodesOfAJob) {
  system.variables["SLURM_JOB_ID"] = "7";
  system.variables["SLURM_JOB_NODELIST"] = "n[1-2]";
  system.says(srun + " --overlap" + doctor, answer_of("n1"), 1, "srun: error: n2: task 1: Killed\nmore\n");
  const SiteReport report = ask_site(system, {"/opt/bin/clusterprof", "", "", ""}, error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(report.nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(report.missing, std::vector<std::string>{"n2"});
  EXPECT_EQ(report.problem, "srun: error: n2: task 1: Killed");
}

TEST_F(Asks, NodesOfAPartitionThatAreUp) {
  system.says("/usr/bin/sinfo --noheader --Node --partition=long --format=%N %T",
              "n1 idle\nn2 mixed\nn3 down*\nn4 idle*\n");
  system.says(srun + " --immediate=60 --partition=long" + doctor + " /scratch",
              answer_of("n1") + answer_of("n2"));
  const SiteReport report = ask_site(system, {"/opt/bin/clusterprof", "", "long", "/scratch"}, error);
  EXPECT_EQ(report.nodes, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(report.missing, (std::vector<std::string>{"n3", "n4"}));
}

TEST_F(Asks, NobodyWithoutNodes) {
  (void)ask_site(system, {"/opt/bin/clusterprof", "", "", ""}, error);
  EXPECT_NE(error.find("salloc"), std::string::npos);
  (void)ask_site(system, {"/opt/bin/clusterprof", "nonsense", "", ""}, error);
  EXPECT_NE(error.find("nonsense"), std::string::npos);
  system.variables["PATH"] = "/nowhere";
  (void)ask_site(system, {"/opt/bin/clusterprof", "n1", "", ""}, error);
  EXPECT_NE(error.find("srun"), std::string::npos);
}

// One table of checks: what a node is asked is what doctor shows there.
TEST(DoctorNode, TellsWhatTheNodeIs) {
  FakeSystem system;
  system.files["/proc/cpuinfo"] = "processor : 0\nmodel name\t: Fast CPU\n";
  system.files["/proc/meminfo"] = "MemTotal:       263000000 kB\n";
  system.files["/proc/self/mountinfo"] =
      "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / /opt rw - nfs4 server:/ rw\n";
  InstallLayout layout;
  layout.launcher = "/opt/cp/bin/clusterprof";
  Request request;
  request.directory = "/scratch";
  Checks checks;
  check_node({system, layout, request}, checks);
  ASSERT_EQ(checks.size(), 3u);
  using Facts = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(checks[0].facts, (Facts{{"kernel", "6.16.1"},
                                    {"glibc", "2.36"},
                                    {"processor", "Fast CPU"},
                                    {"processors", "4"},
                                    {"memory", "269 GB"}}));
  EXPECT_EQ(checks[1].facts.back(), (std::pair<std::string, std::string>("recording", "on")));
  EXPECT_EQ(checks[2].facts, (Facts{{"prefix", "nfs4"}, {"runs", "ext4"}, {"/tmp", "ext4"}}));

  system.files["/run/clusterprof/off"] = "";
  checks.clear();
  check_node({system, layout, request}, checks);
  EXPECT_EQ(checks[1].status, Status::kWarn);
  EXPECT_EQ(checks[1].fix, "admin: rm /run/clusterprof/off");
}

TEST(DoctorNode, AddsUpWhatBecameOfRecordings) {
  FakeSystem system;
  const std::string directory = "/var/spool/clusterprof/";
  const auto add = [&](const std::string& name, uid_t owner, const std::string& text) {
    system.files[directory + name] = text;
    system.add(directory + name, 0644);
    system.facts[directory + name].owner = owner;
  };
  add("counts-2026-11-22.1000", 1000, "23:59:59 1.0 started -\n");
  add("counts-2026-11-23.1000", 1000,
      "00:00:01 1.0 recorded -\n00:00:02 2.0 started -\n00:00:03 3.0 unrecorded prefix-hangs\nnonsense\n");
  add("counts-2026-11-23.1001", 1001, "00:00:04 4.0 unrecorded prefix-hangs\n00:00:05 5");
  add("counts-2026-11-23.1002", 1000, "00:00:04 4.0 recorded -\n");  // somebody else's words
  InstallLayout layout;
  Request request;
  Checks checks;
  check_counts({system, layout, request}, checks);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].found, "1 recorded, 2 started, 2 unrecorded prefix-hangs since 2026-11-22");
  EXPECT_EQ(checks[0].details,
            (std::vector<std::string>{"2026-11-22: 1 started",
                                      "2026-11-23: 1 recorded, 1 started, 2 unrecorded prefix-hangs"}));
  const SiteReport report = compare({{"n1", checks}, {"n2", checks}}, {}, "");
  EXPECT_EQ(report.counts, (std::vector<std::pair<std::string, std::uint64_t>>{
                               {"recorded", 2}, {"started", 4}, {"unrecorded prefix-hangs", 4}}));
  EXPECT_NE(text_of(report).find("recordings\n  2 recorded\n  4 started\n  4 unrecorded prefix-hangs\n"),
            std::string::npos);
  EXPECT_EQ(parse_answer("n1", json_of(checks, "n1", false)).checks.at(0).counts, checks[0].counts);

  checks.clear();
  check_counts({FakeSystem(), layout, request}, checks);
  EXPECT_TRUE(checks.empty());
}

TEST(DoctorNode, TellsWhichPluginSlurmLoads) {
  FakeSystem system;
  system.files["/etc/slurm/plugstack.conf"] = "optional /local/spank_clusterprof.so prefix=/opt default=on\n";
  system.add("/local/spank_clusterprof.so");
  system.elfs["/local/spank_clusterprof.so"].build_id = "0123456789abcdef";
  InstallLayout layout;
  Request request;
  Checks checks;
  check_node_of_slurm({system, layout, request}, checks);
  using Facts = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(checks.at(0).facts,
            (Facts{{"plugstack.conf", "optional /local/spank_clusterprof.so prefix=/opt default=on"},
                   {"plugin", "build-id 0123456789ab"},
                   {"starter", "missing"}}));
}

}  // namespace
}  // namespace clusterprof::cli::doctor
