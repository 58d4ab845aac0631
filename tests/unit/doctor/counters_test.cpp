// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

struct Counters : testing::Test {
  Counters() {
    set_level("1");
    set_status("0", "0000000000000000");
    papi.library = "/lib/libpapi.so.7.0";
    papi.version = "7.0";
    papi.components = {"perf_event", "rapl: no access to the powercap files"};
    papi.presets = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "PAPI_BR_MSP"};
    papi.unavailable = {{"PAPI_BRU_IDL", "not supported by this processor"}};
    papi.native_events = 400;
  }
  void set_level(const std::string& level) {
    system.files["/proc/sys/kernel/perf_event_paranoid"] = level + "\n";
  }
  void set_status(const std::string& seccomp, const std::string& capabilities) {
    system.files["/proc/self/status"] =
        "Name:\tx\nCapEff:\t" + capabilities + "\nSeccomp:\t" + seccomp + "\n";
  }
  // As the kernel decides by perf_event_paranoid.
  void decide_by(int level) {
    set_level(std::to_string(level));
    system.event = [level](uid_t user, const EventProbe& probe) {
      if (user == 0 || level <= 1) return 0;
      return level >= 3 || probe.in_kernel ? EACCES : 0;
    };
  }
  std::map<std::string, Check> look() { return found_by(check_events, system); }
  FakeSystem system;
  PapiFacts& papi = system.papi_facts;
};

TEST_F(Counters, AreAllPermitted) {
  const auto checks = look();
  EXPECT_EQ(checks.at("counters.permission").status, Status::kOk);
  EXPECT_EQ(checks.at("counters.permission").found, "in user and kernel mode (perf_event_paranoid=1)");
  EXPECT_EQ(checks.at("counters.hardware").status, Status::kOk);
  EXPECT_EQ(checks.at("counters.seccomp").found, "no filter");
}

TEST_F(Counters, InUserModeOnly) {
  decide_by(2);
  const Check check = look().at("counters.permission");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "in user mode only (perf_event_paranoid=2)");
  EXPECT_NE(check.fix.find("admin: sysctl -w kernel.perf_event_paranoid=1"), std::string::npos);
  EXPECT_EQ(look().at("counters.hardware").status, Status::kOk);
}

TEST_F(Counters, AreForbidden) {
  decide_by(4);
  const auto checks = look();
  EXPECT_EQ(checks.at("counters.permission").status, Status::kWarn);
  EXPECT_EQ(checks.at("counters.permission").found, "not permitted (perf_event_paranoid=4)");
  EXPECT_EQ(checks.at("counters.hardware").status, Status::kWarn);
  EXPECT_NE(checks.at("counters.hardware").found.find("not permitted"), std::string::npos);
}

TEST_F(Counters, OfRootAreNotThoseOfTheJobsUser) {
  decide_by(4);
  system.uid = 0;
  EXPECT_EQ(look().at("counters.permission").status, Status::kOk);
  system.variables["SLURM_JOB_UID"] = "1234";
  const Check check = look().at("counters.permission");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "not permitted for user 1234 (perf_event_paranoid=4)");
}

TEST_F(Counters, AreThereWithTheCapability) {
  set_level("4");
  set_status("0", "0000004000000000");
  EXPECT_EQ(look().at("counters.permission").found,
            "in user and kernel mode with CAP_PERFMON (perf_event_paranoid=4)");
  set_status("0", "0000000000200000");
  EXPECT_EQ(look().at("counters.permission").found,
            "in user and kernel mode with CAP_SYS_ADMIN (perf_event_paranoid=4)");
}

TEST_F(Counters, ACapabilityThatIsOfNoUseIsNotNamed) {
  // Root of a user namespace.
  decide_by(4);
  set_status("0", "000001ffffffffff");
  EXPECT_EQ(look().at("counters.permission").found, "not permitted (perf_event_paranoid=4)");
  system.event = [](uid_t, const EventProbe&) { return EINVAL; };
  EXPECT_EQ(look().at("counters.permission").status, Status::kWarn);
  EXPECT_EQ(look().at("counters.permission").found, "refused: Invalid argument");
}

TEST_F(Counters, ForbiddenByASeccompFilter) {
  set_status("2", "0");
  EXPECT_EQ(look().at("counters.seccomp").status, Status::kOk);
  EXPECT_NE(look().at("counters.seccomp").found.find("permits"), std::string::npos);
  system.event = [](uid_t, const EventProbe&) { return EPERM; };
  const auto checks = look();
  EXPECT_EQ(checks.at("counters.seccomp").status, Status::kWarn);
  EXPECT_EQ(checks.at("counters.permission").found, "not permitted (a seccomp filter)");
  EXPECT_NE(checks.at("counters.permission").fix.find("docker run"), std::string::npos);
}

TEST_F(Counters, AreMissingInAKernelWithoutPerformanceEvents) {
  system.event = [](uid_t, const EventProbe&) { return ENOSYS; };
  EXPECT_EQ(look().at("counters.permission").status, Status::kWarn);
  EXPECT_EQ(look().at("counters.permission").found, "this kernel has none");
}

TEST_F(Counters, WarnWithTooFewDescriptors) {
  system.event = [](uid_t, const EventProbe&) { return EMFILE; };
  EXPECT_EQ(look().at("counters.permission").status, Status::kWarn);
  EXPECT_EQ(look().at("counters.permission").fix, "you: ulimit -n 4096");
}

TEST_F(Counters, OfHardwareThatAVirtualMachineLacks) {
  system.event = [](uid_t, const EventProbe& probe) { return probe.type == PERF_TYPE_HARDWARE ? ENOENT : 0; };
  EXPECT_EQ(look().at("counters.hardware").found, "none that this kernel knows");
  system.files["/proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n";
  const Check check = look().at("counters.hardware");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "none in this virtual machine");
  EXPECT_EQ(look().at("counters.permission").status, Status::kOk);
}

TEST_F(Counters, AreListedByPapi) {
  const auto checks = found_by(check_papi, system);
  EXPECT_EQ(checks.at("counters.papi").status, Status::kOk);
  EXPECT_EQ(checks.at("counters.papi").found,
            "7.0 (/lib/libpapi.so.7.0), components: perf_event, 400 native events");
  const Check& events = checks.at("counters.events");
  EXPECT_EQ(events.status, Status::kOk);
  EXPECT_EQ(events.found, "4 of 5 can be counted");
  EXPECT_EQ(events.details,
            (std::vector<std::string>{"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM", "PAPI_BR_MSP",
                                      "PAPI_BRU_IDL: not supported by this processor"}));
}

TEST_F(Counters, OfTheDefaultSetThatPapiLacks) {
  papi.presets.pop_back();
  papi.unavailable.emplace_back("PAPI_BR_MSP", "not supported by this processor");
  const Check events = found_by(check_papi, system).at("counters.events");
  EXPECT_EQ(events.status, Status::kWarn);
  EXPECT_NE(events.found.find("of the default ones, these are missing: PAPI_BR_MSP"), std::string::npos) << events.found;
}

TEST_F(Counters, SayWhyAsReportsDo) {
  papi.presets.clear();
  papi.unavailable = {{"PAPI_TOT_CYC", "not supported by this processor"}};
  system.event = [](uid_t, const EventProbe& probe) { return probe.type == PERF_TYPE_HARDWARE ? ENOENT : 0; };
  EXPECT_EQ(found_by(check_papi, system).at("counters.events").details.at(0),
            "PAPI_TOT_CYC: no hardware counters on this machine");
  decide_by(3);
  EXPECT_EQ(found_by(check_papi, system).at("counters.events").details.at(0),
            "PAPI_TOT_CYC: not permitted (perf_event_paranoid=3)");
}

// A processor newer than PAPI's libpfm.
TEST_F(Counters, OfAPapiThatDoesNotKnowTheProcessor) {
  papi.components = {"perf_event: Error initializing libpfm4: no default PMU found", "rapl"};
  papi.presets.clear();
  papi.unavailable = {{"PAPI_TOT_CYC", "not supported by this processor"}};
  const auto checks = found_by(check_papi, system);
  const Check& check = checks.at("counters.papi");
  EXPECT_EQ(check.status, Status::kWarn);
  EXPECT_EQ(check.found, "/lib/libpapi.so.7.0: perf_event: Error initializing libpfm4: no default PMU found");
  EXPECT_TRUE(check.costs.starts_with("cycles, instructions and branches are counted")) << check.costs;
  system.event = [](uid_t, const EventProbe& probe) { return probe.type == PERF_TYPE_HARDWARE ? ENOENT : 0; };
  EXPECT_TRUE(found_by(check_papi, system).at("counters.papi").costs.starts_with("nothing"));
  EXPECT_NE(check.fix.find("libpfm"), std::string::npos);
}

TEST_F(Counters, WarnWithoutPapi) {
  papi = {};
  const auto checks = found_by(check_papi, system);
  EXPECT_EQ(checks.at("counters.papi").status, Status::kWarn);
  EXPECT_EQ(checks.at("counters.papi").found, "no libpapi.so.7");
  EXPECT_FALSE(checks.contains("counters.events"));
  papi.library = "/lib/libpapi.so.6";
  papi.problem = "it is of another version than 7";
  EXPECT_EQ(found_by(check_papi, system).at("counters.papi").found,
            "/lib/libpapi.so.6: it is of another version than 7");
  EXPECT_EQ(found_by(check_papi, system).at("counters.papi").status, Status::kWarn);
}

TEST_F(Counters, QuickFormOnlyLooksForPapi) {
  Request quick;
  quick.quick = true;
  EXPECT_EQ(found_by(check_papi_library, system, quick).at("counters.papi").status, Status::kWarn);
  system.libraries["libpapi.so.7.0"] = "/lib/libpapi.so.7.0";
  EXPECT_EQ(found_by(check_papi_library, system, quick).at("counters.papi").found, "/lib/libpapi.so.7.0");
  EXPECT_TRUE(found_by(check_papi_library, system).empty());
}

}  // namespace
}  // namespace clusterprof::cli::doctor
