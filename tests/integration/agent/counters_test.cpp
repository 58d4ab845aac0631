// SPDX-License-Identifier: BSD-3-Clause
// Compares what the agent counts with what the program knows about itself. Also: events that cannot be
// counted, and sampling on events.
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "agent/sigsafe/event_group.h"
#include "tests/integration/agent/fake_collector.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kTarget = CLUSTERPROF_TEST_COUNTERS;
const std::string kFakePapi = std::string("LD_LIBRARY_PATH=") + CLUSTERPROF_TEST_FAKE_PAPI;

bool has_hardware_counters() {
  perf_event_attr cycles = {};
  cycles.type = PERF_TYPE_HARDWARE;
  cycles.size = sizeof cycles;
  cycles.config = PERF_COUNT_HW_CPU_CYCLES;
  cycles.exclude_kernel = 1;
  const long descriptor = syscall(SYS_perf_event_open, &cycles, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  if (descriptor >= 0) close(static_cast<int>(descriptor));
  return descriptor >= 0;
}

std::vector<std::string> counted(const wire::SegmentHeader& segment) {
  return {segment.counter_names, segment.counter_names + segment.counter_count};
}

std::map<std::string, std::string> missing(const wire::SegmentHeader& segment) {
  std::map<std::string, std::string> reasons;
  for (std::uint32_t i = 0; i < segment.unavailable_count; ++i)
    reasons[segment.unavailable_names[i]] = segment.unavailable_reasons[i];
  return reasons;
}

// Why PAPI counts nothing here, on a processor that is newer than its libpfm, say. Empty: it does.
std::string papi_missing(const wire::SegmentHeader& segment) {
  const auto reasons = missing(segment);
  const auto found = reasons.find("PAPI");
  return found == reasons.end() ? std::string() : found->second;
}

// The last values of a thread by name: from its end, or from its last sample if its end was not recorded.
std::map<std::string, double> totals(const ProcessLog& process, const ThreadLog& thread) {
  std::map<std::string, double> values;
  const auto from = std::find_if(thread.samples.rbegin(), thread.samples.rend(),
                                 [](const Sample& sample) { return !sample.counters.empty(); });
  if (from == thread.samples.rend()) return values;
  const std::vector<std::uint64_t>& last = from->counters;
  const std::vector<std::string> names = counted(*process.segment);
  for (std::size_t i = 0; i < last.size(); ++i) values[names.at(i)] = static_cast<double>(last[i]);
  return values;
}

// The numbers are what the launcher resolves the name to.
std::vector<std::string> sample_on(const std::string& name, const std::string& event) {
  return {"CLUSTERPROF_SAMPLE_ON=" + name, "CLUSTERPROF_AGENT_SAMPLE_EVENT=" + event};
}

struct Names {
  const char *clock, *faults, *switches;
};
constexpr Names kDefault = {"task-clock", "page-faults", "context-switches"};
constexpr Names kPapi = {"perf::TASK-CLOCK", "perf::PAGE-FAULTS", "perf::CONTEXT-SWITCHES"};

// Each thread prints its own figures as TID.faults and so on. `missed`: the part of them that may lie before
// what is counted.
void expect_own_figures(const Outcome& outcome, const ProcessLog& process, const Names& names,
                        std::size_t threads, double missed = 0) {
  std::size_t seen = 0;
  for (const ThreadLog& thread : process.threads) {
    const std::string tid = std::to_string(thread.tid);
    if (!outcome.numbers.contains(tid + ".faults")) continue;
    SCOPED_TRACE(thread.is_main ? "main thread" : "thread " + tid);
    ++seen;
    auto values = totals(process, thread);
    const double faults = outcome.numbers.at(tid + ".faults");
    const double switches = outcome.numbers.at(tid + ".switches");
    const double cpu_ms = outcome.numbers.at(tid + ".cpu_ms");
    EXPECT_GT(faults, 10'000);
    EXPECT_GT(switches, 300);
    const auto expect_figure = [missed](double value, double own, double later = 0) {
      EXPECT_LE(value, 1.02 * own + later);
      EXPECT_GE(value, (0.98 - missed) * own);
    };
    expect_figure(values[names.faults], faults);
    // A busy machine takes the processor away a few times more before the thread has ended.
    expect_figure(values[names.switches], switches, 10);
    expect_figure(values[names.clock] * 1e-6, cpu_ms);
  }
  EXPECT_EQ(seen, threads);
}

TEST(AgentCounters, PapiSoftwareEventsAgreeWithEachThread) {
  const Outcome outcome = run({kTarget, "threads"},
                              {"COUNTED_EARLY=1",
                               "CLUSTERPROF_EVENT=perf::TASK-CLOCK,perf::PAGE-FAULTS,perf::CONTEXT-SWITCHES,"
                               "perf::CPU-MIGRATIONS"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(process.segment->counter_count, 4u);
  EXPECT_EQ(process.segment->counters_multiplexed, 0u);
  EXPECT_EQ(process.segment->counts_mpi_sites, 1u);
  EXPECT_EQ(process.drops(wire::DropReason::kCounterFailed), 0u);
  // Main, three of its making, and one that was there before the agent.
  expect_own_figures(outcome, process, kPapi, 5);
}

// As on a processor that is newer than PAPI's libpfm.
TEST(AgentCounters, CountsSoftwareEventsWherePapiDoesNotKnowTheProcessor) {
  const Outcome outcome =
      run({kTarget, "threads"},
          {"COUNTED_EARLY=1", kFakePapi, "FAKE_PAPI=no_pmu",
           "CLUSTERPROF_EVENT=perf::TASK-CLOCK,perf::PAGE-FAULTS,perf::CONTEXT-SWITCHES,PAPI_TOT_INS"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(counted(*process.segment),
            (std::vector<std::string>{"perf::TASK-CLOCK", "perf::PAGE-FAULTS", "perf::CONTEXT-SWITCHES"}));
  const auto reasons = missing(*process.segment);
  EXPECT_EQ(reasons.at("PAPI").substr(0, 43), "perf_event does not work: Error initializin");
  if (!has_hardware_counters()) {
    EXPECT_EQ(reasons.at("PAPI_TOT_INS"), "no hardware counters on this machine");
  }
  EXPECT_EQ(process.drops(wire::DropReason::kCounterFailed), 0u);
  expect_own_figures(outcome, process, kPapi, 5);
}

// --- a machine with three hardware counters whose processor PAPI does not know ---

const std::vector<std::string> kWithHardware = {CLUSTERPROF_TEST_PRETEND_HARDWARE, kTarget};

Outcome run_with_hardware(const std::string& what, const std::string& events = "",
                          std::vector<std::string> environment = {}) {
  std::vector<std::string> command = kWithHardware;
  command.push_back(what);
  environment.insert(environment.end(), {kFakePapi, "FAKE_PAPI=no_pmu"});
  if (!events.empty()) environment.push_back("CLUSTERPROF_EVENT=" + events);
  return run(command, environment);
}

// The counts of the simulated machine: cycles, instructions and branch misses.
constexpr Names kPretended = {"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_BR_MSP"};
// A thread's own figures begin before its events are open: the loader's 250 page faults, and two context
// switches for each time that the pretended machine is asked.
constexpr double kMissed = 0.1;

TEST(AgentCounters, CountsTheKernelsHardwareEventsWherePapiDoesNotKnowTheProcessor) {
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  const Outcome outcome = run_with_hardware("threads");
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(counted(*process.segment),
            (std::vector<std::string>{"PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_BR_MSP"}));
  const auto reasons = missing(*process.segment);
  for (const char* name : {"PAPI", "PAPI_L3_TCM", "PAPI_DP_OPS"})
    EXPECT_EQ(reasons.at(name).substr(0, 43), "perf_event does not work: Error initializin") << name;
  EXPECT_EQ(process.drops(wire::DropReason::kCounterFailed), 0u);
  expect_own_figures(outcome, process, kPretended, 4, kMissed);
}

TEST(AgentCounters, CountsAThreadThatExistedBeforeTheAgentFromTheAgentsStart) {
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  const Outcome outcome = run_with_hardware("threads", "", {"COUNTED_EARLY=1"});
  ASSERT_EQ(outcome.wait_status, 0);
  const ProcessLog& process = outcome.processes.at(0);
  // It works while the agent starts: how much of that is missed depends on the machine.
  const ThreadLog* early = nullptr;
  for (const ThreadLog& thread : process.threads)
    if (!thread.is_main && (early == nullptr || thread.tid < early->tid)) early = &thread;
  ASSERT_NE(early, nullptr);
  const double faults = outcome.numbers.at(std::to_string(early->tid) + ".faults");
  const double seen = totals(process, *early)["PAPI_TOT_INS"];
  EXPECT_GT(seen, 0.5 * faults);
  EXPECT_LE(seen, faults);
}

// What read(2) of a group's descriptor gives.
std::vector<long long> read_group(const std::vector<std::uint64_t>& words, int& result) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const std::size_t bytes = words.size() * sizeof(std::uint64_t);
  EXPECT_EQ(write(ends[1], words.data(), bytes), static_cast<ssize_t>(bytes));
  close(ends[1]);
  std::vector<long long> values(wire::kMaxCounters, -1);
  result = agent::read_event_group(ends[0], values.data());
  close(ends[0]);
  return values;
}

TEST(AgentCounters, ScalesEventsThatWereCountedForPartOfTheTime) {
  int result = 1;
  std::vector<long long> values = read_group({2, 900, 300, 1000, 7}, result);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(values[0], 3000);
  EXPECT_EQ(values[1], 21);
  EXPECT_EQ(values[2], -1);
  values = read_group({1, 900, 900, 1'000'000'000'000'000'001}, result);  // not rounded
  EXPECT_EQ(values[0], 1'000'000'000'000'000'001);
  values = read_group({1, 900, 0, 0}, result);  // not yet on a processor
  EXPECT_EQ(result, 0);
  EXPECT_EQ(values[0], 0);
}

TEST(AgentCounters, RefusesGroupsOfAnotherSize) {
  int result = 0;
  for (const std::vector<std::uint64_t>& words :
       {std::vector<std::uint64_t>{1, 900}, {2, 900, 900, 1}, {1, 900, 900, 1, 2}, {17, 900, 900}}) {
    read_group(words, result);
    EXPECT_EQ(result, -1) << words.size();
  }
}

TEST(AgentCounters, NamesHardwareEventsThatDoNotFitOrAreUnknown) {
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  const Outcome outcome = run_with_hardware(
      "spin",
      "PAPI_TOT_INS,perf::CYCLES,PAPI_REF_CYC,perf::BRANCH-MISSES,cache-references,PAPI_L3_TCM,page-faults");
  ASSERT_EQ(outcome.wait_status, 0);
  const wire::SegmentHeader& segment = *outcome.processes.at(0).segment;
  EXPECT_EQ(counted(segment),
            (std::vector<std::string>{"page-faults", "PAPI_TOT_INS", "perf::CYCLES", "perf::BRANCH-MISSES"}));
  auto reasons = missing(segment);
  EXPECT_EQ(reasons["PAPI_REF_CYC"], "not supported by this processor");
  EXPECT_EQ(reasons["cache-references"], "conflicts with the others, which cannot take turns");
  EXPECT_TRUE(reasons["PAPI_L3_TCM"].starts_with("perf_event does not work")) << reasons["PAPI_L3_TCM"];
  const ProcessLog& process = outcome.processes[0];
  const double cpu_ms = outcome.numbers.at("cpu_ms");
  EXPECT_NEAR(totals(process, *process.main_thread())["perf::CYCLES"] * 1e-6, cpu_ms, 0.1 * cpu_ms);
}

TEST(AgentCounters, HardwareEventsCountFromForkAndExecOn) {
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  const std::string events = "PAPI_TOT_CYC,PAPI_TOT_INS,PAPI_BR_MSP";
  const Outcome forked = run_with_hardware("fork", events);
  ASSERT_EQ(forked.wait_status, 0);
  ASSERT_EQ(forked.processes.size(), 2u);
  expect_own_figures(forked, forked.processes[1], kPretended, 1, kMissed);
  const Outcome executed = run_with_hardware("exec", events);
  ASSERT_EQ(executed.wait_status, 0);
  ASSERT_EQ(executed.processes.size(), 2u);
  expect_own_figures(executed, executed.processes[1], kPretended, 4, kMissed);
}

TEST(AgentCounters, DefaultEventsWithoutHardwareAgreeWithEachThread) {
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  const Outcome outcome = run({kTarget, "threads"}, {"COUNTED_EARLY=1"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  const std::vector<std::string> names = counted(*process.segment);
  ASSERT_GE(names.size(), 3u);
  EXPECT_EQ(names[0], "task-clock");
  EXPECT_EQ(process.segment->counts_mpi_sites, 0u);
  EXPECT_EQ(missing(*process.segment).at("PAPI_TOT_INS"), "no hardware counters on this machine");
  if (geteuid() == 0) {
    EXPECT_EQ(names.at(3), "cpu-migrations");
  }
  expect_own_figures(outcome, process, kDefault, 5);
}

// Migrations are read anew only when the thread has been switched. Each of the ten moves must be counted, and
// the samples after it must show it.
TEST(AgentCounters, SamplesShowEachMoveToAnotherProcessor) {
  constexpr std::uint64_t kMoves = 10;
  cpu_set_t may;
  ASSERT_EQ(sched_getaffinity(0, sizeof may, &may), 0);
  if (CPU_COUNT(&may) < 2 || geteuid() != 0) GTEST_SKIP() << "takes two processors, and permission";
  const Outcome outcome = run({kTarget, "moves"}, {"CLUSTERPROF_EVENT=cpu-migrations"});
  ASSERT_EQ(outcome.wait_status, 0);
  const ThreadLog& thread = *outcome.processes.at(0).main_thread();
  std::set<std::uint64_t> seen;
  std::uint64_t last = 0;
  for (const Sample& sample : thread.samples) {
    ASSERT_EQ(sample.counters.size(), 1u);
    EXPECT_GE(sample.counters[0], last);
    last = sample.counters[0];
    seen.insert(last);
  }
  EXPECT_GE(last, kMoves);
  EXPECT_LE(last, kMoves + 1);
  EXPECT_GT(seen.size(), kMoves / 2);
}

// By default the event is opened at the child's first sample.
TEST(AgentCounters, ForkedChildCountsWhatItsParentDoes) {
  cpu_set_t may;
  ASSERT_EQ(sched_getaffinity(0, sizeof may, &may), 0);
  if (CPU_COUNT(&may) < 2 || geteuid() != 0) GTEST_SKIP() << "takes two processors, and permission";
  if (has_hardware_counters()) GTEST_SKIP() << "this machine has hardware counters";
  constexpr double kMoves = 10;
  const Outcome outcome = run({kTarget, "moves_in_child"});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 2u);
  const ProcessLog &parent = outcome.processes[0], &child = outcome.processes[1];
  EXPECT_EQ(counted(*child.segment), counted(*parent.segment));
  EXPECT_EQ(missing(*child.segment), missing(*parent.segment));
  auto values = totals(child, *child.main_thread());
  EXPECT_GE(values["cpu-migrations"], kMoves);
  EXPECT_LE(values["cpu-migrations"], kMoves + 1);
  EXPECT_GE(values["task-clock"], 400e6);
  EXPECT_EQ(child.drops(wire::DropReason::kCounterFailed), 0u);
}

TEST(AgentCounters, ForkAndExecCountFromTheirOwnBeginning) {
  const Outcome forked =
      run({kTarget, "fork"}, {"CLUSTERPROF_EVENT=task-clock,page-faults,context-switches"});
  ASSERT_EQ(forked.wait_status, 0);
  ASSERT_EQ(forked.processes.size(), 2u);
  expect_own_figures(forked, forked.processes[1], kDefault, 1);

  const Outcome executed =
      run({kTarget, "exec"}, {"CLUSTERPROF_EVENT=task-clock,page-faults,context-switches"});
  ASSERT_EQ(executed.wait_status, 0);
  ASSERT_EQ(executed.processes.size(), 2u);
  expect_own_figures(executed, executed.processes[1], kDefault, 4);
}

// Page faults are the kernel's own figure in the one case, and PAPI's in the other.
TEST(AgentCounters, EventsInsideMpiBelongToTheCallAndToNoSample) {
  for (const char* event : {"page-faults", "perf::PAGE-FAULTS"}) {
    const Outcome outcome = run({kTarget, "mpi"}, {std::string("CLUSTERPROF_EVENT=") + event});
    ASSERT_EQ(outcome.wait_status, 0) << event;
    const ProcessLog& process = outcome.processes.at(0);
    EXPECT_EQ(process.segment->counts_mpi_sites, 1u);
    EXPECT_EQ(outcome.numbers.at("counters"), 1);
    const double inside = outcome.numbers.at("inside"), outside = outcome.numbers.at("outside");
    EXPECT_NEAR(outcome.numbers.at("told"), inside, 0.01 * inside) << event;
    const ThreadLog& thread = *process.main_thread();
    EXPECT_NEAR(totals(process, thread)[event], outside, 0.01 * outside) << event;
    // Counts from before the call do not belong to the call, so a sample inside does not carry them. Nor does
    // a sample that comes while the counters are read around the call.
    std::uint64_t last = 0, in_mpi = 0, between = 0;
    for (const Sample& sample : thread.samples) {
      if (sample.record.mpi_op != 0) {
        EXPECT_TRUE(sample.counters.empty());
        ++in_mpi;
        continue;
      }
      if (sample.counters.empty()) {
        ++between;
        continue;
      }
      ASSERT_EQ(sample.counters.size(), 1u);
      EXPECT_GE(sample.counters[0], last);
      last = sample.counters[0];
    }
    EXPECT_GT(in_mpi, 5u);
    EXPECT_LT(between, 5u);
  }
  const Outcome by_default = run({kTarget, "mpi"});
  EXPECT_EQ(by_default.processes.at(0).segment->counts_mpi_sites, 0u);
  EXPECT_EQ(by_default.numbers.at("counters"), 0);
}

TEST(AgentCounters, NamesEventsThatCannotBeCounted) {
  std::string list = "no-such-event,PAPI_NONSENSE,PAPI_TOT_CYC";
  for (int i = 0; i < 20; ++i) list += ",perf::PAGE-FAULTS:u=" + std::to_string(i);
  const Outcome outcome = run({kTarget, "spin"}, {"CLUSTERPROF_EVENT=" + list + ",page-faults"});
  ASSERT_EQ(outcome.wait_status, 0);
  const wire::SegmentHeader& segment = *outcome.processes.at(0).segment;
  auto reasons = missing(segment);
  const std::string no_papi = papi_missing(segment);
  const std::string no_hardware = "no hardware counters on this machine";
  EXPECT_TRUE(reasons["no-such-event"].starts_with(no_papi.empty() ? "unknown event" : no_papi))
      << reasons["no-such-event"];
  // Without PAPI nobody knows whether there is such a preset.
  EXPECT_TRUE(reasons["PAPI_NONSENSE"].starts_with(no_papi.empty()           ? "unknown event"
                                                   : has_hardware_counters() ? no_papi
                                                                             : no_hardware))
      << reasons["PAPI_NONSENSE"];
  if (!has_hardware_counters()) {
    EXPECT_EQ(reasons["PAPI_TOT_CYC"], no_hardware);
  }
  EXPECT_EQ(reasons["page-faults"], "too many: 16 are counted at most");
  for (const ThreadLog& thread : outcome.processes[0].threads)
    for (const Sample& sample : thread.samples) EXPECT_EQ(sample.counters.size(), segment.counter_count);
}

// Runs the function as a user who is root only in a user namespace; false if there are no namespaces.
template <typename Function>
bool without_privileges(const Function& function) {
  constexpr int kNoNameSpaces = 77;
  const std::string map = "0 " + std::to_string(geteuid()) + " 1";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0 || !(std::ofstream("/proc/self/uid_map") << map).flush())
      _exit(kNoNameSpaces);
    function();
    std::fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoNameSpaces) return false;
  EXPECT_EQ(status, 0);
  return true;
}

TEST(AgentCounters, NamesEventsThatAreNotPermitted) {
  int level = 0;
  std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> level;
  if (level < 2) GTEST_SKIP() << "this kernel permits it to everybody";
  const std::string refused = "not permitted (perf_event_paranoid=" + std::to_string(level) + ")";
  const bool tried = without_privileges([&refused] {
    const Outcome plain = run({kTarget, "spin"});
    ASSERT_EQ(plain.processes.size(), 1u);
    const wire::SegmentHeader& segment = *plain.processes[0].segment;
    EXPECT_EQ(missing(segment)["cpu-migrations"], refused);
    if (!has_hardware_counters()) {
      EXPECT_EQ(counted(segment),
                (std::vector<std::string>{"task-clock", "page-faults", "context-switches"}));
    }
    std::vector<std::string> environment = sample_on("cs:1", "1,3,0,0,1,2");
    environment.push_back("CLUSTERPROF_EVENT=perf::CONTEXT-SWITCHES,perf::PAGE-FAULTS");
    const Outcome asked = run({kTarget, "spin"}, environment);
    ASSERT_EQ(asked.processes.size(), 1u);
    auto reasons = missing(*asked.processes[0].segment);
    EXPECT_EQ(reasons["--sample-on cs"], refused);
    if (papi_missing(*asked.processes[0].segment).empty()) {
      EXPECT_EQ(reasons["perf::CONTEXT-SWITCHES"], refused);
      EXPECT_EQ(counted(*asked.processes[0].segment), std::vector<std::string>{"perf::PAGE-FAULTS"});
    } else {  // the kernel's figures of a thread, which everybody may read
      EXPECT_EQ(counted(*asked.processes[0].segment),
                (std::vector<std::string>{"perf::CONTEXT-SWITCHES", "perf::PAGE-FAULTS"}));
    }
    EXPECT_GT(asked.processes[0].main_thread()->count(wire::Trigger::kCpuTimer), 20u);
    // In user mode it may be had.
    const Outcome faults = run({kTarget, "faults"}, sample_on("page-faults:100", "1,2,0,0,64,2"));
    ASSERT_EQ(faults.processes.size(), 1u);
    EXPECT_NEAR(static_cast<double>(faults.processes[0].main_thread()->count(wire::Trigger::kEvent)),
                faults.numbers.at("faults") / 100, 0.05 * faults.numbers.at("faults") / 100);
  });
  if (!tried) GTEST_SKIP() << "no user name spaces";
}

TEST(AgentCounters, SaysWhyPapiIsNotUsed) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("no-papi-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"libpapi.so.7", "libpapi.so.7.0", "libpapi.so"})
    std::ofstream(folder / name) << "";
  const Outcome outcome = run({kTarget, "spin"}, {"LD_LIBRARY_PATH=" + folder.string(),
                                                  "CLUSTERPROF_EVENT=perf::TASK-CLOCK,page-faults"});
  std::filesystem::remove_all(folder);
  ASSERT_EQ(outcome.wait_status, 0);
  const wire::SegmentHeader& segment = *outcome.processes.at(0).segment;
  EXPECT_EQ(missing(segment)["PAPI"], "no libpapi.so.7 found: install PAPI 7");
  EXPECT_EQ(counted(segment), (std::vector<std::string>{"page-faults", "perf::TASK-CLOCK"}));
}

// --- a machine with two counters ---

struct FakeRun {
  Outcome outcome;
  std::string calls;
  const wire::SegmentHeader& segment() const { return *outcome.processes.at(0).segment; }
};

FakeRun run_on_two_counters(const std::string& events, const std::string& mode,
                            const std::vector<std::string>& command = {kTarget, "spin"},
                            const std::string& more = "UNUSED=") {
  const std::string log = testing::TempDir() + "fake_papi." + std::to_string(getpid());
  std::remove(log.c_str());
  FakeRun made;
  made.outcome = run(
      command, {kFakePapi, "FAKE_PAPI=" + mode, "FAKE_PAPI_LOG=" + log, "CLUSTERPROF_EVENT=" + events, more});
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  made.calls = text.str();
  std::remove(log.c_str());
  return made;
}

TEST(AgentCounters, EventsThatFitTogetherDoNotTakeTurns) {
  const FakeRun run = run_on_two_counters("PAPI_TOT_CYC,PAPI_TOT_INS", "");
  EXPECT_EQ(counted(run.segment()), (std::vector<std::string>{"PAPI_TOT_CYC", "PAPI_TOT_INS"}));
  EXPECT_EQ(run.segment().counters_multiplexed, 0u);
  EXPECT_EQ(run.calls.find("turns"), std::string::npos);
  EXPECT_EQ(run.segment().unavailable_count, 0u);
  auto values = totals(run.outcome.processes[0], run.outcome.processes[0].threads.at(0));
  EXPECT_EQ(values["PAPI_TOT_CYC"], 1000);
  EXPECT_EQ(values["PAPI_TOT_INS"], 2000);
}

// The handler does not run during the 2 ms that each reading takes: another thread that has the processor is
// no cost of the handler.
TEST(AgentCounters, TimeInWhichAHandlerDoesNotRunIsNoCost) {
  constexpr std::uint64_t kSleepNs = 2'000'000;
  const FakeRun run = run_on_two_counters("PAPI_TOT_CYC", "slow_read");
  ASSERT_EQ(run.outcome.wait_status, 0);
  const std::uint64_t samples = run.segment().samples_taken.load();
  EXPECT_GT(samples, 10u);
  EXPECT_LT(run.segment().handler_ns.load(), samples * kSleepNs / 4);
  std::uint64_t told_ns = 0;
  for (const Sample& sample : run.outcome.processes[0].threads.at(0).samples)
    told_ns += sample.record.handler_ns;
  EXPECT_GT(told_ns, 0u);
  EXPECT_LT(told_ns, samples * kSleepNs / 4);
}

// Nor is a time that is shorter than a slice of the scheduler.
TEST(AgentCounters, AShortTimeInWhichAHandlerDoesNotRunIsNoCost) {
  constexpr std::uint64_t kSleepNs = 150'000;  // at least
  const FakeRun run = run_on_two_counters("PAPI_TOT_CYC", "nap_read");
  ASSERT_EQ(run.outcome.wait_status, 0);
  const std::uint64_t samples = run.segment().samples_taken.load();
  EXPECT_GT(samples, 10u);
  EXPECT_LT(run.segment().handler_ns.load(), samples * kSleepNs);
}

TEST(AgentCounters, EventsThatDoNotFitTakeTurns) {
  const FakeRun run = run_on_two_counters(
      "PAPI_TOT_CYC,page-faults,PAPI_TOT_INS,PAPI_L3_TCM,core::CLUMSY,PAPI_ABSENT,box:::POWER", "",
      {kTarget, "threads"}, "COUNTED_EARLY=1");
  ASSERT_EQ(run.outcome.wait_status, 0);
  EXPECT_EQ(counted(run.segment()),
            (std::vector<std::string>{"page-faults", "PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_L3_TCM"}));
  EXPECT_EQ(run.segment().counters_multiplexed, 1u);
  auto reasons = missing(run.segment());
  EXPECT_EQ(reasons.size(), 3u);
  EXPECT_EQ(reasons["core::CLUMSY"], "conflicts with the others, even when they take turns");
  EXPECT_EQ(reasons["PAPI_ABSENT"], has_hardware_counters() ? "not supported by this processor"
                                                            : "no hardware counters on this machine");
  EXPECT_EQ(reasons["box:::POWER"], "not counted per thread: PAPI component box");
  // All five threads: one of them was there before, and PAPI has been attached to it.
  const ProcessLog& process = run.outcome.processes[0];
  std::size_t counting = 0;
  for (const ThreadLog& thread : process.threads) {
    auto values = totals(process, thread);
    EXPECT_EQ(values["PAPI_TOT_CYC"], 1000);
    EXPECT_EQ(values["PAPI_L3_TCM"], 3000);
    if (run.outcome.numbers.contains(std::to_string(thread.tid) + ".faults")) ++counting;
    if (run.calls.find("attach " + std::to_string(thread.tid) + "\n") != std::string::npos) {
      EXPECT_FALSE(thread.is_main);
    }
  }
  EXPECT_EQ(counting, 5u);
  std::size_t attached = 0, started = 0;
  for (std::size_t at = 0; (at = run.calls.find("attach ", at)) != std::string::npos; ++at) ++attached;
  for (std::size_t at = 0; (at = run.calls.find("start 3\n", at)) != std::string::npos; ++at) ++started;
  EXPECT_EQ(attached, 1u);
  EXPECT_EQ(started, 5u);
}

TEST(AgentCounters, EventsThatNeitherFitNorTakeTurnsAreRefused) {
  const FakeRun run = run_on_two_counters("PAPI_TOT_CYC,PAPI_TOT_INS,PAPI_L3_TCM", "no_turns");
  EXPECT_EQ(counted(run.segment()), (std::vector<std::string>{"PAPI_TOT_CYC", "PAPI_TOT_INS"}));
  EXPECT_EQ(run.segment().counters_multiplexed, 0u);
  EXPECT_EQ(missing(run.segment())["PAPI_L3_TCM"], "conflicts with the others, which cannot take turns");
  EXPECT_NE(run.calls.find("start 2\n"), std::string::npos);
}

TEST(AgentCounters, EventSetThatDoesNotStartIsUnavailableNotZero) {
  const FakeRun run = run_on_two_counters("PAPI_TOT_CYC,PAPI_TOT_INS", "no_start");
  EXPECT_EQ(run.segment().counter_count, 0u);
  EXPECT_EQ(missing(run.segment()).size(), 2u);
  EXPECT_TRUE(missing(run.segment())["PAPI_TOT_CYC"].starts_with("not permitted"));
  for (const ThreadLog& thread : run.outcome.processes[0].threads)
    for (const Sample& sample : thread.samples) EXPECT_TRUE(sample.counters.empty());
}

// --- sampling on events ---

TEST(AgentSampleOn, SamplesPageFaultsWhereTheyOccur) {
  // Each hundredth; besides, by the clock.
  const Outcome outcome = run({kTarget, "faults"}, sample_on("page-faults:100", "1,2,0,0,64,2"));
  ASSERT_EQ(outcome.wait_status, 0);
  const ProcessLog& process = outcome.processes.at(0);
  const ThreadLog& thread = *process.main_thread();
  const auto begin = static_cast<std::uint64_t>(outcome.numbers.at("touch_begin"));
  const auto end = static_cast<std::uint64_t>(outcome.numbers.at("touch_end"));
  std::size_t events = 0, inside = 0;
  const std::vector<std::string> names = counted(*process.segment);
  const auto counter = std::find(names.begin(), names.end(), "page-faults") - names.begin();
  ASSERT_LT(static_cast<std::size_t>(counter), names.size());
  std::uint64_t last = 0, there = 0;  // page faults, and those since the sample before one that is there
  for (const Sample& sample : thread.samples) {
    const std::uint64_t now = sample.counters.at(static_cast<std::size_t>(counter));
    if (!sample.words.empty() && sample.words[0] >= begin && sample.words[0] < end) there += now - last;
    last = now;
    if (sample.record.trigger != wire::Trigger::kEvent) continue;
    ++events;
    if (!sample.words.empty() && sample.words[0] >= begin && sample.words[0] < end) ++inside;
  }
  const double faults = outcome.numbers.at("faults");
  EXPECT_GT(faults, 40'000);
  EXPECT_NEAR(static_cast<double>(events), faults / 100, 0.05 * faults / 100);
  EXPECT_GT(inside, events * 95 / 100);
  EXPECT_GT(static_cast<double>(there), 0.95 * faults);
  // The clock goes on: its samples make up the time.
  EXPECT_NEAR(static_cast<double>(thread.ticks()), outcome.numbers.at("cpu_ms") / 10,
              0.25 * outcome.numbers.at("cpu_ms") / 10 + 3);
  EXPECT_EQ(process.segment->unavailable_count, has_hardware_counters() ? 0u : 4u);
}

TEST(AgentSampleOn, WithoutAPeriodSamplesAsOftenAsTheRateSays) {
  auto environment = sample_on("page-faults", "1,2,0,0,0,2");
  environment.push_back("CLUSTERPROF_RATE=200");
  const Outcome outcome = run({kTarget, "faults"}, environment);
  const ThreadLog& thread = *outcome.processes.at(0).main_thread();
  EXPECT_GT(thread.count(wire::Trigger::kEvent), 20u);
  EXPECT_LT(thread.count(wire::Trigger::kEvent), outcome.numbers.at("faults") / 20);
}

TEST(AgentSampleOn, ClockEventReplacesTheDefaultClock) {
  const Outcome outcome = run({kTarget, "spin"}, sample_on("task-clock:1000000", "1,1,0,0,f4240,0"));
  ASSERT_EQ(outcome.wait_status, 0);
  const ThreadLog& thread = *outcome.processes.at(0).main_thread();
  const double expected = outcome.numbers.at("cpu_ms");  // one each millisecond
  EXPECT_EQ(thread.count(wire::Trigger::kEvent), 0u);
  EXPECT_NEAR(static_cast<double>(thread.count(wire::Trigger::kCpuTimer)), expected, 0.05 * expected);
}

TEST(AgentSampleOn, NamesTheEventThatTheLauncherCouldNotFind) {
  const Outcome outcome = run({kTarget, "spin"}, sample_on("nonsense", "!unknown event"));
  const ProcessLog& process = outcome.processes.at(0);
  EXPECT_EQ(missing(*process.segment)["--sample-on nonsense"], "unknown event");
  EXPECT_GT(process.main_thread()->count(wire::Trigger::kCpuTimer), 20u);
}

}  // namespace
}  // namespace clusterprof::agent_test
