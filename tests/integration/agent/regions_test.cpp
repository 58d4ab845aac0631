// SPDX-License-Identifier: BSD-3-Clause
// What the agent writes down of regions and pauses, against programs that time themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/agent/fake_collector.hpp"
#include "tests/integration/agent/pythons.hpp"
#include "tests/support/measured.hpp"

namespace clusterprof::agent_test {
namespace {

const std::string kRegions = CLUSTERPROF_TEST_REGIONS, kFixed = CLUSTERPROF_TEST_REGIONS_FIXED;
constexpr const char* kOnly = "CLUSTERPROF_ONLY_REGIONS=1";

struct RegionLog {
  std::uint64_t count, time_ns, min_ns, max_ns;
  std::int64_t max_n;
};

const wire::Region& region_at(const ProcessLog& process, std::uint32_t index) {
  return reinterpret_cast<const wire::Region*>(reinterpret_cast<const std::uint8_t*>(process.segment.get()) +
                                               process.segment->regions_offset)[index];
}

std::string name_of(const ProcessLog& process, std::uint32_t index) {
  const wire::Region& region = region_at(process, index);
  const std::string around = region.parent == wire::kNoRegion ? "" : name_of(process, region.parent) + "/";
  return around + region.name;
}

std::map<std::string, RegionLog> regions_of(const ProcessLog& process) {
  std::map<std::string, RegionLog> regions;
  for (std::uint32_t i = 0; i < process.segment->regions && region_at(process, i).ready.load() == 1; ++i) {
    const wire::Region& region = region_at(process, i);
    const bool fresh =
        regions
            .try_emplace(name_of(process, i),
                         RegionLog{region.count.load(), region.time_ns.load(), region.min_ns.load(),
                                   region.max_ns.load(), region.max_n.load()})
            .second;
    EXPECT_TRUE(fresh) << "twice in the table: " << name_of(process, i);
  }
  return regions;
}

// Of a sample: "outer/inner", by its words.
std::string region_of(const ProcessLog& process, const Sample& sample) {
  std::string name;
  bool behind_frames = false;
  for (std::size_t i = 0; i < sample.words.size(); ++i) {
    const std::uint64_t tag = sample.words[i] & wire::kFrameTagMask;
    if (tag == wire::kPythonFrameTag) ++i;  // its code id may look like anything
    if (tag != wire::kRegionFrameTag) {
      EXPECT_FALSE(behind_frames) << "a frame behind a region";
      continue;
    }
    const auto index = static_cast<std::uint32_t>(sample.words[i]);
    if (!behind_frames) name = name_of(process, index);
    behind_frames = true;
  }
  return name;
}

// Wall time by region, as the collector counts it: the time since the record before is the sample's, but what
// passes after a blocked one is that one's. "paused": nobody's.
std::map<std::string, double> seconds_by_region(const ProcessLog& process, const ThreadLog& thread) {
  std::map<std::string, double> seconds;
  std::uint64_t time_ns = thread.start_time_ns, cpu_ns = thread.start_cpu_ns;
  std::string blocked_in;
  bool was_blocked = false;
  for (const Sample& sample : thread.samples) {
    const wire::SampleRecord& record = sample.record;
    const double wall = static_cast<double>(record.time_ns - time_ns) * 1e-9;
    const double cpu = std::fmin(wall, static_cast<double>(record.cpu_ns - cpu_ns) * 1e-9);
    time_ns = record.time_ns;
    cpu_ns = record.cpu_ns;
    const bool paused = (record.flags & wire::kPaused) != 0;
    const std::string here = paused ? "paused" : region_of(process, sample);
    if (was_blocked && !paused) {
      seconds[blocked_in] += wall - cpu;
      seconds[here] += cpu;
    } else {
      seconds[here] += wall;
    }
    was_blocked = record.trigger == wire::Trigger::kBlocked && !paused;
    blocked_in = here;
  }
  return seconds;
}

Outcome run_mode(const std::string& mode, std::vector<std::string> environment = {},
                 const std::string& program = kRegions) {
  Outcome outcome = run({program, mode}, environment);
  EXPECT_EQ(outcome.wait_status, 0) << mode;
  EXPECT_FALSE(outcome.processes.empty());
  for (const ProcessLog& process : outcome.processes) EXPECT_FALSE(process.ring_damaged);
  return outcome;
}

// The agent's time of a region is that of the program, but for what begin and end take.
void expect_between(const Outcome& outcome, const std::string& name, std::uint64_t time_ns) {
  EXPECT_GE(static_cast<double>(time_ns), outcome.numbers.at(name + ".inner")) << name;
  EXPECT_LE(static_cast<double>(time_ns), outcome.numbers.at(name + ".outer")) << name;
  // Or the bounds would say nothing. A loaded machine may take the processor away between the two.
  std::printf("%s: %.1f us between the bounds\n", name.c_str(),
              (outcome.numbers.at(name + ".outer") - outcome.numbers.at(name + ".inner")) * 1e-3);
}

class AnyProgram : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AnyProgram, testing::Values("independent", "fixed"),
                         [](const auto& test) { return std::string(test.param); });

// In programs that are not position independent, too, the functions are found.
TEST_P(AnyProgram, RegionTimesAgreeWithTheProgram) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const Outcome outcome = run_mode("nesting", {"CLUSTERPROF_RATE=1000"},
                                     GetParam() == std::string("fixed") ? kFixed : kRegions);
    const ProcessLog& process = outcome.processes.at(0);
    auto regions = regions_of(process);
    ASSERT_EQ(regions.size(), 4u);
    EXPECT_EQ(regions.at("outer").count, 1u);
    EXPECT_EQ(regions.at("outer/step").count, 4u);
    EXPECT_EQ(regions.at("outer/last").count, 1u);
    EXPECT_EQ(regions.at("step").count, 1u);
    expect_between(outcome, "outer", regions.at("outer").time_ns);
    expect_between(outcome, "step", regions.at("outer/step").time_ns);
    expect_between(outcome, "other", regions.at("step").time_ns);
    expect_between(outcome, "last", regions.at("outer/last").time_ns);
    EXPECT_EQ(regions.at("outer/step").max_n,
              static_cast<std::int64_t>(outcome.numbers.at("step.longest_n")));
    EXPECT_EQ(regions.at("step").max_n, 7);
    EXPECT_EQ(regions.at("outer").max_n, -1);
    expect_between(outcome, "step.longest", regions.at("outer/step").max_ns);
    expect_between(outcome, "step.shortest", regions.at("outer/step").min_ns);
    EXPECT_EQ(regions.at("outer").min_ns, regions.at("outer").time_ns);
    EXPECT_EQ(regions.at("outer").max_ns, regions.at("outer").time_ns);
    EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);
    EXPECT_EQ(process.drops(wire::DropReason::kRegionTableFull), 0u);

    auto seconds = seconds_by_region(process, *process.main_thread());
    const auto exact = [&](const char* name) { return static_cast<double>(regions.at(name).time_ns) * 1e-9; };
    const double points = 0.05 * process.main_thread()->seconds();
    measurements.near(seconds["outer/step"], exact("outer/step"), points, "outer/step");
    measurements.near(seconds["outer/last"], exact("outer/last"), points, "outer/last");
    measurements.near(seconds["outer"], exact("outer") - exact("outer/step") - exact("outer/last"), points,
                      "outer");
  }));
}

TEST(Regions, BelongToTheirThread) {
  const Outcome outcome = run_mode("threads");
  const ProcessLog& process = outcome.processes.at(0);
  const auto regions = regions_of(process);
  ASSERT_EQ(regions.size(), 3u);
  EXPECT_EQ(regions.at("work").count, 40u);
  EXPECT_EQ(regions.at("work/inner").count, 40u);
  EXPECT_EQ(regions.at("main").count, 1u);
  EXPECT_GE(regions.at("work").time_ns, 40 * 10'000'000u);
  EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);
  std::size_t in_work = 0, running = 0;
  for (const ThreadLog& thread : process.threads) {
    for (const Sample& sample : thread.samples) {
      const std::string region = region_of(process, sample);
      if (thread.is_main) {
        EXPECT_TRUE(region.empty() || region == "main") << region;
      } else if (sample.record.trigger == wire::Trigger::kCpuTimer) {
        ++running;
        in_work += region == "work/inner" ? 1 : 0;
      }
    }
  }
  EXPECT_GT(running, 8u);
  EXPECT_GE(in_work + 4, running);
}

TEST(Regions, EndWhenAnExceptionLeavesThem) {
  const Outcome outcome = run_mode("exceptions");
  const auto regions = regions_of(outcome.processes.at(0));
  ASSERT_EQ(regions.size(), 5u);
  EXPECT_EQ(regions.at("thrown through").count, 5u);
  EXPECT_EQ(regions.at("thrown through/thrown through/thrown through/thrown through").count, 5u);
  EXPECT_EQ(regions.at("behind").count, 1u);
  EXPECT_EQ(outcome.processes.at(0).drops(wire::DropReason::kRegionMismatch), 0u);
}

TEST(Regions, WrongEndsAreCountedAndRepaired) {
  const Outcome outcome = run_mode("mismatches");
  const auto regions = regions_of(outcome.processes.at(0));
  ASSERT_EQ(regions.size(), 6u);
  EXPECT_EQ(regions.at("a").count, 2u);
  EXPECT_EQ(regions.at("a/b").count, 1u);
  EXPECT_EQ(regions.at("a/b/c").count, 1u);
  EXPECT_EQ(regions.at("d").count, 1u);
  EXPECT_EQ(regions.at("a/left").count, 1u);
  EXPECT_EQ(regions.at("e").count, 1u);
  // b and c not ended; never begun; a of none; the innermost of none; left.
  EXPECT_EQ(outcome.processes.at(0).drops(wire::DropReason::kRegionMismatch), 5u);
}

TEST(Regions, BeyondTheLimitsAreCounted) {
  const Outcome outcome = run_mode("limits");
  const ProcessLog& process = outcome.processes.at(0);
  const auto regions = regions_of(process);
  EXPECT_EQ(regions.size(), 1793u);
  EXPECT_EQ(regions.at("").count, 1u);
  EXPECT_EQ(regions.at(std::string(94, 'x')).count, 2u);  // not in the middle of a character
  EXPECT_EQ(regions.at("many 0").count, 1u);
  EXPECT_EQ(regions.at("many 1661").count, 1u);
  EXPECT_EQ(regions.count("many 1662"), 0u);
  EXPECT_EQ(regions.at(wire::kOtherRegionsName).count, 3000u - 1662);
  EXPECT_EQ(process.drops(wire::DropReason::kRegionTableFull), 22u);  // too deep
  EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);
}

TEST(Regions, ContinueInAChildOfForkOfTheirThread) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const Outcome outcome = run_mode("forks", {"CLUSTERPROF_RATE=1000"});
    ASSERT_EQ(outcome.processes.size(), 2u);
    for (const ProcessLog& process : outcome.processes) {
      const auto regions = regions_of(process);
      ASSERT_EQ(regions.size(), 2u);
      EXPECT_EQ(regions.at("outer").count, 1u);
      EXPECT_EQ(regions.at("outer/inner").count, 1u);
      EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);
      EXPECT_GE(regions.at("outer/inner").time_ns, 100'000'000u);
      EXPECT_GE(regions.at("outer").time_ns, regions.at("outer/inner").time_ns);
      auto seconds = seconds_by_region(process, *process.main_thread());
      measurements.near(seconds["outer/inner"], static_cast<double>(regions.at("outer/inner").time_ns) * 1e-9,
                        0.03, "outer/inner");
    }
    EXPECT_EQ(regions_of(outcome.processes[0]).at("outer/inner").max_n, 2);
    EXPECT_EQ(regions_of(outcome.processes[1]).at("outer/inner").max_n, 1);
  }));
}

TEST(Pauses, AreChargedToNoCallPath) {
  const Outcome outcome = run_mode("pauses");
  const ProcessLog& process = outcome.processes.at(0);
  expect_between(outcome, "paused", process.segment->paused_ns.load());
  EXPECT_EQ(process.segment->paused_since_ns.load(), 0u);
  const ThreadLog& thread = *process.main_thread();
  auto seconds = seconds_by_region(process, thread);
  const double exact = static_cast<double>(process.segment->paused_ns.load()) * 1e-9;
  EXPECT_NEAR(seconds["paused"], exact, 2e-6);
  EXPECT_NEAR(seconds["paused"] + seconds[""], thread.seconds(), 1e-6);
  for (const Sample& sample : thread.samples) {
    EXPECT_EQ(
        (sample.record.flags & wire::kPaused) != 0 || sample.record.trigger == wire::Trigger::kThreadEnd,
        sample.words.empty());
  }
}

TEST(Pauses, StopRecordingOfAllThreads) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const Outcome outcome = run_mode("pauses_of_all", {"CLUSTERPROF_RATE=1000"});
    const ProcessLog& process = outcome.processes.at(0);
    expect_between(outcome, "paused", process.segment->paused_ns.load());
    const double exact = static_cast<double>(process.segment->paused_ns.load()) * 1e-9;
    ASSERT_EQ(process.threads.size(), 2u);
    for (const ThreadLog& thread : process.threads) {
      auto seconds = seconds_by_region(process, thread);
      measurements.near(seconds["paused"], exact, 0.05 * thread.seconds() + 0.005, "paused");
    }
  }));
}

TEST(Pauses, AreToldByMpiCalls) {
  for (const auto& environment : std::vector<std::vector<std::string>>{{}, {kOnly}}) {
    const Outcome outcome = run_mode("calls_and_pauses", environment);
    for (const std::string name : {"pause", "both"})
      expect_between(outcome, name, static_cast<std::uint64_t>(outcome.numbers.at(name + ".told")));
  }
}

TEST(Pauses, LastOutsideOfRegionsWithOnlyRegions) {
  const Outcome outcome = run_mode("parts", {kOnly});
  const ProcessLog& process = outcome.processes.at(0);
  const auto regions = regions_of(process);
  ASSERT_EQ(regions.size(), 3u);
  const ThreadLog& thread = *process.main_thread();
  auto seconds = seconds_by_region(process, thread);
  double inside = 0;
  for (const char* name : {"busy", "asleep", "brief"}) {
    const double exact = static_cast<double>(regions.at(name).time_ns) * 1e-9;
    expect_between(outcome, name, regions.at(name).time_ns);
    // The 60 brief ones are shorter than the period between samples.
    EXPECT_NEAR(seconds[name], exact, 1e-4) << name;
    inside += exact;
  }
  EXPECT_EQ(seconds.count(""), 0u) << "time outside of regions";
  EXPECT_NEAR(seconds["paused"], thread.seconds() - inside, 0.005);
  const std::uint64_t since_ns = process.segment->paused_since_ns.load();
  ASSERT_NE(since_ns, 0u);
  // Until the thread's last sample: between that and the end of the process it may wait for a processor.
  const double paused = static_cast<double>(process.segment->paused_ns.load() +
                                            thread.samples.back().record.time_ns - since_ns) *
                        1e-9;
  EXPECT_NEAR(paused, thread.seconds() - inside, 0.01);
}

TEST(Pauses, CanLieInRegionsWithOnlyRegions) {
  constexpr double kPeriod_s = 0.01;  // of sampling, by default
  const Outcome outcome = run_mode("regions_and_pauses", {kOnly});
  const ProcessLog& process = outcome.processes.at(0);
  const ThreadLog& thread = *process.main_thread();
  auto seconds = seconds_by_region(process, thread);
  const std::map<std::string, std::string> recorded = {
      {"around/first", "first"}, {"second", "second"}, {"third", "third"}, {"whole/fourth", "fourth"}};
  double inside = 0, around = 0, unseen = 0;
  for (const auto& [region, name] : recorded) {
    // Where the thread has no processor for a sampling period, it may be that no sample falls into a region.
    // Then its time is that of the region around it; the end of an outermost region is recorded without a
    // sample.
    const double lacked = (outcome.numbers.at(name + ".inner") - outcome.numbers.at(name + ".ran")) * 1e-9;
    if (region.find('/') != std::string::npos && seconds.count(region) == 0 && lacked > kPeriod_s) {
      unseen += outcome.numbers.at(name + ".outer") * 1e-9;
      continue;
    }
    const double least = outcome.numbers.at(name + ".inner") * 1e-9,
                 most = outcome.numbers.at(name + ".outer") * 1e-9;
    EXPECT_GE(seconds[region], least - 1e-4) << name;
    // A sample in a nested region also stands for the time since the one before, which was spent in the
    // region around it.
    const double around_it = region.find('/') == std::string::npos ? 0 : outcome.numbers.at("rest") * 1e-9;
    EXPECT_LE(seconds[region], most + around_it + 1e-4) << name;
    inside += seconds[region];
  }
  for (const char* name : {"around", "left", "whole"}) around += seconds[name];
  EXPECT_GE(around, 0.001);  // before the last pause
  EXPECT_LE(around, outcome.numbers.at("rest") * 1e-9 + unseen);
  EXPECT_EQ(seconds.count(""), 0u) << "time outside of regions";
  EXPECT_NEAR(seconds["paused"], thread.seconds() - inside - around, 1e-3);
  const std::uint64_t since_ns = process.segment->paused_since_ns.load();
  ASSERT_NE(since_ns, 0u) << "outside of regions nothing is recorded";
  // Until the thread's last sample: between that and the end of the process it may wait for a processor.
  const double paused = static_cast<double>(process.segment->paused_ns.load() +
                                            thread.samples.back().record.time_ns - since_ns) *
                        1e-9;
  EXPECT_NEAR(paused, seconds["paused"], 0.01);
}

// The thread goes from a sleep into another one in "asleep". That it moved the agent's thread has to see, for
// which it needs a processor in time.
TEST(Regions, SharesOfSamplesAgreeWithTheProgram) {
  EXPECT_TRUE(test::measured([](test::Measurements& measurements) {
    const Outcome outcome = run_mode("parts", {"CLUSTERPROF_RATE=1000"});
    const ProcessLog& process = outcome.processes.at(0);
    const auto regions = regions_of(process);
    const ThreadLog& thread = *process.main_thread();
    auto seconds = seconds_by_region(process, thread);
    for (const char* name : {"busy", "asleep", "brief"}) {
      const double exact = static_cast<double>(regions.at(name).time_ns) * 1e-9;
      measurements.near(seconds[name] / thread.seconds(), exact / thread.seconds(), 0.05, name);
    }
  }));
}

TEST(Regions, LeaveErrnoAlone) { run_mode("errno"); }

TEST(Regions, CostOfAPair) {
  const Outcome with = run_mode("cost"), without = run_bare({kRegions, "cost"});
  std::printf("%.1f ns per pair, %.1f without the agent\n", with.numbers.at("pair_ns"),
              without.numbers.at("pair_ns"));
  EXPECT_EQ(regions_of(with.processes.at(0)).at("assemble").count, 6'000'000u);
  EXPECT_LT(without.numbers.at("pair_ns"), 20);
}

// Wherever a sample interrupts begin and end, it shows the region or none.
TEST(Regions, AreWholeInSamplesAtAnyInstant) {
  const Outcome outcome = run_mode("cost", {"CLUSTERPROF_RATE=5000"});
  const ProcessLog& process = outcome.processes.at(0);
  ASSERT_EQ(regions_of(process).size(), 1u);
  std::size_t inside = 0, outside = 0;
  for (const Sample& sample : process.main_thread()->samples) {
    const std::string region = region_of(process, sample);
    inside += region == "assemble" ? 1 : 0;
    outside += region.empty() ? 1 : 0;
  }
  EXPECT_EQ(inside + outside, process.main_thread()->samples.size());
  EXPECT_GT(inside, 100u);
  EXPECT_GT(outside, 100u);
}

TEST(Regions, OfSignalHandlersLeaveThoseThatTheyInterruptAlone) {
  const Outcome outcome = run_mode("handlers");
  const ProcessLog& process = outcome.processes.at(0);
  auto regions = regions_of(process);
  EXPECT_EQ(static_cast<double>(regions["outside"].count), outcome.numbers.at("pairs"));
  EXPECT_EQ(static_cast<double>(regions["in handler"].count + regions["outside/in handler"].count),
            outcome.numbers.at("handled"));
  EXPECT_EQ(regions.size(), 3u);
  EXPECT_GT(outcome.numbers.at("handled"), 100);
  EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);
}

// The header alone: the program runs as it would without.
TEST(Regions, DoNothingWithoutTheAgent) {
  for (const std::string& program : {kRegions, kFixed})
    for (const char* mode : {"mismatches", "limits", "exceptions", "forks", "errno"})
      EXPECT_EQ(run_bare({program, mode}).wait_status, 0) << mode;
}

void expect_inner_thrice(const std::string& program) {
  EXPECT_EQ(run_bare({program}).wait_status, 0);
  const Outcome outcome = run({program});
  ASSERT_EQ(outcome.wait_status, 0);
  ASSERT_EQ(outcome.processes.size(), 1u);
  const auto regions = regions_of(outcome.processes[0]);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions.at("outer").count, 1u);
  EXPECT_EQ(regions.at("outer/inner").count, 3u);
  EXPECT_GE(regions.at("outer/inner").max_n, 0);
  EXPECT_GT(outcome.processes[0].segment->paused_ns.load(), 0u);
  EXPECT_EQ(outcome.processes[0].drops(wire::DropReason::kRegionMismatch), 0u);
}

TEST(Regions, OfCPrograms) { expect_inner_thrice(CLUSTERPROF_TEST_REGIONS_C); }

TEST(Regions, OfFortranPrograms) {
  const std::string program = CLUSTERPROF_TEST_REGIONS_FORTRAN;
  if (program.empty()) GTEST_SKIP() << "no gfortran here";
  expect_inner_thrice(program);
}

// --- Python ---

class PythonRegions : public testing::TestWithParam<const char*> {
 protected:
  static std::string interpreter() { return find_python(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Versions, PythonRegions,
                         testing::Values("system", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14",
                                         "3.15"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_P(PythonRegions, AgreeWithTheProgram) {
  const std::string python = interpreter();
  if (python.empty()) GTEST_SKIP() << "no CPython " << GetParam() << " from pyenv here";
  setenv("PYTHONPATH", CLUSTERPROF_TEST_PYTHON_MODULE, 1);
  const std::vector<std::string> command = {python, "-B", CLUSTERPROF_TEST_PYTHON_REGIONS};
  const Outcome bare = run_bare(command), outcome = run(command);
  unsetenv("PYTHONPATH");
  ASSERT_EQ(bare.wait_status, 0);
  ASSERT_EQ(outcome.wait_status, 0);
  EXPECT_EQ(bare.numbers.at("active"), 0);
  EXPECT_EQ(outcome.numbers.at("active"), 1);

  ASSERT_EQ(outcome.processes.size(), 2u);
  const ProcessLog& process = outcome.processes[0];
  auto regions = regions_of(process);
  const std::map<std::string, std::uint64_t> counts = {{"outer", 1},
                                                       {"outer/inner", 3},
                                                       {"raises", 4},
                                                       {"raises/inside", 4},
                                                       {"decorated", 3},
                                                       {"generator", 7},
                                                       {"coroutine", 6},
                                                       {"thread", 15},
                                                       {"async generator", 9},
                                                       {"around fork", 1},
                                                       {"around fork/parent", 1},
                                                       {"\xc3\xa4?b", 1}};
  std::map<std::string, std::uint64_t> found;
  for (const auto& [name, region] : regions) found[name] = region.count;
  EXPECT_EQ(found, counts);
  expect_between(outcome, "outer", regions.at("outer").time_ns);
  expect_between(outcome, "inner", regions.at("outer/inner").time_ns);
  expect_between(outcome, "paused", process.segment->paused_ns.load());
  // Known for certain if it was longer within the region than the others were around it.
  if (outcome.numbers.at("lead") > 0)
    EXPECT_EQ(regions.at("outer/inner").max_n, outcome.numbers.at("longest"));
  // Three coroutines take turns, so they cannot run for longer than all of them take together. With the 50 ms
  // for which each one waits it would be nearly three times as long.
  EXPECT_GE(regions.at("coroutine").time_ns, outcome.numbers.at("coroutine.inner"));
  EXPECT_LE(regions.at("coroutine").time_ns, outcome.numbers.at("coroutine.outer"));
  EXPECT_EQ(process.drops(wire::DropReason::kRegionMismatch), 0u);

  const auto in_child = regions_of(outcome.processes[1]);
  ASSERT_EQ(in_child.size(), 2u);
  EXPECT_EQ(in_child.at("around fork/child").count, 1u);
  EXPECT_EQ(in_child.at("around fork").count, 1u);
}

TEST(DataAddresses, LieInTheArraysOfTheProgram) {
  const Outcome outcome = run_mode("stream");
  const auto low = static_cast<std::uint64_t>(outcome.numbers.at("data"));
  const std::uint64_t high = low + static_cast<std::uint64_t>(outcome.numbers.at("bytes"));
  const auto begun = static_cast<std::uint64_t>(outcome.numbers.at("begun"));
  std::size_t running = 0, known = 0, inside = 0;
  for (const Sample& sample : outcome.processes.at(0).main_thread()->samples) {
    const wire::SampleRecord& record = sample.record;
    EXPECT_EQ((record.flags & (wire::kMemoryOperand | wire::kAtMutex | wire::kAtWord)) != 0,
              record.data_address != 0);
    if (record.trigger != wire::Trigger::kCpuTimer || record.time_ns < begun + 10'000'000) continue;
    ++running;
    known += record.data_address != 0 ? 1 : 0;
    inside += record.data_address >= low && record.data_address < high + 64 ? 1 : 0;
  }
  ASSERT_GT(running, 8u);
  std::printf("%zu samples, %zu with an address, %zu of the data\n", running, known, inside);
  EXPECT_GE(static_cast<double>(inside), 0.8 * static_cast<double>(running));
  EXPECT_GE(static_cast<double>(inside), 0.95 * static_cast<double>(known));
}

TEST(Descriptors, OfFilesSocketsAndPipesAreDistinguished) {
  const struct {
    const char* mode;
    std::uint32_t flag;
  } cases[] = {{"pipe", wire::kOnPipe},
               {"socket", wire::kOnSocket},
               {"polled_socket", wire::kOnSocket},
               {"file", wire::kOnFile}};
  constexpr std::uint32_t kAll = wire::kOnPipe | wire::kOnSocket | wire::kOnFile;
  for (const auto& one : cases) {
    const Outcome outcome = run_mode(one.mode);
    std::size_t right = 0, wrong = 0;
    for (const Sample& sample : outcome.processes.at(0).main_thread()->samples) {
      const std::uint32_t found = sample.record.flags & kAll;
      right += found == one.flag ? 1 : 0;
      wrong += found != 0 && found != one.flag ? 1 : 0;
    }
    EXPECT_GE(right, 1u) << one.mode;
    EXPECT_EQ(wrong, 0u) << one.mode;
  }
}

}  // namespace
}  // namespace clusterprof::agent_test
