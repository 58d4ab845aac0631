// SPDX-License-Identifier: BSD-3-Clause
// The collector's side of formats/wire for tests: takes greetings, drains rings, keeps everything.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "formats/wire/hello.h"
#include "formats/wire/segment.h"

namespace clusterprof::agent_test {

struct Sample {
  wire::SampleRecord record;
  std::vector<std::uint64_t> counters;
  std::vector<std::uint64_t> words;
};

struct ThreadLog {
  int tid = 0;
  bool is_main = false;
  std::string name;
  std::uint64_t start_time_ns = 0, start_cpu_ns = 0;
  std::vector<Sample> samples;
  bool ended = false;

  std::size_t count(wire::Trigger trigger) const;
  // Ticks of the thread's timer that its samples stand for.
  std::uint64_t ticks() const;
  // Wall time from the start of the thread to its last record.
  double seconds() const;
};

// One greeting: a process, or what it became by exec.
struct ProcessLog {
  std::shared_ptr<wire::SegmentHeader> segment;  // mapped; stays readable
  int pid = 0;
  std::vector<ThreadLog> threads;
  bool ring_damaged = false;

  const ThreadLog* main_thread() const;
  std::uint64_t drops(wire::DropReason reason) const;
};

struct Outcome {
  int wait_status = 0;
  std::string output;                     // the program's stdout
  std::map<std::string, double> numbers;  // lines "name number" of it
  std::vector<ProcessLog> processes;      // by order of greeting
  std::vector<wire::Refusal> refusals;    // of processes that could not be recorded
  double elapsed_s = 0;
  double longest_unread_s = 0;  // that the collector did not look at the rings
};

// Runs the command under the agent with these additional environment variables ("NAME=value").
// drain: empty the rings while it runs, and not only when it has ended. turned_off: tell each process at its
// greeting that the site has turned recording off. changes_windows: open and close windows of recording all
// the time.
Outcome run(const std::vector<std::string>& command, const std::vector<std::string>& environment = {},
            bool drain = true, bool turned_off = false, bool changes_windows = false);

// The same without the agent.
Outcome run_bare(const std::vector<std::string>& command);

}  // namespace clusterprof::agent_test
