// SPDX-License-Identifier: BSD-3-Clause
// Allocations in the segment's tables, against what programs say that they have allocated.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/integration/agent/fake_collector.hpp"
#include "tests/integration/agent/pythons.hpp"

namespace clusterprof::agent_test {
namespace {

constexpr double kAskedInterval = 4096;
constexpr double kCopyFactor = 16;  // that a copied byte is sampled less often

struct Sums {
  double allocated = 0, live = 0, calls = 0, copied = 0, variance = 0;
};

template <typename Entry>
const Entry* table(const wire::SegmentHeader& segment, std::uint64_t offset) {
  return reinterpret_cast<const Entry*>(reinterpret_cast<const std::uint8_t*>(&segment) + offset);
}

// Of what lives, as the table of blocks says: it has to agree with the sums.
double live_in_table(const wire::SegmentHeader& segment, std::uint32_t site) {
  const auto* const addresses = table<std::atomic<std::uint64_t>>(segment, segment.memory_addresses_offset);
  const auto* const blocks = table<wire::MemoryBlock>(segment, segment.memory_blocks_offset);
  double live = 0;
  for (std::uint32_t i = 0; i < segment.memory_blocks; ++i)
    if (addresses[i].load() > wire::kBusyBlock && blocks[i].site == site)
      live += static_cast<double>(blocks[i].weight);
  return live;
}

constexpr auto kAllCopies = [](const auto&) { return true; };

// The sites that `is_in` accepts, by domain; copies where `copies` accepts the path, too.
template <typename IsIn, typename Copies = decltype(kAllCopies)>
std::map<std::string, Sums> sums_of(const wire::SegmentHeader& segment, IsIn is_in,
                                    Copies copies = kAllCopies) {
  std::map<std::string, Sums> sums;
  const auto* const sites = table<wire::MemorySite>(segment, segment.memory_sites_offset);
  const char* const arena = table<char>(segment, segment.path_arena_offset);
  for (std::uint32_t i = 0; i < segment.memory_sites; ++i) {
    const wire::MemorySite& site = sites[i];
    if (site.key.load() == 0 || site.ready.load() == 0) continue;
    const auto* const words = reinterpret_cast<const std::uint64_t*>(arena + site.path_offset);
    const std::vector<std::uint64_t> path(words, words + site.path_words);
    if (!is_in(path)) continue;
    Sums& sum = sums[wire::kMemoryDomainNames[static_cast<std::uint32_t>(site.domain)]];
    const auto live = static_cast<double>(site.alloc_bytes.load() - site.freed_bytes.load());
    sum.allocated += static_cast<double>(site.alloc_bytes.load());
    sum.live += live;
    sum.calls += static_cast<double>(site.alloc_count.load());
    if (copies(path)) sum.copied += static_cast<double>(site.copy_bytes.load());
    sum.variance += static_cast<double>(site.variance.load()) * wire::kVarianceUnit;
    EXPECT_LE(site.soon_bytes.load(), site.freed_bytes.load());
    if (live > 4e6) {
      EXPECT_DOUBLE_EQ(live_in_table(segment, i), live);
    }
  }
  return sums;
}

bool leads_through(const std::vector<std::uint64_t>& path, std::uint64_t begin, std::uint64_t end) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    if ((path[i] & wire::kFrameTagMask) == wire::kPythonFrameTag)
      ++i;
    else if (path[i] >= begin && path[i] < end)
      return true;
  }
  return false;
}

std::string function_of(const wire::SegmentHeader& segment, std::uint64_t code_id) {
  const auto* const slots = table<wire::CodeSlot>(segment, segment.code_slots_offset);
  for (std::uint32_t i = 0; i < segment.code_slots; ++i) {
    const std::uint64_t offset = slots[i].entry_offset.load();
    if (slots[i].key.load() != code_id || offset == 0 || offset == wire::kNoCodeEntry) continue;
    const auto* const entry = reinterpret_cast<const wire::CodeEntry*>(
        table<std::uint8_t>(segment, segment.code_arena_offset) + offset - 1);
    return std::string(reinterpret_cast<const char*>(entry + 1) + entry->filename_bytes, entry->name_bytes);
  }
  return "";
}

bool leads_through(const wire::SegmentHeader& segment, const std::vector<std::uint64_t>& path,
                   const std::string& function) {
  for (std::size_t i = 0; i + 1 < path.size(); ++i)
    if ((path[i] & wire::kFrameTagMask) == wire::kPythonFrameTag &&
        function_of(segment, path[++i]) == function)
      return true;
  return false;
}

// It rises with the number of changes per second: on a fast machine as well as with many of them. So no error
// is larger than with the last one.
double interval_of(const wire::SegmentHeader& segment) {
  return static_cast<double>(segment.memory.interval_bytes.load());
}

// Of one in a million runs, one number is wrong.
double tolerance(double variance) { return 5 * std::sqrt(variance) + 1; }

class Memory : public testing::Test {
 protected:
  // Records the command at an interval of 4 KiB.
  const wire::SegmentHeader& record(const std::vector<std::string>& command, const std::string& behind = "",
                                    bool has_room = true) {
    run_recorded(command, behind);
    if (outcome_.processes.empty()) throw std::runtime_error("nothing was recorded: " + outcome_.output);
    const ProcessLog& process = outcome_.processes[0];
    EXPECT_EQ(process.drops(wire::DropReason::kMemorySiteTableFull) == 0, has_room);
    EXPECT_EQ(process.drops(wire::DropReason::kMemoryBlockTableFull) == 0, has_room);
    EXPECT_EQ(process.drops(wire::DropReason::kFaultInWalk), 0u);
    return *process.segment;
  }
  void run_recorded(const std::vector<std::string>& command, const std::string& behind = "") {
    const std::string preloads = std::string(CLUSTERPROF_TEST_AGENT) + ":" + CLUSTERPROF_TEST_MEMORY;
    outcome_ =
        run(command, {"LD_PRELOAD=" + preloads + behind, std::string(wire::kPreloadVariable) + "=" + preloads,
                      "CLUSTERPROF_MEMORY=4096"});
  }
  void expect_status(int status) { EXPECT_EQ(outcome_.wait_status, status) << outcome_.output; }

  // Compares the lines "expect" of the program's output with the tables.
  std::size_t compare(const wire::SegmentHeader& segment, bool only_own_copies = false) {
    const double interval = interval_of(segment);
    std::istringstream lines(outcome_.output);
    std::size_t compared = 0;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word, function, domain;
      std::uint64_t begin = 0, end = 0;
      double allocated = 0, live = 0, calls = 0, copied = 0;
      words >> word >> function >> begin >> end >> domain >> allocated >> live >> calls >> copied;
      if (word != "expect" || !words) continue;
      ++compared;
      auto sums = sums_of(
          segment, [&](const auto& path) { return leads_through(path, begin, end); },
          [&](const auto& path) {
            return !only_own_copies || (path.front() >= begin && path.front() < end);
          });
      const Sums& sum = sums[domain];
      EXPECT_NEAR(sum.allocated, allocated, tolerance(sum.variance)) << line;
      EXPECT_NEAR(sum.live, live, tolerance(std::min(sum.variance, interval * live))) << line;
      if (calls >= 0) {
        const double bytes_per_call = allocated / std::max(calls, 1.0);
        EXPECT_NEAR(sum.calls, calls,
                    5 * std::sqrt(interval * allocated) / std::max(bytes_per_call, 1.0) *
                        (bytes_per_call < 5 * interval ? 1 : 0))
            << line;
      }
      if (copied >= 0) {
        EXPECT_NEAR(sum.copied, copied, tolerance(kCopyFactor * interval * copied)) << line;
      }
      sums.erase(domain);
      for (const auto& [other, more] : sums) EXPECT_EQ(more.allocated, 0) << other << " " << line;
    }
    return compared;
  }

  Outcome outcome_;
};

TEST_F(Memory, HeapOfC) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "heap"});
  expect_status(0);
  EXPECT_EQ(compare(segment), 8u);
  EXPECT_EQ(segment.memory.notes.load(), 0u);
  EXPECT_EQ(segment.memory.asked_interval_bytes, static_cast<std::uint64_t>(kAskedInterval));
  EXPECT_GE(interval_of(segment), kAskedInterval);
  EXPECT_EQ(segment.memory.ended.load(), 1u);
}

TEST_F(Memory, OfOtherAllocators) {
  std::size_t seen = 0;
  for (const char* name : {"libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"}) {
    const std::string path = std::string("/usr/lib/x86_64-linux-gnu/") + name;
    if (access(path.c_str(), R_OK) != 0) continue;
    SCOPED_TRACE(name);
    ++seen;
    // An allocator may move pointers of its own within a call: jemalloc some hundred bytes of a thread's
    // cache.
    const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "heap"}, ":" + path);
    expect_status(0);
    EXPECT_EQ(compare(segment, true), 8u);
    const wire::SegmentHeader& of_new = record({CLUSTERPROF_TEST_MEMORY_NEW}, ":" + path);
    expect_status(0);
    EXPECT_EQ(compare(of_new, true), 4u);
  }
  if (seen == 0) GTEST_SKIP() << "there is no other allocator here";
}

TEST_F(Memory, OperatorNew) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_NEW});
  expect_status(0);
  EXPECT_EQ(compare(segment), 4u);
}

TEST_F(Memory, OperatorNewThatOnlyAPluginSees) {
  const wire::SegmentHeader& segment =
      record({CLUSTERPROF_TEST_MEMORY_LATE, CLUSTERPROF_TEST_MEMORY_LATE_PLUGIN});
  expect_status(0);
  EXPECT_EQ(compare(segment), 3u);
}

TEST_F(Memory, PluginsWithAllocatorsOfTheirOwnEachHaveTheirs) {
  const wire::SegmentHeader& segment =
      record({CLUSTERPROF_TEST_MEMORY_ALLOCATORS, "together", CLUSTERPROF_TEST_MEMORY_ALLOCATOR_NEAR,
              CLUSTERPROF_TEST_MEMORY_ALLOCATOR_FAR});
  expect_status(0);
  EXPECT_EQ(compare(segment), 8u);
}

TEST_F(Memory, AllocatorsOfPluginsThatComeAndGo) {
  run_recorded({CLUSTERPROF_TEST_MEMORY_ALLOCATORS, "in_turn", CLUSTERPROF_TEST_MEMORY_ALLOCATOR_NEAR,
                CLUSTERPROF_TEST_MEMORY_ALLOCATOR_FAR});
  expect_status(0);
  EXPECT_EQ(outcome_.processes.size(), 1u);
}

TEST_F(Memory, OfTheKernel) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "mappings"});
  expect_status(0);
  EXPECT_EQ(compare(segment), 7u);
}

TEST_F(Memory, Copies) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "copies"});
  expect_status(0);
  EXPECT_EQ(compare(segment), 2u);
}

TEST_F(Memory, IsThereAfterTheProgramWasKilled) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "killed"});
  expect_status(SIGKILL);
  EXPECT_EQ(compare(segment), 8u);
  EXPECT_EQ(segment.memory.ended.load(), 0u);
}

// The changes in the ring, and those that found no room in it, add up to what lives.
TEST_F(Memory, ChangesAddUp) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "mappings"});
  auto* const ring = reinterpret_cast<wire::MemoryRing*>(
      const_cast<std::uint8_t*>(table<std::uint8_t>(segment, segment.memory_rings_offset)));
  ASSERT_EQ(segment.memory.events_lost.load(), 0u);
  std::map<std::uint32_t, std::int64_t> live;
  std::uint64_t last_ns = 0, out_of_order = 0;
  EXPECT_FALSE(wire::drain_memory_events(*ring, false, [&](auto time_ns, auto bytes, auto site) {
    live[site] += bytes;
    out_of_order += time_ns < last_ns ? 1 : 0;
    last_ns = time_ns;
  }));
  EXPECT_EQ(out_of_order, 0u);  // there is one thread
  const auto* const sites = table<wire::MemorySite>(segment, segment.memory_sites_offset);
  ASSERT_FALSE(live.empty());
  for (const auto& [site, bytes] : live)
    EXPECT_EQ(static_cast<std::uint64_t>(bytes),
              sites[site].alloc_bytes.load() - sites[site].freed_bytes.load());
}

// 8192 call paths are more than the table has places for; 1200 mappings are more than the list of them has.
TEST_F(Memory, WhatFindsNoRoomIsCounted) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "many"}, "", false);
  expect_status(0);
  const ProcessLog& process = outcome_.processes[0];
  EXPECT_EQ(process.drops(wire::DropReason::kMemoryPathRoomFull), 0u);
  const auto* const sites = table<wire::MemorySite>(segment, segment.memory_sites_offset);
  const std::uint64_t rest =
      sites[static_cast<std::uint32_t>(wire::MemoryDomain::kNative)].alloc_bytes.load();
  EXPECT_GT(rest, 100u << 20);
  EXPECT_NEAR(sums_of(segment, [](const auto&) { return true; })["native"].allocated, 8192.0 * (1 << 20), 3e6)
      << "all of it is somewhere";
  std::istringstream words(outcome_.output);
  std::string word;
  std::uint64_t begin = 0, end = 0;
  ASSERT_TRUE(words >> word >> begin >> end) << outcome_.output;
  const Sums mapped =
      sums_of(segment, [&](const auto& path) { return leads_through(path, begin, end); })["mmap"];
  const auto left_out = static_cast<double>(process.drops(wire::DropReason::kMemoryBlockTableFull));
  EXPECT_EQ(mapped.live + left_out * 65536, 1200.0 * 65536);
  EXPECT_GT(left_out, 150);
}

TEST_F(Memory, ProgramsMayRelyOnWhatTheyDid) {
  const Outcome bare = run_bare({CLUSTERPROF_TEST_MEMORY_C, "semantics"});
  EXPECT_EQ(bare.wait_status, 0) << bare.output;
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_C, "semantics"});
  expect_status(0);
  EXPECT_EQ(outcome_.output, bare.output);
  // Exit handlers come after the end.
  double live = 0;
  for (const auto& [domain, sum] : sums_of(segment, [](const auto&) { return true; })) live += sum.live;
  EXPECT_GT(live, 5 * 1048576 + 20'000'000 * 0.9);
  // Its children have made 2 MiB each, and what they freed of their parent's is not theirs.
  ASSERT_EQ(outcome_.processes.size(), 9u);
  for (std::size_t i = 1; i < outcome_.processes.size(); ++i) {
    double made = 0;
    for (const auto& [domain, sum] :
         sums_of(*outcome_.processes[i].segment, [](const auto&) { return true; })) {
      EXPECT_EQ(sum.live, sum.allocated);
      made += sum.allocated;
    }
    EXPECT_NEAR(made, 2 << 20, 200'000);
  }
}

TEST_F(Memory, OfFortran) {
  if (std::string(CLUSTERPROF_TEST_MEMORY_FORTRAN).empty()) GTEST_SKIP() << "there is no gfortran here";
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_FORTRAN});
  expect_status(0);
  double allocated = 0, live = 0;
  for (const auto& [domain, sum] : sums_of(segment, [](const auto&) { return true; })) {
    allocated += sum.allocated;
    live += sum.live;
  }
  // And what the run time has for itself.
  EXPECT_NEAR(allocated, 40e6, 300'000);
  EXPECT_NEAR(live, 16e6, 300'000);
}

TEST_F(Memory, SaysThatNothingIsInFrontOfMalloc) {
  outcome_ = run({CLUSTERPROF_TEST_MEMORY_C, "mappings"}, {"CLUSTERPROF_MEMORY=4096"});
  ASSERT_EQ(outcome_.processes.size(), 1u);
  EXPECT_EQ(outcome_.processes[0].segment->memory.notes.load(), wire::kNoMemoryWrap);
  EXPECT_EQ(outcome_.processes[0].segment->memory_sites, 0u);
}

TEST_F(Memory, LetsAllPassWithoutAnAgentThatRecords) {
  const std::string preloads = std::string(CLUSTERPROF_TEST_AGENT) + ":" + CLUSTERPROF_TEST_MEMORY;
  outcome_ = run({CLUSTERPROF_TEST_MEMORY_C, "semantics"},
                 {"LD_PRELOAD=" + preloads, std::string(wire::kSocketVariable) + "="});
  expect_status(0);
  EXPECT_TRUE(outcome_.processes.empty());
}

class MemoryOfPython : public Memory, public testing::WithParamInterface<const char*> {};

TEST_P(MemoryOfPython, IsTheObjects) {
  const std::string python = find_python(GetParam());
  if (python.empty()) GTEST_SKIP() << "there is no Python " << GetParam();
  const wire::SegmentHeader& segment = record({python, "-S", "-E", CLUSTERPROF_TEST_MEMORY_PYTHON});
  expect_status(0);
  EXPECT_EQ(segment.memory.notes.load() & (wire::kPythonNotSeen | wire::kPythonReplaced), 0u);
  const double interval = interval_of(segment);
  std::istringstream lines(outcome_.output);
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, function, domain;
    double live = 0;
    words >> word >> function >> domain >> live;
    if (word != "python") continue;
    ++compared;
    double all = 0;
    for (const auto& [name, sum] :
         sums_of(segment, [&](const auto& path) { return leads_through(segment, path, function); })) {
      all += sum.live;
      if (name == domain) {
        EXPECT_NEAR(sum.live, live, 5 * std::sqrt(interval * live) + 20'000) << line;
      }
    }
    // Nothing counts twice. The interpreter keeps track of its pools.
    EXPECT_NEAR(all, live, 5 * std::sqrt(interval * live) + 200'000) << line;
  }
  EXPECT_EQ(compared, 7u);
}
INSTANTIATE_TEST_SUITE_P(Versions, MemoryOfPython,
                         testing::Values("system", "3.8", "3.9", "3.10", "3.12", "3.13", "3.14", "3.15"),
                         [](const auto& version) {
                           std::string name = version.param;
                           for (char& c : name)
                             if (c == '.') c = '_';
                           return "Python" + name;
                         });

TEST_F(Memory, SaysThatPythonsAllocatorsWereReplaced) {
  const std::string python = find_python("system");
  setenv("PYTHONMALLOC", "debug", 1);
  const wire::SegmentHeader& segment = record({python, "-S", CLUSTERPROF_TEST_MEMORY_PYTHON});
  unsetenv("PYTHONMALLOC");
  expect_status(0);
  EXPECT_NE(segment.memory.notes.load() & wire::kPythonReplaced, 0u);
}

TEST_F(Memory, SaysThatTheProgramHasItsOwnMalloc) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_OWN});
  expect_status(0);
  EXPECT_NE(segment.memory.notes.load() & wire::kProgramsOwnMalloc, 0u);
}

TEST_F(Memory, SaysThatAnObjectCallsAnotherMalloc) {
  const wire::SegmentHeader& segment = record({CLUSTERPROF_TEST_MEMORY_DEEP, CLUSTERPROF_TEST_MEMORY_PLUGIN});
  expect_status(0);
  EXPECT_EQ(segment.memory.notes.load(), wire::kOtherMalloc);
}

}  // namespace
}  // namespace clusterprof::agent_test
