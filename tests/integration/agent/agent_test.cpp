// SPDX-License-Identifier: BSD-3-Clause
// The agent in real processes, seen from the collector's side.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "formats/wire/hello.h"
#include "tests/integration/agent/fake_collector.hpp"
#include "tests/support/measured.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kTarget = CLUSTERPROF_TEST_TARGET;

// Events that every kernel offers, so that PAPI is in the process.
const std::string kWithPapi =
    "CLUSTERPROF_EVENT=perf::TASK-CLOCK,perf::PAGE-FAULTS,perf::CONTEXT-SWITCHES,perf::CPU-MIGRATIONS";

const ThreadLog& main_of(const Outcome& outcome, std::size_t process = 0) {
  static const ThreadLog kNone;
  if (process >= outcome.processes.size()) {
    ADD_FAILURE() << "no process " << process << " was recorded";
    return kNone;
  }
  const ThreadLog* thread = outcome.processes[process].main_thread();
  if (thread == nullptr) {
    ADD_FAILURE() << "the main thread was not recorded";
    return kNone;
  }
  return *thread;
}

void expect_sane(const Outcome& outcome) {
  for (const ProcessLog& process : outcome.processes) {
    EXPECT_FALSE(process.ring_damaged);
    EXPECT_EQ(process.segment->magic, wire::kSegmentMagic);
    EXPECT_EQ(process.segment->rank, 3);
    EXPECT_EQ(process.segment->world_size, 8);
    EXPECT_EQ(process.drops(wire::DropReason::kFaultInWalk), 0u);
    EXPECT_EQ(process.drops(wire::DropReason::kTimerFailed), 0u);
    if (outcome.longest_unread_s < 0.1) {  // the program fills a ring in several times that
      EXPECT_EQ(process.drops(wire::DropReason::kRingFull), 0u);
    }
    for (const ThreadLog& thread : process.threads) {
      std::uint64_t before_ns = thread.start_time_ns, before_cpu_ns = thread.start_cpu_ns;
      for (const Sample& sample : thread.samples) {
        EXPECT_GE(sample.record.time_ns, before_ns);
        EXPECT_GE(sample.record.cpu_ns, before_cpu_ns);
        before_ns = sample.record.time_ns;
        before_cpu_ns = sample.record.cpu_ns;
        if (sample.record.trigger != wire::Trigger::kThreadEnd) {
          EXPECT_GT(sample.record.frame_words, 0);
        }
      }
    }
  }
}

bool exited(const Outcome& outcome, int status) {
  return WIFEXITED(outcome.wait_status) && WEXITSTATUS(outcome.wait_status) == status;
}

std::string rate(int hz) { return "CLUSTERPROF_RATE=" + std::to_string(hz); }

// The CPU time of a thread at its last record.
double cpu_ms_of(const ThreadLog& thread) {
  return thread.samples.empty() ? 0 : static_cast<double>(thread.samples.back().record.cpu_ns) * 1e-6;
}

// Every period of CPU time that a thread has run has to be in a sample's ticks, whatever else the machine
// does. The kernel looks at the timer when a tick of its own, every 4 to 10 ms, meets the thread running:
// that it misses the last 100 ms of CPU time is improbable (e^-10 if ticks come at random).
void expect_a_tick_per_period_of_cpu_time(const ThreadLog& thread, int hz) {
  constexpr double kMissedAtEndS = 0.1;
  const auto last = std::find_if(thread.samples.rbegin(), thread.samples.rend(),
                                 [](const Sample& sample) { return sample.record.header.detail != 0; });
  ASSERT_NE(last, thread.samples.rend());
  const double period_s =
      static_cast<double>(wire::sampling_period_ns(static_cast<std::uint32_t>(hz))) * 1e-9;
  const double at_last_tick_s = static_cast<double>(last->record.cpu_ns - thread.start_cpu_ns) * 1e-9;
  // The first period is another one, and the timer starts a moment after the thread.
  EXPECT_NEAR(static_cast<double>(thread.ticks()), at_last_tick_s / period_s, 2);
  const std::uint64_t after_ns = thread.samples.back().record.cpu_ns - last->record.cpu_ns;
  EXPECT_LT(static_cast<double>(after_ns) * 1e-9, kMissedAtEndS);
}

class AtRate : public testing::TestWithParam<int> {
 protected:
  std::string variable() const { return rate(GetParam()); }
  bool by_wall_clock() const { return GetParam() >= 500; }
};

INSTANTIATE_TEST_SUITE_P(Rates, AtRate, testing::Values(100, 1000, 5000),
                         [](const auto& test) { return "Hz" + std::to_string(test.param); });

TEST_P(AtRate, SamplesARunningThread) {
  const Outcome outcome = run({kTarget, "spin", "1000"}, {variable()});
  ASSERT_TRUE(exited(outcome, 0));
  expect_sane(outcome);
  const ThreadLog& thread = main_of(outcome);
  ASSERT_FALSE(thread.samples.empty());
  if (by_wall_clock()) {
    // It stands still only while the thread is blocked, which happens at the start.
    const double cpu_s =
        static_cast<double>(thread.samples.back().record.cpu_ns - thread.start_cpu_ns) * 1e-9;
    const auto ticks =
        static_cast<double>(thread.ticks() + outcome.processes[0].drops(wire::DropReason::kThrottled) +
                            outcome.processes[0].drops(wire::DropReason::kRingFull));
    EXPECT_GT(ticks, 0.9 * cpu_s * GetParam());
    EXPECT_LT(ticks, thread.seconds() * GetParam() + 3);
    EXPECT_EQ(thread.count(wire::Trigger::kCpuTimer), 0u);
  } else {
    expect_a_tick_per_period_of_cpu_time(thread, GetParam());
    EXPECT_EQ(thread.count(wire::Trigger::kWallTimer), 0u);
  }
  EXPECT_EQ(thread.count(wire::Trigger::kThreadEnd), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  EXPECT_EQ(segment.exit_flags.load(), wire::kExitStatusKnown);
  EXPECT_EQ(segment.samples_taken.load() + 1, thread.samples.size());
  std::vector<std::uint32_t> costs;
  for (const Sample& sample : thread.samples) costs.push_back(sample.record.handler_ns);
  std::nth_element(costs.begin(), costs.begin() + costs.size() / 2, costs.end());
  std::printf("handler: median %u ns, %zu samples\n", costs[costs.size() / 2], costs.size());
}

TEST_P(AtRate, NoCallFailsWithEintrAndWaitsLastAsLongAsTheyShould) {
  const bool is_inside = test::measured([this](test::Measurements& measurements) {
    const Outcome outcome = run({kTarget, "waits"}, {variable()});
    ASSERT_TRUE(exited(outcome, 0)) << outcome.output;
    expect_sane(outcome);
    std::size_t ways = 0;
    for (const auto& [name, number] : outcome.numbers) {
      if (name.ends_with(".error")) {
        EXPECT_EQ(number, 0) << name;
      }
      if (!name.ends_with(".ms")) continue;
      ++ways;
      EXPECT_GE(number, 149.9) << name;
      const std::string way = name.substr(0, name.size() - 3);
      const bool starts_anew = way == "futex" || way == "syscall" || way == "sigtimedwait" ||
                               way == "poll_after_jump" || way == "recv_timeout";
      const double lacked_ms = outcome.numbers.at(way + ".lacked_ms");
      measurements.at_most(number - lacked_ms, 150 + (starts_anew ? 60 : 0) + 90,
                           name + " but for waiting for a processor");
    }
    EXPECT_EQ(ways, 20u);
  });
  EXPECT_TRUE(is_inside);
}

// Sleeps and polls that start anew are 1 to 3 ms longer here.
TEST_P(AtRate, ShortWaitsAreNoLonger) {
  const bool is_inside = test::measured([this](test::Measurements& measurements) {
    const Outcome outcome = run({kTarget, "short_waits"}, {variable()});
    ASSERT_TRUE(exited(outcome, 0)) << outcome.output;
    expect_sane(outcome);
    std::size_t ways = 0;
    for (const auto& [name, us] : outcome.numbers) {
      if (name.ends_with(".earliest_us")) {
        EXPECT_GE(us, 0) << name;
      }
      if (!name.ends_with(".longer_us")) continue;
      ++ways;
      // Timeouts of polls are whole milliseconds, and by the wall clock each is interrupted.
      const bool is_poll = name.find("poll") != std::string::npos;
      measurements.at_most(us, is_poll ? (by_wall_clock() ? 1200 : 300) : 200, name);
    }
    EXPECT_EQ(ways, 7u);
    EXPECT_GT(main_of(outcome).samples.size(), 10u);
  });
  EXPECT_TRUE(is_inside);
}

TEST_P(AtRate, OneSamplePerBlock) {
  // The monotonic timer comes twice.
  const std::size_t most = GetParam() < 500 ? 1 : 2;
  const Outcome outcome = run({kTarget, "sleep", "2500"}, {variable()});
  ASSERT_TRUE(exited(outcome, 0));
  expect_sane(outcome);
  const std::vector<Sample>& samples = main_of(outcome).samples;
  std::size_t blocked = 0, moved = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const wire::SampleRecord& record = samples[i].record;
    if (record.trigger != wire::Trigger::kBlocked) continue;
    EXPECT_TRUE((record.flags & wire::kInSyscall) != 0);
    EXPECT_EQ(record.syscall_nr, 230);  // clock_nanosleep
    // On a busy machine, going back to sleep may take so long that the thread seems to have left the call.
    constexpr std::uint64_t kMovedNs = 30'000;  // agent/sigsafe/process_state.h
    const bool is_again = i > 0 && samples[i - 1].record.trigger == wire::Trigger::kBlocked;
    const bool has_moved =
        is_again && record.cpu_ns - samples[i - 1].record.cpu_ns > record.handler_ns + kMovedNs;
    ++(has_moved ? moved : blocked);
  }
  EXPECT_GE(blocked, 1u);
  EXPECT_LE(blocked, most);
  // By the wall clock there are also samples while the thread is ready without a processor.
  const std::uint64_t outside_ns = by_wall_clock() && !samples.empty()
                                       ? samples.back().record.time_ns - samples.front().record.time_ns
                                       : 0;
  constexpr std::uint64_t kSleepNs = 2'500'000'000;
  const std::uint64_t ready =
      (outside_ns - std::min(outside_ns, kSleepNs)) * static_cast<std::uint64_t>(GetParam()) / 1'000'000'000;
  EXPECT_LE(samples.size() - moved, 6u + ready);
}

// The watcher leaves a thread alone for 40 ms after a sample. By then it is in the next wait, and has hardly
// run.
TEST_P(AtRate, AWaitThatFollowsAnotherIsSampled) {
  EXPECT_TRUE(test::measured([this](test::Measurements& measurements) {
    const Outcome outcome = run({kTarget, "waits_in_turn", "10"}, {variable()});
    ASSERT_TRUE(exited(outcome, 0));
    expect_sane(outcome);
    constexpr std::int16_t kSleep = 230;  // clock_nanosleep; the short wait is in poll
    std::size_t waits = 0;
    bool slept = false;
    for (const Sample& sample : main_of(outcome).samples) {
      const bool sleeps =
          sample.record.trigger == wire::Trigger::kBlocked && sample.record.syscall_nr == kSleep;
      waits += sleeps && !slept ? 1 : 0;
      slept = sleeps;
    }
    // On a busy machine the watcher may be too late for one.
    measurements.at_least(static_cast<double>(waits), 9, "waits of 10");
  }));
}

// The stack pointer and the pc are the same in both, and only the caller tells one from the other. With the
// wall clock, the first one ends before the watcher looks.
TEST_P(AtRate, AWaitThatFollowsAnotherAtTheSamePlaceIsSampled) {
  EXPECT_TRUE(test::measured([this](test::Measurements& measurements) {
    const Outcome outcome = run({kTarget, "waits_at_one_place", by_wall_clock() ? "5" : "25"}, {variable()});
    ASSERT_TRUE(exited(outcome, 0));
    expect_sane(outcome);
    constexpr std::int16_t kSleep = 230;                      // clock_nanosleep
    std::map<std::vector<std::uint64_t>, std::size_t> waits;  // by stack
    std::vector<std::uint64_t> last;
    for (const Sample& sample : main_of(outcome).samples) {
      const bool sleeps =
          sample.record.trigger == wire::Trigger::kBlocked && sample.record.syscall_nr == kSleep;
      const std::vector<std::uint64_t> stack = sleeps ? sample.words : std::vector<std::uint64_t>();
      if (sleeps && stack != last) ++waits[stack];
      last = stack;
    }
    std::vector<std::size_t> counts;
    for (const auto& [stack, count] : waits) counts.push_back(count);
    std::sort(counts.rbegin(), counts.rend());
    ASSERT_GE(counts.size(), 2u);
    // Of 10; on a busy machine the watcher may be too late for some, and the first one may be over before it
    // begins.
    measurements.at_least(static_cast<double>(counts[0]), 8, "second waits");
    measurements.at_least(static_cast<double>(counts[1]), outcome.numbers.at("firsts") - 2, "first waits");
  }));
}

TEST_P(AtRate, RecordsThreadsThatComeAndGo) {
  const Outcome outcome = run({kTarget, "threads", "1000"}, {variable(), "CLUSTERPROF_EVENT=none"});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(process.segment->threads_seen.load(), 1003u);
  const auto ended = static_cast<std::uint64_t>(std::count_if(process.threads.begin(), process.threads.end(),
                                                              [](const ThreadLog& t) { return t.ended; }));
  EXPECT_EQ(ended + process.drops(wire::DropReason::kNoThreadSlot), 1002u);
  for (const ThreadLog& thread : process.threads) EXPECT_EQ(thread.count(wire::Trigger::kThreadEnd), 1u);
}

TEST_P(AtRate, SamplesThreadsWithTinyStacksAndMuchThreadLocalData) {
  const Outcome outcome = run({kTarget, "tiny"}, {variable(), kWithPapi});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
  ASSERT_EQ(outcome.processes.size(), 1u);
  std::size_t sampled = 0;
  for (const ThreadLog& thread : outcome.processes[0].threads)
    if (!thread.is_main && thread.samples.size() > 3) ++sampled;
  EXPECT_EQ(sampled, 3u);
}

TEST_P(AtRate, ChildOfForkIsAProcessOfTheSameRank) {
  const Outcome outcome = run({kTarget, "fork"}, {variable(), kWithPapi});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.output;
  expect_sane(outcome);
  EXPECT_EQ(outcome.numbers.at("child_status"), 7);
  ASSERT_EQ(outcome.processes.size(), 2u);
  const ProcessLog& child = outcome.processes[1];
  EXPECT_EQ(child.pid, static_cast<int>(outcome.numbers.at("child_pid")));
  EXPECT_EQ(child.segment->parent_pid, outcome.processes[0].pid);
  EXPECT_EQ(child.segment->exit_flags.load(), wire::kExitStatusKnown);
  EXPECT_EQ(child.segment->exit_status.load(), 7);
  EXPECT_EQ(child.threads.size(), 2u);
  // The watcher has looked at it many times by then.
  EXPECT_EQ(outcome.processes[0].segment->usage.usage_has_io, wire::kIoTold);
  const std::uint64_t lived_ns = child.segment->end_mono_ns.load() - child.segment->start_mono_ns;
  if (lived_ns < 1'000'000'000) {
    EXPECT_EQ(child.segment->usage.usage_has_io, wire::kIoNotTold) << "left to its parent's account";
  }
  const double child_cpu_ms = cpu_ms_of(main_of(outcome, 1)), parent_cpu_ms = cpu_ms_of(main_of(outcome, 0));
  EXPECT_GE(child_cpu_ms, 300);
  EXPECT_GE(parent_cpu_ms, 200);
  if (by_wall_clock()) {
    EXPECT_GT(static_cast<double>(main_of(outcome, 1).ticks()), 0.9 * 0.3 * GetParam());
    EXPECT_GT(static_cast<double>(main_of(outcome, 0).ticks()), 0.9 * 0.2 * GetParam());
  } else {
    expect_a_tick_per_period_of_cpu_time(main_of(outcome, 1), GetParam());
    expect_a_tick_per_period_of_cpu_time(main_of(outcome, 0), GetParam());
  }
  EXPECT_EQ(child.segment->counter_count, outcome.processes[0].segment->counter_count);
}

TEST_P(AtRate, RecordsForksFromThreads) {
  const Outcome outcome = run({kTarget, "fork_threads"}, {variable(), "CLUSTERPROF_EVENT=none"});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
  EXPECT_EQ(outcome.processes.size(), 41u);
}

TEST_P(AtRate, ProgramKeepsItsFaultHandlers) {
  const Outcome outcome = run({kTarget, "own_segv"}, {variable()});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
}

TEST_P(AtRate, ProgramMayUseTheSampleSignal) {
  const Outcome outcome = run({kTarget, "sample_signal"}, {variable(), kWithPapi});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
  EXPECT_GT(main_of(outcome).samples.size(), 10u);
}

TEST_P(AtRate, KeepsTheProgramsOwnEintr) {
  const Outcome outcome = run({kTarget, "own_eintr"}, {variable()});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  expect_sane(outcome);
}

TEST_P(AtRate, WaitForAllSignalsReturnsOnlyTheProgramsOwn) {
  const Outcome outcome = run({kTarget, "sigwait"}, {variable()});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
}

struct Ending {
  const char* how;
  const char* argument;
  int status;  // exit status, or minus the signal
  bool recorded;
};

class Ends : public testing::TestWithParam<Ending> {};

INSTANTIATE_TEST_SUITE_P(
    All, Ends,
    testing::Values(Ending{"exit", "3", 3, true}, Ending{"_exit", "4", 4, true},
                    Ending{"return", "5", 5, true}, Ending{"quick_exit", "6", 6, true},
                    Ending{"segv", "0", -SIGSEGV, true}, Ending{"raise", "11", -SIGSEGV, true},
                    Ending{"raise", "7", -SIGBUS, true}, Ending{"raise", "15", -SIGTERM, false},
                    Ending{"raise", "61", -61, true}, Ending{"abort", "0", -SIGABRT, true},
                    Ending{"raise", "4", -SIGILL, true}, Ending{"raise", "6", -SIGABRT, true},
                    Ending{"raise", "8", -SIGFPE, true}),
    [](const auto& test) { return std::string(test.param.how) + "_" + test.param.argument; });

TEST_P(Ends, ProcessEndsAsWithoutTheAgentAndItsEndIsRecorded) {
  const Ending& ending = GetParam();
  const Outcome bare = run_bare({kTarget, ending.how, ending.argument});
  const Outcome outcome = run({kTarget, ending.how, ending.argument});
  EXPECT_EQ(outcome.wait_status, bare.wait_status);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  if (ending.status >= 0) {
    EXPECT_TRUE(exited(outcome, ending.status));
    EXPECT_EQ(segment.exit_flags.load(), wire::kExitStatusKnown);
    EXPECT_EQ(segment.exit_status.load(), ending.status);
  } else {
    EXPECT_TRUE(WIFSIGNALED(outcome.wait_status) && WTERMSIG(outcome.wait_status) == -ending.status);
    EXPECT_EQ(segment.exit_flags.load(), ending.recorded ? wire::kFatalSignalKnown : 0u);
    if (ending.recorded) {
      EXPECT_EQ(segment.fatal_signal.load(), static_cast<std::uint32_t>(-ending.status));
    }
  }
  EXPECT_EQ(segment.end_mono_ns.load() != 0, ending.recorded);
}

TEST(Agent, ACrashAfterExitIsTheEnd) {
  for (const char* const where : {"destructor", "quick_exit", "stream"}) {
    const Outcome bare = run_bare({kTarget, "crash_at_end", where});
    const Outcome outcome = run({kTarget, "crash_at_end", where});
    EXPECT_EQ(outcome.wait_status, bare.wait_status) << where;
    EXPECT_TRUE(WIFSIGNALED(outcome.wait_status) && WTERMSIG(outcome.wait_status) == SIGSEGV) << where;
    ASSERT_EQ(outcome.processes.size(), 1u) << where;
    const wire::SegmentHeader& segment = *outcome.processes[0].segment;
    EXPECT_NE(segment.exit_flags.load() & wire::kFatalSignalKnown, 0u) << where;
    EXPECT_EQ(segment.fatal_signal.load(), static_cast<std::uint32_t>(SIGSEGV)) << where;
    EXPECT_NE(segment.end_mono_ns.load(), 0u) << where;
  }
}

TEST(Agent, DoesNothingUnlessAsked) {
  const Outcome outcome = run({kTarget, "exit", "3"}, {std::string(wire::kSocketVariable) + "="});
  EXPECT_TRUE(exited(outcome, 3));
  EXPECT_TRUE(outcome.processes.empty());
}

// The watcher looks every 100 ms.
TEST(Agent, StopsWhenTheSiteTurnsRecordingOff) {
  const Outcome spins = run({kTarget, "spin", "3000"}, {}, true, true);
  EXPECT_TRUE(exited(spins, 0));
  ASSERT_EQ(spins.processes.size(), 1u);
  const ProcessLog& process = spins.processes[0];
  ASSERT_NE(process.main_thread(), nullptr);
  EXPECT_LT(process.main_thread()->ticks(), 200u);  // of 300: whoever tells it may lack a processor
  EXPECT_EQ(process.drops(wire::DropReason::kSignalBlocked), 0u);
  EXPECT_EQ(process.segment->exit_flags.load(), wire::kExitStatusKnown);
  EXPECT_NE(process.segment->end_mono_ns.load(), 0u);
  EXPECT_GT(process.segment->usage.user_ns, 2'100'000'000u);  // until the end

  for (const char* what : {"threads", "fork", "own_eintr"})
    EXPECT_TRUE(exited(run({kTarget, what, "20"}, {}, true, true), 0)) << what;
}

TEST(Agent, RunsOnWhenThereIsNoCollector) {
  const Outcome outcome = run({kTarget, "exit", "3"}, {std::string(wire::kSocketVariable) + "=nobody-here"});
  EXPECT_TRUE(exited(outcome, 3));
  EXPECT_TRUE(outcome.processes.empty());
}

TEST(Agent, RecordsChildren) {
  const Outcome outcome = run({kTarget, "env"});
  EXPECT_TRUE(exited(outcome, 0));
  EXPECT_GT(outcome.processes.size(), 1u);
}

TEST(Agent, NoChildrenRecordsNoChild) {
  const Outcome outcome =
      run({kTarget, "env"},
          {"CLUSTERPROF_NO_CHILDREN=1", std::string("LD_PRELOAD=libm.so.6 ") + CLUSTERPROF_TEST_AGENT});
  EXPECT_EQ(outcome.processes.size(), 1u);
  EXPECT_EQ(outcome.output, "CLUSTERPROF_NO_CHILDREN=1\nLD_PRELOAD=libm.so.6\n");
  const Outcome forked = run({kTarget, "fork"}, {"CLUSTERPROF_NO_CHILDREN=1"});
  EXPECT_TRUE(exited(forked, 0));
  EXPECT_EQ(forked.numbers.at("child_status"), 7);
  EXPECT_EQ(forked.processes.size(), 1u);
}

TEST(Agent, RecordsAnExecutedProgram) {
  const Outcome outcome = run({kTarget, "exec"}, {kWithPapi});
  ASSERT_TRUE(exited(outcome, 0));
  ASSERT_EQ(outcome.processes.size(), 2u);
  EXPECT_EQ(outcome.processes[0].pid, outcome.processes[1].pid);
  EXPECT_GE(cpu_ms_of(main_of(outcome, 1)), 200);
  expect_a_tick_per_period_of_cpu_time(main_of(outcome, 1), 100);
}

TEST(Agent, SamplesThreadsThatExistedBeforeIt) {
  const Outcome outcome = run({kTarget, "early"}, {"EARLY_THREADS=1"});
  ASSERT_TRUE(exited(outcome, 0));
  expect_sane(outcome);
  ASSERT_EQ(outcome.processes.size(), 1u);
  EXPECT_EQ(outcome.processes[0].segment->threads_seen.load(), 3u);
  std::size_t sampled = 0;
  for (const ThreadLog& thread : outcome.processes[0].threads)
    // Of 700 and more; their end is not seen, and the last 100 may have met no tick of the kernel.
    if (!thread.is_main && thread.samples.size() > 2 && cpu_ms_of(thread) > 600) ++sampled;
  EXPECT_EQ(sampled, 2u) << outcome.processes[0].threads.size() << " threads";
}

TEST(Agent, CpuClockDoesNotSampleBlockedThreads) {
  const Outcome outcome = run({kTarget, "sleep", "300"}, {"CLUSTERPROF_CLOCK=cpu"});
  ASSERT_TRUE(exited(outcome, 0));
  EXPECT_EQ(main_of(outcome).count(wire::Trigger::kBlocked), 0u);
}

TEST(Agent, KnowsThreadNames) {
  const Outcome outcome = run({kTarget, "named"});
  ASSERT_TRUE(exited(outcome, 0));
  ASSERT_EQ(outcome.processes.size(), 1u);
  const auto& threads = outcome.processes[0].threads;
  EXPECT_TRUE(
      std::any_of(threads.begin(), threads.end(), [](const auto& t) { return t.name == "worker-7"; }));
}

TEST(Agent, UsesNoLowDescriptor) {
  const Outcome bare = run_bare({kTarget, "limits"});
  const Outcome outcome = run({kTarget, "limits"}, {kWithPapi});
  EXPECT_EQ(outcome.output, bare.output);
}

TEST(Agent, WatcherHasItsOwnDescriptorTable) {
  const Outcome outcome = run({kTarget, "watcher_descriptors"}, {kWithPapi});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  EXPECT_EQ(outcome.numbers.at("others"), 1);
  // Its own: two files of the kernel on the one thread, and one that it may be reading this instant. The
  // program's are the three of the shell, a pipe's ends and a folder.
  EXPECT_LE(outcome.numbers.at("entries"), 3);
}

// Opening the kernel's file on a thread costs several times what reading it does.
TEST(Agent, WatcherKeepsTheFilesOfAHundredThreadsOpen) {
  const Outcome outcome = run({kTarget, "watcher_descriptors", "100"});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  EXPECT_EQ(outcome.numbers.at("others"), 1);
  EXPECT_GE(outcome.numbers.at("entries"), 90);
  EXPECT_LE(outcome.numbers.at("entries"), 2 * 101 + 1);
}

TEST(Agent, SurvivesForkWhileAThreadIsInsideTheLoader) {
  const Outcome outcome = run({kTarget, "fork_loader"}, {kWithPapi});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  ASSERT_EQ(outcome.processes.size(), 11u);
  for (const ProcessLog& process : outcome.processes)
    EXPECT_GT(process.segment->module_arena_used.load(), 0u);
  const wire::SegmentHeader& child = *outcome.processes[1].segment;
  // PAPI cannot be used there, so the kernel's own counts appear under PAPI's names.
  EXPECT_EQ(child.counter_count, outcome.processes[0].segment->counter_count);
  EXPECT_STREQ(child.unavailable_names[0], "PAPI");
}

// There, the loader's locks may be held forever, even if the agent is only loaded and records nothing.
TEST(Agent, ChildOfForkDoesNotCallTheLoader) {
  for (const std::string& variable :
       {std::string("CLUSTERPROF_RATE=100"), std::string(wire::kSocketVariable) + "="}) {
    const Outcome outcome = run({CLUSTERPROF_TEST_LOOKUPS}, {variable});
    EXPECT_TRUE(exited(outcome, 0)) << variable << " " << outcome.wait_status;
  }
}

TEST(Agent, ReadsTheEnvironmentInNoThreadOfItsOwn) {
  const Outcome outcome = run({CLUSTERPROF_TEST_ENVIRONMENT}, {"CLUSTERPROF_EVENT=none"});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
}

TEST(Agent, SurvivesCancellationAtAnyInstant) {
  const Outcome outcome = run({kTarget, "cancel"}, {kWithPapi});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
}

TEST(Agent, CountsEvents) {
  const Outcome outcome = run({kTarget, "spin", "500"}, {"CLUSTERPROF_EVENT=perf::TASK-CLOCK,no-such-event"});
  ASSERT_TRUE(exited(outcome, 0));
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  // PAPI itself, too, where it does not know the processor; the kernel's own count then has that name.
  std::map<std::string, std::string> reasons;
  for (std::uint32_t i = 0; i < segment.unavailable_count; ++i)
    reasons[segment.unavailable_names[i]] = segment.unavailable_reasons[i];
  EXPECT_EQ(reasons.erase("PAPI"), segment.unavailable_count - 1);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons["no-such-event"], "");
  ASSERT_EQ(segment.counter_count, 1u);
  EXPECT_STREQ(segment.counter_names[0], "perf::TASK-CLOCK");
  const ThreadLog& thread = main_of(outcome);
  ASSERT_FALSE(thread.samples.empty());
  const Sample& last = thread.samples.back();
  ASSERT_EQ(last.counters.size(), 1u);
  const double counted_ms = static_cast<double>(last.counters[0]) * 1e-6;
  const double cpu_ms = static_cast<double>(last.record.cpu_ns - thread.start_cpu_ns) * 1e-6;
  EXPECT_NEAR(counted_ms, cpu_ms, 0.05 * cpu_ms);
}

TEST(Agent, EventNoneCountsNothing) {
  const Outcome outcome = run({kTarget, "spin", "100"}, {"CLUSTERPROF_EVENT=none"});
  ASSERT_EQ(outcome.processes.size(), 1u);
  EXPECT_EQ(outcome.processes[0].segment->counter_count, 0u);
  EXPECT_EQ(outcome.processes[0].segment->unavailable_count, 0u);
}

TEST(Agent, SurvivesLowResourceLimits) {
  // Address space, file size, descriptors, stack; without queued signals there are no timers.
  for (const std::string limited :
       {"-v 400000 && exec $0 threads 20", "-f 0 && exec $0 threads 20", "-n 16 && exec $0 threads 20",
        "-s 256 && exec $0 threads 20", "-i 0 && exec $0 spin 100"}) {
    const Outcome outcome = run({"/bin/bash", "-c", "ulimit " + limited, kTarget}, {kWithPapi});
    EXPECT_TRUE(exited(outcome, 0)) << limited << ": " << outcome.wait_status;
  }
}

TEST(Agent, TakesSmallerTablesInASmallAddressSpace) {
  std::uint64_t larger = ~std::uint64_t{0};
  for (const std::string limit : {"unlimited", "600000", "250000", "120000"}) {
    const Outcome outcome = run({"/bin/bash", "-c", "ulimit -v " + limit + " && exec $0 spin 100", kTarget});
    EXPECT_TRUE(exited(outcome, 0)) << limit << ": " << outcome.wait_status;
    ASSERT_FALSE(outcome.processes.empty()) << limit;
    EXPECT_TRUE(outcome.refusals.empty()) << limit;
    const wire::SegmentHeader& segment = *outcome.processes.back().segment;
    EXPECT_LT(segment.segment_bytes, larger) << limit;
    if (limit != "unlimited") {
      EXPECT_LE(segment.segment_bytes, std::stoull(limit) * 1024 / 4);
    }
    EXPECT_FALSE(main_of(outcome, outcome.processes.size() - 1).samples.empty());
    larger = segment.segment_bytes;
  }
}

TEST(Agent, SaysThatThereIsNoRoom) {
  const Outcome outcome = run({"/bin/bash", "-c", "ulimit -f 0 && exec $0 spin 20", kTarget});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].reason, wire::UnrecordedReason::kNoMemory);
  EXPECT_EQ(outcome.refusals[0].pid, outcome.processes.at(0).pid);
}

// A thread that wakes up ten times a second is looked at when it may be signalled again: after eight
// periods, or a quarter less if another thread is due.
TEST(Agent, SignalsThreadsLessOftenInLightMode) {
  const Outcome outcome = run({kTarget, "few_sleepers", "3"}, {rate(20), "CLUSTERPROF_MODE=light"});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  constexpr double kLeastBetween_s = 0.75 * 8 * 74.0 / 73 / 20;
  std::size_t threads = 0;
  for (const ThreadLog& thread : outcome.processes.at(0).threads) {
    if (thread.is_main) continue;
    ++threads;
    const auto blocked = static_cast<double>(thread.count(wire::Trigger::kBlocked));
    EXPECT_GE(blocked, 2);
    EXPECT_LE(blocked, thread.seconds() / kLeastBetween_s + 1);
  }
  EXPECT_EQ(threads, 2u);
}

TEST(Agent, TellsTheCommandThatAForkedChildHas) {
  const Outcome outcome = run({kTarget, "fork_renamed"});
  EXPECT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  ASSERT_EQ(outcome.processes.size(), 3u);
  const auto command_of = [&outcome](std::size_t process) {
    const wire::SegmentHeader& segment = *outcome.processes[process].segment;
    return std::string(segment.command, segment.command_bytes);
  };
  const std::string words = kTarget + '\0' + "fork_renamed" + '\0';
  EXPECT_EQ(command_of(0), words);
  EXPECT_EQ(command_of(1), words);
  EXPECT_EQ(command_of(2), kTarget + '\0' + "xxxxxxxxxxxx" + '\0');
}

TEST(Agent, FillsTheHeader) {
  const Outcome outcome = run({kTarget, "spin", "300"}, {rate(200), "CLUSTERPROF_NO_PYTHON=1"});
  ASSERT_EQ(outcome.processes.size(), 1u);
  const wire::SegmentHeader& segment = *outcome.processes[0].segment;
  const std::string words = kTarget + '\0' + "spin" + '\0' + "300" + '\0';
  EXPECT_EQ(std::string(segment.command, segment.command_bytes), words);
  EXPECT_EQ(segment.rate_hz, 200u);
  EXPECT_EQ(segment.python_state.load(), static_cast<std::uint32_t>(wire::PythonState::kDisabled));
  EXPECT_GT(segment.usage.user_ns + segment.usage.system_ns, 250'000'000u);
  EXPECT_GT(segment.usage.max_rss_bytes, 1u << 20);
  EXPECT_EQ(segment.usage.usage_has_io, 1u);
  EXPECT_GT(segment.module_arena_used.load(), 0u);
  EXPECT_EQ(segment.mpi_rank.load(), -1);
}

TEST_P(AtRate, RecordsPythonFrames) {
  const Outcome outcome = run({CLUSTERPROF_TEST_PYTHON, "-c", R"(
import time, threading
def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(i * i for i in range(1000))
def outer():
    thread = threading.Thread(target=busy, args=(0.4,))
    thread.start()
    busy(0.4)
    time.sleep(0.3)
    thread.join()
outer()
)"},
                              {variable()});
  ASSERT_TRUE(exited(outcome, 0));
  expect_sane(outcome);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const ProcessLog& process = outcome.processes[0];
  EXPECT_EQ(process.segment->python_state.load(), static_cast<std::uint32_t>(wire::PythonState::kActive))
      << process.segment->python_note;
  for (const ThreadLog& thread : process.threads) {
    std::size_t python = 0, failed = 0;
    for (const Sample& sample : thread.samples) {
      python += (sample.record.flags & wire::kHasPython) != 0 ? 1 : 0;
      failed += (sample.record.flags & wire::kMergeFailed) != 0 ? 1 : 0;
    }
    EXPECT_GT(python, thread.samples.size() / 2);
    EXPECT_LE(failed, thread.samples.size() / 100 + 1);
  }
  EXPECT_GE(process.threads.size(), 2u);
}

TEST(Agent, FindsCallPathsOfMpiCalls) {
  const Outcome outcome = run({kTarget, "api"});
  ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
  ASSERT_EQ(outcome.processes.size(), 1u);
  wire::SegmentHeader& segment = *outcome.processes[0].segment;
  const auto* words = reinterpret_cast<const std::uint64_t*>(
      reinterpret_cast<const std::uint8_t*>(&segment) + segment.path_arena_offset +
      static_cast<std::uint64_t>(outcome.numbers.at("path_offset")));
  EXPECT_GE(outcome.numbers.at("path_words"), 4);
  const double step_one = outcome.numbers.at("step_one"), step_two = outcome.numbers.at("step_two");
  EXPECT_GT(static_cast<double>(words[0]), step_one);
  EXPECT_LT(static_cast<double>(words[0]), step_two);
  EXPECT_EQ(segment.mpi_rank.load(), 3);
  EXPECT_STREQ(segment.mpi_library, "Some MPI: 1.0");
  EXPECT_EQ(segment.mpi_state.load(), static_cast<std::uint32_t>(wire::MpiState::kFinalised));
  const ThreadLog& thread = main_of(outcome);
  std::size_t inside = 0;
  for (const Sample& sample : thread.samples) inside += sample.record.mpi_op == 6 ? 1 : 0;
  EXPECT_GE(inside, 5u) << "of " << thread.samples.size()
                        << " samples, 50 on an idle machine; dropped as reentrant: "
                        << outcome.processes[0].drops(wire::DropReason::kReentrant);
  // The call that the process ended in.
  const auto* slot = reinterpret_cast<const wire::ThreadSlot*>(
      reinterpret_cast<const std::uint8_t*>(&segment) + segment.thread_slots_offset);
  while (slot->is_main != 1) ++slot;
  const wire::MpiCallUnderWay& call = slot->mpi_call;
  EXPECT_EQ(call.changes.load() % 2, 1u);
  EXPECT_EQ(call.op.load(), 5u);
  EXPECT_EQ(call.communicator.load(), 7u);
  EXPECT_EQ(call.channel.load(), 1u);
  EXPECT_EQ(call.sequence.load(), 42u);
  EXPECT_EQ(call.peer.load(), 3);
  EXPECT_EQ(call.tag.load(), 5);
  EXPECT_EQ(call.root.load(), 2);
  EXPECT_EQ(call.state.load(), 0u);
  EXPECT_EQ(call.requests.load(), 3u);
  EXPECT_EQ(call.open_requests.load(), 6u);
  EXPECT_EQ(call.agreed.load(), 81u);
  EXPECT_EQ(call.pending_kinds.load(), 0x9u);
  EXPECT_EQ(call.pending_peers[0].load(), 4);
  EXPECT_EQ(call.pending_peers[1].load(), 5);
  EXPECT_GE(call.path_words.load(), 2u);
  std::printf("call_path %.0f ns, enter + leave %.0f ns\n", outcome.numbers.at("call_path_ns"),
              outcome.numbers.at("enter_leave_ns"));
  EXPECT_LT(outcome.numbers.at("call_path_ns"), 1000);
}

// The cost of the wrappers of 200,000 calls is estimated from some of them. One that loses its processor
// stands for many.
TEST(Agent, EstimatesTheCostOfItsWrappers) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const Outcome outcome = run({kTarget, "api"});
    ASSERT_TRUE(exited(outcome, 0)) << outcome.wait_status;
    double handlers_ns = 0;
    for (const Sample& sample : main_of(outcome).samples) handlers_ns += sample.record.handler_ns;
    const double wrappers_ns =
        static_cast<double>(outcome.processes.at(0).segment->handler_ns.load()) - handlers_ns;
    const double known_ns = 200'000 * outcome.numbers.at("enter_leave_ns");
    std::printf("wrappers %.1f ms of %.1f ms\n", wrappers_ns * 1e-6, known_ns * 1e-6);
    measurements.at_least(wrappers_ns, 0.5 * known_ns, "cost of the wrappers");
    measurements.at_most(wrappers_ns, 4 * known_ns, "cost of the wrappers");
  }));
}

}  // namespace
}  // namespace clusterprof::agent_test
