// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

const std::string kPlugin = "/opt/cp/lib/clusterprof/spank_clusterprof.so";
const std::string kStack = "/etc/slurm/plugstack.conf";

struct Slurm : testing::Test {
  Slurm() {
    system.variables["PATH"] = "/usr/bin";
    for (const char* command : {"srun", "scontrol"}) system.add(std::string("/usr/bin/") + command);
    configure("22.05.8");
    system.says("/usr/bin/srun --version", "slurm-wlm 22.05.8\n");
    system.says("/usr/bin/srun --mpi=list",
                "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin "
                "versions available: pmix_v4\n");
    system.numbers[kPlugin] = 0x160508;
    system.files[kStack] = "# plugins\ninclude /etc/slurm/plugstack.conf.d/*.conf\n";
    system.files["/etc/slurm/plugstack.conf.d/clusterprof.conf"] = "optional " + kPlugin + " default=on\n";
    system.libraries = {{"libmpi.so.40", "/lib/libmpi.so.40"}, {"libmpich.so.12", "/lib/libmpich.so.12"}};
  }
  void configure(const std::string& version, const std::string& tracking = "proctrack/cgroup",
                 const std::string& wait = "30 sec", const std::string& more = "") {
    system.says("/usr/bin/scontrol show config",
                "Configuration data as of 2026-11-22T09:00:00\nKillWait                = " + wait +
                    "\nMpiDefault              = pmix\nProctrackType           = " + tracking +
                    "\nSLURM_CONF              = /etc/slurm/slurm.conf\nSLURM_VERSION           = " +
                    version + "\nTaskProlog              = (null)\n" + more);
  }
  void stack(const std::string& line) {
    system.files["/etc/slurm/plugstack.conf.d/clusterprof.conf"] = line + "\n";
  }
  std::map<std::string, Check> look() { return found_by(check_slurm, system); }
  FakeSystem system;
};

TEST_F(Slurm, FitsTogether) {
  const auto checks = look();
  ASSERT_EQ(checks.size(), 4u);
  for (const auto& [id, check] : checks) EXPECT_EQ(check.status, Status::kOk) << id << ": " << check.found;
  EXPECT_EQ(checks.at("slurm.plugin").found, "Slurm 22.05.8, plugin for 22.05");
  EXPECT_EQ(checks.at("slurm.plugstack").found,
            "/etc/slurm/plugstack.conf.d/clusterprof.conf: optional " + kPlugin);
  EXPECT_EQ(checks.at("slurm.mpi").found, "cray_shasta, none, pmi2, pmix; default pmix");
  EXPECT_EQ(checks.at("slurm.config").found, "proctrack/cgroup, KillWait 30 s");
}

TEST_F(Slurm, IsMissing) {
  system.facts.clear();
  EXPECT_EQ(look().size(), 1u);
  EXPECT_EQ(look().at("slurm.plugin").found, "no Slurm in PATH");
  EXPECT_EQ(look().at("slurm.plugin").status, Status::kOk);
}

TEST_F(Slurm, OfNoCluster) {
  system.says("/usr/bin/scontrol show config", "", 1, "scontrol: error: no configuration\n");
  system.says("/usr/bin/srun --version", "", 1, "srun: fatal: Could not establish a configuration source\n");
  EXPECT_EQ(look().at("slurm.plugin").status, Status::kOk);
  EXPECT_NE(look().at("slurm.plugin").found.find("belong to no cluster"), std::string::npos);
  system.hangs("/usr/bin/srun --version");
  EXPECT_EQ(look().at("slurm.plugin").status, Status::kWarn);
}

TEST_F(Slurm, ControllerThatDoesNotAnswer) {
  system.says("/usr/bin/scontrol show config", "", 1,
              "slurm_load_ctl_conf error: Unable to contact slurm controller\n");
  const auto checks = look();
  EXPECT_EQ(checks.at("slurm.plugin").status, Status::kOk);
  EXPECT_EQ(checks.at("slurm.plugstack").status, Status::kOk);
  EXPECT_EQ(checks.at("slurm.config").status, Status::kWarn);
}

TEST_F(Slurm, PluginOfAnotherRelease) {
  configure("23.11.4");
  Check check = look().at("slurm.plugin");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "Slurm 23.11.4, plugin for 22.05");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kFail);
  // Several releases side by side.
  system.numbers["/opt/cp/lib/clusterprof/slurm-23.11/spank_clusterprof.so"] = 0x170b04;
  check = look().at("slurm.plugin");
  EXPECT_EQ(check.status, Status::kOk);
  EXPECT_EQ(check.found, "Slurm 23.11.4, plugin for 22.05, 23.11");
  stack("optional /opt/cp/lib/clusterprof/slurm-23.11/spank_clusterprof.so");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kOk);
  system.numbers.clear();
  EXPECT_EQ(look().at("slurm.plugin").status, Status::kWarn);
  EXPECT_NE(look().at("slurm.plugin").fix.find("slurm/spank.h"), std::string::npos);
}

TEST_F(Slurm, Plugstack) {
  stack("required " + kPlugin);
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kWarn);
  EXPECT_NE(look().at("slurm.plugstack").fix.find("optional"), std::string::npos);
  stack("optional /gone/spank_clusterprof.so");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kWarn);
  stack("required /gone/spank_clusterprof.so");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kFail);
  stack("# optional " + kPlugin);
  const Check none = look().at("slurm.plugstack");
  EXPECT_EQ(none.status, Status::kWarn);
  EXPECT_EQ(none.fix,
            "admin: on each node /opt/cp/share/clusterprof/slurm/install_on_node /opt/clusterprof-node; "
            "then add to "
            "/etc/slurm/plugstack.conf: optional /opt/clusterprof-node/spank_clusterprof.so "
            "prefix=/opt/clusterprof-node/prefix");
  configure("22.05.8", "proctrack/cgroup", "30 sec",
            "TaskProlog = /opt/cp/share/clusterprof/slurm/task_prolog\n");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kWarn);  // the first of two says (null)
  system.files.clear();
  EXPECT_NE(look().at("slurm.plugstack").found.find("none that can be read"), std::string::npos);
  stack("optional " + kPlugin + "\noptional " + kPlugin);
  system.files[kStack] = "include plugstack.conf.d/*.conf\n";
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kWarn);
  EXPECT_NE(look().at("slurm.plugstack").found.find("1 more"), std::string::npos);
}

TEST_F(Slurm, ScriptsOnASharedFileSystemFail) {
  system.files["/proc/self/mountinfo"] =
      "22 1 8:1 / / rw - ext4 /dev/a rw\n30 22 0:25 / /apps rw - nfs4 server:/apps rw\n";
  EXPECT_FALSE(look().contains("slurm.scripts"));
  configure("22.05.8", "proctrack/cgroup", "30 sec",
            "Prolog = /etc/slurm/prolog\nEpilog = /etc/slurm/epilog.d/*\n");
  system.files["/etc/slurm/epilog.d/10-clusterprof"] = "";
  EXPECT_EQ(look().at("slurm.scripts").status, Status::kOk);
  EXPECT_EQ(look().at("slurm.scripts").found, "Prolog=/etc/slurm/prolog, Epilog=/etc/slurm/epilog.d/*");
  system.links["/etc/slurm/epilog.d/10-clusterprof"] = "/apps/cp/share/clusterprof/slurm/epilog";
  Check check = look().at("slurm.scripts");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_EQ(check.found, "/etc/slurm/epilog.d/10-clusterprof is on nfs4");
  EXPECT_NE(check.fix.find("install_on_node"), std::string::npos);
  configure("22.05.8", "proctrack/cgroup", "30 sec", "Prolog = /apps/cp/share/clusterprof/slurm/prolog\n");
  EXPECT_EQ(look().at("slurm.scripts").found, "/apps/cp/share/clusterprof/slurm/prolog is on nfs4");
  configure("23.11.1", "proctrack/cgroup", "30 sec",
            "Prolog[0] = /etc/slurm/prolog\nProlog[1] = /apps/cp/prolog\n");
  EXPECT_EQ(look().at("slurm.scripts").found, "/apps/cp/prolog is on nfs4");
}

TEST_F(Slurm, PluginAndStarterOnASharedFileSystemFail) {
  system.files["/proc/self/mountinfo"] =
      "22 1 8:1 / / rw - ext4 /dev/a rw\n30 22 0:25 / /apps rw - nfs4 server:/apps rw\n";
  const std::string local = "/etc/slurm/clusterprof/", remote = "/apps/cp/lib/clusterprof/";
  for (const std::string& folder : {local, remote})
    system.numbers[folder + "spank_clusterprof.so"] = 0x160508;
  stack("optional " + local + "spank_clusterprof.so prefix=/apps/cp");  // the prefix may be there
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kOk);
  stack("optional " + local + "spank_clusterprof.so prefix=/apps/cp starter=" + local +
        "libclusterprof_start.so");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kOk);
  stack("optional " + local + "spank_clusterprof.so prefix=/apps/cp starter=" + remote +
        "libclusterprof_start.so default=on");
  Check check = look().at("slurm.plugstack");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_NE(check.found.find(remote + "libclusterprof_start.so is on nfs4"), std::string::npos);
  EXPECT_NE(check.fix.find("install_on_node"), std::string::npos);
  stack("optional " + remote + "spank_clusterprof.so");
  check = look().at("slurm.plugstack");
  EXPECT_EQ(check.status, Status::kFail);
  EXPECT_NE(check.found.find(remote + "spank_clusterprof.so is on nfs4"), std::string::npos);
  system.links[local + "spank_clusterprof.so"] = remote + "spank_clusterprof.so";
  stack("optional " + local + "spank_clusterprof.so");
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kFail);
}

TEST_F(Slurm, PlugstackThatIncludesItself) {
  system.files[kStack] = "include /etc/slurm/plugstack.conf\noptional " + kPlugin + "\n";
  EXPECT_TRUE(look().contains("slurm.plugstack"));
}

TEST_F(Slurm, WaysToStartMpi) {
  system.says("/usr/bin/srun --mpi=list", "srun: MPI types are...\nsrun: none\nsrun: pmi2\n");
  Check check = look().at("slurm.mpi");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "none, pmi2; default pmix");
  EXPECT_NE(check.costs.find("Open MPI"), std::string::npos);
  EXPECT_EQ(check.costs.find("MPICH"), std::string::npos);
  system.libraries.erase("libmpi.so.40");
  EXPECT_EQ(look().at("slurm.mpi").status, Status::kOk);
  system.says("/usr/bin/srun --mpi=list", "MPI plugin types are...\n\tnone\n");
  check = look().at("slurm.mpi");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_NE(check.costs.find("MPICH"), std::string::npos);
}

TEST_F(Slurm, FilesThatIncludeEachOther) {
  std::string includes;
  for (int i = 0; i < 10; ++i) includes += "include *\n";
  system.files["/etc/slurm/a.conf"] = system.files[kStack] = includes;
  EXPECT_EQ(look().at("slurm.plugstack").status, Status::kWarn);
}

TEST_F(Slurm, Configuration) {
  configure("22.05.8", "proctrack/linuxproc", "2 sec", "JobContainerType        = job_container/tmpfs\n");
  const Check check = look().at("slurm.config");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "proctrack/linuxproc, KillWait 2 s, job_container/tmpfs");
  EXPECT_EQ(
      check.fix,
      "admin: ProctrackType=proctrack/cgroup, or our Epilog, which ends what is ours; admin: KillWait=30");
  EXPECT_NE(check.costs.find("/tmp are gone"), std::string::npos);
}

}  // namespace
}  // namespace clusterprof::cli::doctor
