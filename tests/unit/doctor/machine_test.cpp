// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "fake_system.hpp"

namespace clusterprof::cli::doctor {
namespace {

const std::string kClock = "/sys/devices/system/clocksource/clocksource0/";
const std::string kCpu = "/sys/devices/system/cpu/cpu0/cpufreq/";

struct Machine : testing::Test {
  Check of(CheckFunction check) {
    Checks checks;
    check({system, kLayout, {}}, checks);
    EXPECT_EQ(checks.size(), 1u);
    return checks.empty() ? Check() : checks.front();
  }
  FakeSystem system;
};

TEST_F(Machine, Kernel) {
  EXPECT_EQ(of(check_kernel).status, Status::kOk);
  EXPECT_TRUE(of(check_kernel).costs.empty());
  system.release = "6.1.0-18-amd64";
  EXPECT_EQ(of(check_kernel).status, Status::kOk);
  EXPECT_NE(of(check_kernel).costs.find("6.15"), std::string::npos);
  system.calls.process_handle = ENOSYS;
  EXPECT_EQ(of(check_kernel).fix, "admin: Linux 5.3 or newer");
  system.calls.memory_file = EPERM;
  EXPECT_EQ(of(check_kernel).status, Status::kFail);
  EXPECT_NE(of(check_kernel).found.find("memfd_create"), std::string::npos);
  system.calls.memory_file = 0;
  system.calls.abstract_socket = EACCES;
  EXPECT_EQ(of(check_kernel).status, Status::kFail);
}

TEST_F(Machine, Timers) {
  system.files["/proc/self/status"] = "SigQ:\t3/96365\n";
  EXPECT_EQ(of(check_timers).status, Status::kOk);
  EXPECT_NE(of(check_timers).found.find("3 of 96365"), std::string::npos);
  system.files["/proc/self/status"] = "SigQ:\t96360/96365\n";
  EXPECT_EQ(of(check_timers).status, Status::kWarn);
  EXPECT_NE(of(check_timers).fix.find("ulimit -i"), std::string::npos);
  system.calls.thread_timer = EAGAIN;
  EXPECT_EQ(of(check_timers).status, Status::kFail);
  system.calls.thread_timer = EPERM;
  EXPECT_EQ(of(check_timers).status, Status::kFail);
  EXPECT_NE(of(check_timers).costs.find("no samples"), std::string::npos);
}

TEST_F(Machine, Clock) {
  Checks none;
  check_clock({system, kLayout, {}}, none);
  EXPECT_TRUE(none.empty());
  for (const char* fast : {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page"}) {
    system.files[kClock + "current_clocksource"] = std::string(fast) + "\n";
    EXPECT_EQ(of(check_clock).status, Status::kOk) << fast;
  }
  system.files[kClock + "current_clocksource"] = "hpet\n";
  system.files[kClock + "available_clocksource"] = "tsc hpet acpi_pm \n";
  EXPECT_EQ(of(check_clock).status, Status::kWarn);
  EXPECT_NE(of(check_clock).fix.find("echo tsc >"), std::string::npos);
  system.files[kClock + "available_clocksource"] = "hpet acpi_pm \n";
  EXPECT_NE(of(check_clock).fix.find("dmesg"), std::string::npos);
}

TEST_F(Machine, TimeOfDay) {
  EXPECT_EQ(of(check_synchronised).found, "synchronised, to 0.5 ms");
  system.clock.synchronised = false;
  EXPECT_EQ(of(check_synchronised).status, Status::kWarn);
  system.clock.known = false;
  EXPECT_EQ(of(check_synchronised).status, Status::kOk);
}

TEST_F(Machine, Frequency) {
  EXPECT_EQ(of(check_frequency).status, Status::kOk);
  const auto with = [&](const char* governor, const char* driver) {
    system.files[kCpu + "scaling_governor"] = std::string(governor) + "\n";
    system.files[kCpu + "scaling_driver"] = std::string(driver) + "\n";
    return of(check_frequency).status;
  };
  EXPECT_EQ(with("performance", "acpi-cpufreq"), Status::kOk);
  EXPECT_EQ(with("powersave", "intel_pstate"), Status::kOk);
  EXPECT_EQ(with("powersave", "acpi-cpufreq"), Status::kWarn);
  EXPECT_EQ(with("ondemand", "acpi-cpufreq"), Status::kWarn);
}

TEST_F(Machine, StolenTime) {
  system.files["/proc/stat"] = "cpu  1000 0 0 5000 0 0 0 0 0 0\ncpu0 1 2\n";
  EXPECT_EQ(of(check_virtualisation).found, "no virtual machine");
  system.files["/proc/cpuinfo"] = "flags\t\t: fpu hypervisor\n";
  system.files["/sys/class/dmi/id/sys_vendor"] = "QEMU\n";
  EXPECT_EQ(of(check_virtualisation).found, "virtual (QEMU)");
  EXPECT_EQ(of(check_virtualisation).status, Status::kOk);
  system.files["/proc/stat"] = "cpu  900 0 0 5000 0 0 0 100 0 0\n";
  EXPECT_EQ(of(check_virtualisation).status, Status::kWarn);
  EXPECT_EQ(of(check_virtualisation).found, "virtual (QEMU), 10.0 % of its running time stolen");
  for (const char* text : {"cpu  900 0 0 5000 0 0 0\n", "cpu0 900 0 0 5000 0 0 0 100 0 0\n",
                           "cpu  900 0 0 5000 0 0 0 99999999999999999999999 0 0\n"}) {
    system.files["/proc/stat"] = text;
    EXPECT_EQ(of(check_virtualisation).found, "virtual (QEMU)") << text;
  }
}

TEST_F(Machine, SignalsOfKilledRanksAreKnownFromLinux6_15On) {
  const auto is_told = [this](const char* release) {
    system.release = release;
    return of(check_kernel).costs.find("6.15") != std::string::npos;
  };
  for (const char* older : {"6.14.9-1-amd64", "5.15.0", "6.1", "6", "none", "99999999999.15", ""})
    EXPECT_TRUE(is_told(older)) << older;
  for (const char* newer : {"6.15.0-rc1", "6.100.3", "7.0"}) EXPECT_FALSE(is_told(newer)) << newer;
}

TEST_F(Machine, Ptrace) {
  const std::string scope = "/proc/sys/kernel/yama/ptrace_scope";
  EXPECT_EQ(of(check_ptrace).found, "not restricted (no Yama)");
  const std::pair<const char*, Status> cases[] = {
      {"0", Status::kOk}, {"1", Status::kOk}, {"2", Status::kWarn}, {"3", Status::kWarn}};
  for (const auto& [level, status] : cases) {
    system.files[scope] = std::string(level) + "\n";
    EXPECT_EQ(of(check_ptrace).status, status) << level;
    EXPECT_EQ(of(check_ptrace).costs.empty(), level[0] == '0');
  }
}

TEST_F(Machine, LimitsOfTheProcess) {
  for (const auto& [id, check] : found_by(check_limits, system)) EXPECT_EQ(check.status, Status::kOk) << id;
  system.limits[RLIMIT_NOFILE] = {256, 4096};
  system.limits[RLIMIT_NPROC] = {100, 100};
  system.limits[RLIMIT_MEMLOCK] = {65536, 65536};
  auto checks = found_by(check_limits, system);
  EXPECT_EQ(checks.at("limits.files").status, Status::kWarn);
  EXPECT_EQ(checks.at("limits.files").fix, "you: ulimit -n 4096");
  EXPECT_EQ(checks.at("limits.processes").status, Status::kWarn);
  EXPECT_NE(checks.at("limits.processes").fix.find("admin:"), std::string::npos);
  EXPECT_EQ(checks.at("limits.locked").status, Status::kOk);
  system.files["/sys/class/infiniband/mlx5_0"] = "";
  EXPECT_EQ(found_by(check_limits, system).at("limits.locked").status, Status::kWarn);
  EXPECT_EQ(checks.at("limits.sizes").status, Status::kOk);
  system.limits[RLIMIT_FSIZE] = {1 << 20, RLIM_INFINITY};
  EXPECT_EQ(found_by(check_limits, system).at("limits.sizes").status, Status::kFail);
  system.limits[RLIMIT_FSIZE] = {RLIM_INFINITY, RLIM_INFINITY};
  system.limits[RLIMIT_AS] = {400'000'000, RLIM_INFINITY};  // a small memory file fits
  EXPECT_EQ(found_by(check_limits, system).at("limits.sizes").status, Status::kOk);
  system.limits[RLIMIT_AS] = {35'000'000, RLIM_INFINITY};  // the smallest would take more than a quarter
  EXPECT_EQ(found_by(check_limits, system).at("limits.sizes").status, Status::kFail);
}

TEST_F(Machine, LimitsOfAPrologAreNotTheJobs) {
  system.uid = 0;
  system.variables["SLURM_JOB_UID"] = "1234";
  system.limits[RLIMIT_NOFILE] = {256, 4096};
  EXPECT_TRUE(found_by(check_limits, system).empty());
  EXPECT_TRUE(found_by(check_cgroup, system).empty());
  system.variables["SLURM_JOB_UID"] = "0";
  EXPECT_FALSE(found_by(check_limits, system).empty());
}

TEST_F(Machine, SharedMemory) {
  EXPECT_EQ(of(check_shared_memory).status, Status::kWarn);
  EXPECT_EQ(of(check_shared_memory).found, "missing");
  system.add("/dev/shm", 01777);
  system.spaces["/dev/shm"] = {64'000'000, 60'000'000, 0, 0};
  EXPECT_EQ(of(check_shared_memory).status, Status::kOk);
  EXPECT_EQ(of(check_shared_memory).found, "64 MB, 60 MB free");
  system.cpus = 64;
  EXPECT_EQ(of(check_shared_memory).status, Status::kWarn);
  EXPECT_NE(of(check_shared_memory).fix.find("--shm-size=641m"), std::string::npos)
      << of(check_shared_memory).fix;
}

TEST_F(Machine, ControlGroups) {
  EXPECT_EQ(of(check_cgroup).found, "memory not limited, tasks not limited");
  system.files["/proc/self/cgroup"] = "0::/system.slice/job_7/step_0\n";
  const std::string job = "/sys/fs/cgroup/system.slice/job_7/";
  system.files[job + "memory.max"] = "8000000000\n";
  system.files[job + "memory.current"] = "1000000000\n";
  system.files[job + "step_0/memory.max"] = "max\n";
  system.files[job + "step_0/memory.current"] = "500\n";
  EXPECT_EQ(of(check_cgroup).found, "7.0 GB of memory left, tasks not limited");
  EXPECT_EQ(of(check_cgroup).status, Status::kOk);
  system.files[job + "memory.current"] = "7990000000\n";
  EXPECT_EQ(of(check_cgroup).status, Status::kWarn);
  EXPECT_NE(of(check_cgroup).fix.find("srun --mem"), std::string::npos);
  system.files[job + "memory.current"] = "0\n";
  system.files[job + "pids.max"] = "20\n";
  system.files[job + "pids.current"] = "10\n";
  EXPECT_EQ(of(check_cgroup).status, Status::kWarn);
  EXPECT_NE(of(check_cgroup).fix.find("--pids-limit"), std::string::npos);
  // Groups that are no paths.
  system.files["/proc/self/cgroup"] = "0::\n1:memory:job\n2:pids:\n3\n::\n";
  EXPECT_EQ(of(check_cgroup).found, "memory not limited, tasks not limited");
}

TEST_F(Machine, ControlGroupsOfVersion1) {
  system.files["/proc/self/cgroup"] = "5:pids:/\n4:memory:/job\n0::/\n";
  system.files["/sys/fs/cgroup/memory/job/memory.limit_in_bytes"] = "50000000\n";
  system.files["/sys/fs/cgroup/memory/job/memory.usage_in_bytes"] = "10000000\n";
  system.files["/sys/fs/cgroup/memory/memory.limit_in_bytes"] = "9223372036854771712\n";
  system.files["/sys/fs/cgroup/memory/memory.usage_in_bytes"] = "10000000\n";
  EXPECT_EQ(of(check_cgroup).found, "40 MB of memory left, tasks not limited");
  EXPECT_EQ(of(check_cgroup).status, Status::kWarn);
}

}  // namespace
}  // namespace clusterprof::cli::doctor
