// SPDX-License-Identifier: BSD-3-Clause
#include "report/analysis/processes.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/command_text.hpp"
#include "formats/shard/shard_data.hpp"
#include "report/analysis/analysis.hpp"
#include "report/analysis/call_paths.hpp"

namespace clusterprof::report {
namespace {

constexpr std::uint64_t kSecond_ns = 1'000'000'000;
constexpr std::int64_t kStart = 1'700'000'000'000'000'000;

class Processes : public ::testing::Test {
 protected:
  Processes() {
    data_.run.start_utc_ns = kStart;
    data_.run.own = {"/home/user/job"};
    data_.ranks.resize(2);
    data_.ranks[0].rank = 1;  // rows need not be by rank
    data_.ranks[1].rank = 0;
  }
  std::uint32_t path(std::uint32_t parent, const std::string& file, const std::string& function,
                     std::uint32_t line) {
    shard::Frame frame;
    frame.kind = shard::FrameKind::kPython;
    frame.name = interner_.string(function);
    frame.file = interner_.string(file);
    frame.line = line;
    return interner_.path(parent, interner_.frame(frame));
  }
  std::uint32_t main() { return path(0, "/home/user/job/train.py", "main", 7); }
  // A call of Python's standard library.
  std::uint32_t library(const std::string& file, const std::string& function) {
    return path(main(), "/usr/lib/python3.11/" + file, function, 50);
  }
  shard::Process& process(std::int32_t pid, shard::ProcessOrigin origin, std::uint32_t made_on,
                          std::uint64_t cpu_ns = kSecond_ns) {
    shard::Process& row = data_.processes.emplace_back();
    row.pid = pid;
    row.origin = origin;
    row.path = made_on;
    row.start_utc_ns = kStart + pid;
    row.elapsed_ns = 2 * kSecond_ns;
    row.cpu_ns = row.cpu_min_ns = row.cpu_max_ns = cpu_ns;
    row.command = command_text({"/usr/bin/python3", "-u", "/home/user/job/train.py", "3"});
    return row;
  }
  Analysis list() {
    Analysis analysis;
    list_processes(data_, CallPaths(data_), analysis);
    return analysis;
  }
  shard::ShardData data_;
  shard::PathInterner interner_{data_};
};

TEST_F(Processes, AreMadeAsThePathSays) {
  using enum shard::ProcessOrigin;
  process(1, kRank, 0);
  process(2, kFork, main());
  process(3, kFork, library("multiprocessing/popen_fork.py", "Popen._launch"));
  process(4, kExec, library("multiprocessing/popen_spawn_posix.py", "Popen._launch"));
  process(5, kExec, library("multiprocessing/resource_tracker.py", "ResourceTracker.ensure_running"));
  process(6, kExec, library("multiprocessing/forkserver.py", "ForkServer.ensure_running"));
  process(7, kFork, library("multiprocessing/forkserver.py", "main"));
  process(8, kExec, library("subprocess.py", "Popen._execute_child"));
  process(9, kPosixSpawn, library("subprocess.py", "Popen._posix_spawn"));
  process(10, kPosixSpawn, main());
  process(11, kExec, main());
  process(12, kShell, main());
  process(13, kUnknown, 0);
  // The user's own module of that name is none of Python's.
  process(14, kExec, path(library("runpy.py", "run"), "/home/user/job/subprocess.py", "go", 4));
  process(15, kRequest, library("multiprocessing/forkserver.py", "ForkServer.connect_to_new_process"));
  const Analysis analysis = list();
  std::vector<std::string> found;
  for (const ProcessRow& row : analysis.processes)
    found.push_back(std::to_string(row.pid) + " " + kProcessHowNames[static_cast<std::size_t>(row.how)] +
                    " " + analysis.process_groups[row.group].program);
  const std::string script = "python3 train.py";
  EXPECT_EQ(found, (std::vector<std::string>{
                       "1 rank " + script, "2 fork " + script, "3 fork worker", "4 spawn worker",
                       "5 exec resource tracker", "6 exec fork server", "7 forkserver worker",
                       "8 subprocess " + script, "9 subprocess " + script, "10 posix_spawn " + script,
                       "11 exec " + script, "12 shell " + script, "13 unknown " + script, "14 exec " + script,
                       "15 forkserver worker"}));
}

TEST_F(Processes, OfPythonHaveTheNameOfWhatItExecutes) {
  const auto name_of = [this](const std::vector<std::string>& words) {
    data_.processes.clear();
    process(1, shard::ProcessOrigin::kExec, 0).command = command_text(words);
    return list().process_groups.at(0).program;
  };
  EXPECT_EQ(name_of({"/usr/bin/python3", "-u", "/a/train.py", "-m"}), "python3 train.py");
  EXPECT_EQ(name_of({"python3", "-X", "dev", "-W", "error", "train.py"}), "python3 train.py");
  EXPECT_EQ(name_of({"python3", "-Xdev", "-Werror", "train.py"}), "python3 train.py");
  EXPECT_EQ(name_of({"python3", "-Im", "package", "x"}), "python3 -m package");
  EXPECT_EQ(name_of({"python3", "-mpackage"}), "python3 -m package");
  EXPECT_EQ(name_of({"python3", "-uc", "print(1)", "x"}), "python3 -c");
  EXPECT_EQ(name_of({"python3", "--check-hash-based-pycs", "always", "train.py"}), "python3 train.py");
  EXPECT_EQ(name_of({"python3", "-"}), "python3 -");
  EXPECT_EQ(name_of({"python3"}), "python3");
  EXPECT_EQ(name_of({"/opt/solver", "-X", "a"}), "solver");
}

TEST_F(Processes, AreNotAtTheLineThatMadeThem) {
  using enum shard::ProcessOrigin;
  const std::uint32_t made_on = library("subprocess.py", "run");
  const auto of = [&](std::uint32_t top) {
    data_.processes.clear();
    shard::Process& row = process(1, kExec, made_on);
    row.top_path = top;
    row.top_ns = kSecond_ns;
    return list().processes[0].top;
  };
  EXPECT_EQ(of(path(made_on, "<string>", "child_work", 4)).function, "child_work");
  const SourceLocation own = of(path(made_on, "/home/user/job/child.py", "work", 4));
  EXPECT_EQ(own.function, "work");
  EXPECT_EQ(own.line, 4u);
  EXPECT_EQ(of(made_on).function, "");
}

TEST_F(Processes, ThatAreAlikeAreOneGroup) {
  const std::uint32_t made_on = library("multiprocessing/popen_spawn_posix.py", "Popen._launch");
  const std::uint32_t work = path(made_on, "/home/user/job/train.py", "work", 12);
  const std::uint32_t rest = path(made_on, "/home/user/job/train.py", "rest", 30);
  for (std::int32_t i = 0; i < 4; ++i) {
    shard::Process& row = process(10 + i, shard::ProcessOrigin::kExec, made_on, (1 + i) * kSecond_ns);
    row.top_path = i == 0 ? rest : work;
    row.top_ns = i == 0 ? 2 * kSecond_ns : kSecond_ns;
  }
  shard::Process& many = process(20, shard::ProcessOrigin::kExec, made_on, 6 * kSecond_ns);
  many.count = 4;
  many.cpu_min_ns = kSecond_ns / 2;
  many.cpu_max_ns = 3 * kSecond_ns;
  process(30, shard::ProcessOrigin::kExec, main());
  process(40, shard::ProcessOrigin::kExec, made_on).rank = 1;
  const Analysis analysis = list();
  ASSERT_EQ(analysis.process_groups.size(), 3u);
  EXPECT_EQ(analysis.process_groups[0].rank, 0) << "of the second row of ranks";
  const ProcessGroup& group = analysis.process_groups[1];
  EXPECT_EQ(group.rank, 1);
  EXPECT_EQ(group.program, "worker");
  EXPECT_EQ(group.count, 8u);
  EXPECT_DOUBLE_EQ(group.cpu_s, 16);
  EXPECT_DOUBLE_EQ(group.cpu_min_s, 0.5);
  EXPECT_DOUBLE_EQ(group.cpu_mean_s, 2);
  EXPECT_DOUBLE_EQ(group.cpu_max_s, 4);
  EXPECT_NEAR(group.end_s - group.start_s, 2, 1e-6);
  EXPECT_EQ(group.created_by.function, "main");
  EXPECT_EQ(group.created_by.line, 7u);
  EXPECT_EQ(group.top.function, "work") << "three workers for one second each";
  EXPECT_DOUBLE_EQ(group.top_s, 3);
  EXPECT_EQ(analysis.processes[1].group, 1u);
  const auto& creation = analysis.creation_paths[group.creation_path];
  ASSERT_EQ(creation.size(), 2u);
  EXPECT_EQ(creation[0].function, "main");
  EXPECT_EQ(creation[1].function, "Popen._launch");
}

TEST_F(Processes, SayHowTheyEnded) {
  shard::Process& first = process(1, shard::ProcessOrigin::kRank, 0);
  first.flags = shard::Process::kRuns;
  shard::Process& second = process(2, shard::ProcessOrigin::kFork, 0);
  second.flags = shard::Process::kExitStatusKnown;
  second.exit_status = 3;
  shard::Process& third = process(3, shard::ProcessOrigin::kFork, 0);
  third.flags = shard::Process::kExitSignalKnown;
  third.exit_signal = 15;
  third.children_cpu_ns = 5 * kSecond_ns;
  const Analysis analysis = list();
  ASSERT_EQ(analysis.processes.size(), 3u);
  EXPECT_TRUE(analysis.processes[0].runs);
  EXPECT_FALSE(analysis.processes[0].exit_status || analysis.processes[0].exit_signal);
  EXPECT_EQ(analysis.processes[1].exit_status, 3);
  EXPECT_EQ(analysis.processes[2].exit_signal, 15);
  EXPECT_DOUBLE_EQ(analysis.processes[2].children_cpu_s, 5);
}

// They are alike with recorded ones in all else.
TEST_F(Processes, UnrecordedOnesAreRowsOfTheirOwn) {
  const std::uint32_t made = main();
  process(10, shard::ProcessOrigin::kPosixSpawn, made);
  process(11, shard::ProcessOrigin::kPosixSpawn, made).unrecorded = shard::Unrecorded::kNoMemory;
  process(12, shard::ProcessOrigin::kPosixSpawn, made, 0).unrecorded = shard::Unrecorded::kNoMemory;
  const Analysis analysis = list();
  ASSERT_EQ(analysis.process_groups.size(), 2u);
  EXPECT_EQ(analysis.process_groups[0].unrecorded, shard::Unrecorded::kNo);
  EXPECT_EQ(analysis.process_groups[1].unrecorded, shard::Unrecorded::kNoMemory);
  EXPECT_EQ(analysis.process_groups[1].count, 2u);
  ASSERT_EQ(analysis.processes.size(), 3u);
  EXPECT_EQ(analysis.processes[1].cpu_s, 1.0);
  EXPECT_FALSE(analysis.processes[2].cpu_s) << "it had ended before the first look";
}

}  // namespace
}  // namespace clusterprof::report
