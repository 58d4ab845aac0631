// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>

#include "cli/doctor/child_process.hpp"
#include "cli/doctor/elf_facts.hpp"
#include "cli/doctor/papi_facts.hpp"
#include "cli/doctor/real_system.hpp"
#include "fake_system.hpp"

extern "C" {
extern const unsigned int clusterprof_test_number;
[[gnu::visibility("default")]] extern const unsigned int clusterprof_test_number = 0x160508;
}

namespace clusterprof::cli::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(Parts, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1500), "1.5 kB");
  EXPECT_EQ(bytes_text(64'000'000), "64 MB");
  EXPECT_EQ(bytes_text(999'999'999), "1.0 GB");
}

TEST(Parts, Fields) {
  const std::string text =
      "Seccomp:\t2\nSeccomp_filters:\t1\nSLURM_VERSION           = 22.05.8 \nA = b = c\n";
  EXPECT_EQ(field_of(text, "Seccomp"), "2");
  EXPECT_EQ(field_of(text, "SLURM_VERSION"), "22.05.8");
  EXPECT_EQ(field_of(text, "A"), "b = c");
  EXPECT_EQ(field_of(text, "Sec"), "");
  EXPECT_EQ(field_of("", "A"), "");
}

TEST(Parts, Versions) {
  EXPECT_EQ(version_in("slurm-wlm 22.05.8"), "22.05.8");
  EXPECT_EQ(version_in("mpirun (Open MPI) 4.1.4\n"), "4.1.4");
  EXPECT_EQ(version_in("version 2021.9 Build 20230307"), "2021.9");
  EXPECT_EQ(version_in("pmix_v4. 3."), "");
  EXPECT_EQ(version_in(""), "");
}

TEST(Parts, SubjectIsTheJobsUser) {
  FakeSystem system;
  system.variables["SLURM_JOB_UID"] = "77";
  EXPECT_EQ(subject(system), 1000u);
  EXPECT_FALSE(acts_for_another(system));
  system.uid = 0;
  EXPECT_EQ(subject(system), 77u);
  EXPECT_TRUE(acts_for_another(system));
  system.variables["SLURM_JOB_UID"] = "7x";
  EXPECT_EQ(subject(system), 0u);
  system.variables["SUDO_UID"] = "78";
  EXPECT_EQ(subject(system), 78u);
}

TEST(Parts, CommandsInPath) {
  FakeSystem system;
  EXPECT_EQ(in_path(system, "srun"), "");
  system.variables["PATH"] = "/a:/b:/c";
  system.add("/a/srun", 0644);
  system.add("/b/srun");
  system.facts["/b/srun"].is_directory = true;
  system.add("/c/srun");
  EXPECT_EQ(in_path(system, "srun"), "/c/srun");
}

TEST(Guarded, Commands) {
  const CommandOutcome said = run_command({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 10s);
  EXPECT_EQ(said.end, CommandOutcome::End::kExited);
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(said.out, "out\n");
  EXPECT_EQ(said.err, "err\n");
  EXPECT_TRUE(run_command({"/bin/true"}, 10s).succeeded());
  EXPECT_EQ(run_command({"/no/such"}, 10s).end, CommandOutcome::End::kNotStarted);
  EXPECT_EQ(run_command({}, 10s).end, CommandOutcome::End::kNotStarted);
  const CommandOutcome killed = run_command({"/bin/sh", "-c", "kill -9 $$"}, 10s);
  EXPECT_EQ(killed.end, CommandOutcome::End::kSignalled);
  EXPECT_EQ(killed.status, SIGKILL);
}

// As those of all nodes of a large machine.
TEST(Guarded, LongOutputsOfCommandsAreReadToTheirEnd) {
  const CommandOutcome said = run_command({"/bin/sh", "-c", "head -c 20000000 /dev/zero; echo end"}, 60s);
  EXPECT_TRUE(said.succeeded());
  EXPECT_EQ(said.out.size(), 20'000'004u);
}

TEST(Guarded, CommandsHaveATimeLimitAndLeaveNothing) {
  char file[] = "/tmp/clusterprof-guarded-XXXXXX";
  ::close(::mkstemp(file));
  const auto start = Clock::now();
  // The shell's child would go on without it.
  const CommandOutcome outcome =
      run_command({"/bin/sh", "-c", std::string("sleep 1000 & echo $! > ") + file + "; wait"}, 5s);
  EXPECT_EQ(outcome.end, CommandOutcome::End::kTimedOut);
  EXPECT_LT(Clock::now() - start, 60s);
  int child = 0;
  std::ifstream(file) >> child;
  ASSERT_GT(child, 0);
  const auto is_running = [child] {
    std::ifstream status("/proc/" + std::to_string(child) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(status), {}};
    const std::size_t state = text.rfind(')');
    return state != std::string::npos && text[state + 2] != 'Z';
  };
  for (int i = 0; i < 6000 && is_running(); ++i) ::usleep(10'000);
  EXPECT_FALSE(is_running());
  ::unlink(file);
}

TEST(Guarded, Children) {
  bool timed_out = true;
  EXPECT_EQ(run_in_child(
                10s, [] { return std::string("x\ny"); }, timed_out),
            "x\ny");
  EXPECT_FALSE(timed_out);
  EXPECT_FALSE(run_in_child(
      10s, []() -> std::string { ::abort(); }, timed_out));
  EXPECT_FALSE(timed_out);
  EXPECT_FALSE(run_in_child(
      10s, []() -> std::string { throw std::runtime_error("no"); }, timed_out));
  EXPECT_FALSE(timed_out);
  EXPECT_FALSE(run_in_child(
      100ms,
      []() -> std::string {
        ::pause();
        return "";
      },
      timed_out));
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Elf, OfThisTest) {
  const auto facts = read_elf_facts("/proc/self/exe");
  ASSERT_TRUE(facts);
#if defined(__x86_64__)
  EXPECT_EQ(facts->machine, EM_X86_64);
#endif
  EXPECT_TRUE(facts->has_symbols);
  EXPECT_TRUE(facts->has_lines);
  EXPECT_EQ(read_exported_number("/proc/self/exe", "clusterprof_test_number"), 0x160508u);
  EXPECT_FALSE(read_exported_number("/proc/self/exe", "clusterprof_no_such_number"));
  EXPECT_FALSE(read_elf_facts("/proc/self/cmdline"));
  EXPECT_FALSE(read_elf_facts("/no/such"));
  EXPECT_FALSE(read_elf_facts("/tmp"));
}

TEST(Elf, DamagedFilesAreNone) {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  std::string start(4096, '\0');
  in.read(start.data(), 4096);
  char path[] = "/tmp/clusterprof-elf-XXXXXX";
  const int fd = ::mkstemp(path);
  // The table of sections is not there.
  ASSERT_EQ(::write(fd, start.data(), start.size()), 4096);
  ::close(fd);
  const auto facts = read_elf_facts(path);
  ASSERT_TRUE(facts);
  EXPECT_FALSE(facts->has_lines);
  EXPECT_FALSE(read_exported_number(path, "clusterprof_test_number"));
  ::unlink(path);
}

TEST(Papi, IsReadFromItsText) {
  const PapiFacts facts = papi_facts_of(
      "library\t/lib/p.so\t\nversion\t7.0\t\ncomponent\tperf_event\t\ncomponent\trapl\tno access\n"
      "native\t12\t\npreset\tPAPI_A\t\nunavailable\tPAPI_B\twhy\nnonsense\n");
  EXPECT_EQ(facts.library, "/lib/p.so");
  EXPECT_EQ(facts.version, "7.0");
  EXPECT_EQ(facts.components, (std::vector<std::string>{"perf_event", "rapl: no access"}));
  EXPECT_EQ(facts.native_events, 12u);
  EXPECT_EQ(facts.presets, std::vector<std::string>{"PAPI_A"});
  ASSERT_EQ(facts.unavailable.size(), 1u);
  EXPECT_EQ(facts.unavailable[0].second, "why");
}

TEST(ThisMachine, AnswersEverything) {
  const auto system = this_machine();
  EXPECT_EQ(system->read("/proc/self/comm"), "doctor_test\n");
  EXPECT_FALSE(system->read("/no/such"));
  EXPECT_FALSE(system->list("/proc/self").empty());
  EXPECT_EQ(system->look("/no/such").error, ENOENT);
  EXPECT_TRUE(system->look("/").is_directory);
  EXPECT_GE(system->processors(), 1u);
  EXPECT_EQ(system->try_calls().memory_file, 0);
  EXPECT_EQ(system->try_calls().abstract_socket, 0);
  EXPECT_EQ(system->try_events(::geteuid(), {{}, {}}).size(), 2u);
  if (::geteuid() == 0) {
    EXPECT_EQ(system->try_events(65534, {{}, {}}).size(), 2u);
  }
}

}  // namespace
}  // namespace clusterprof::cli::doctor
