// SPDX-License-Identifier: BSD-3-Clause
// What the collector spends per sample: feeds a ring with mixed stacks of 85 words, 300 different ones whose
// leaf moves within a loop, and drains it.
//
//   cmake --preset release -DCLUSTERPROF_BUILD_BENCHMARKS=ON && cmake --build build/release -t collector_cost
//   build/release/bench/collector_cost
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "collector/process/process_recorder.hpp"
#include "tests/unit/collector/fake_segment.hpp"

namespace {

using namespace clusterprof;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStacks = 300, kLeaves = 16, kSamplesPerRound = 300, kRounds = 2000;
constexpr std::uint64_t kBase = 0x7f00'0000'0000, kModuleBytes = 0x20'0000;

std::uint64_t next_random() {
  static std::uint64_t state = 1;
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return state >> 33;
}

// 37 native frames and 24 of Python's, as the agent merges them.
std::vector<std::uint64_t> make_stack() {
  std::vector<std::uint64_t> words;
  const auto native = [&] { words.push_back(kBase + next_random() % (40 * kModuleBytes)); };
  for (int i = 0; i < 13; ++i) native();
  for (int i = 0; i < 24; ++i) {
    words.push_back(test::python_word(static_cast<std::uint32_t>(next_random() % 50)));
    words.push_back(1 + next_random() % 20);
    native();
  }
  return words;
}

double nanoseconds_per_sample(bool same_stack) {
  test::FakeSegment segment;
  for (std::uint64_t m = 0; m < 40; ++m) {
    const std::uint64_t start = kBase + m * kModuleBytes;
    segment.module(m == 0 ? "/usr/bin/python3.11" : "/usr/lib/lib" + std::to_string(m) + ".so", start,
                   start + kModuleBytes, start);
  }
  for (std::uint64_t code = 1; code <= 20; ++code)
    segment.code(code, "program.py", "function" + std::to_string(code),
                 static_cast<std::uint32_t>(10 * code));
  segment.thread(0, 100, test::FakeSegment::kStart, true);
  auto view = collector::SegmentView::open(segment.file(), segment.bytes());
  if (!view.ok()) {
    std::fprintf(stderr, "%s\n", view.error().message.c_str());
    std::exit(1);
  }
  collector::RawStore store;
  collector::TimeGrid grid;
  grid.begin(test::FakeSegment::kStart, 1'700'000'000'000'000'000);
  collector::PathTimes path_times(store);
  collector::ProcessRecorder recorder(std::move(view).value(), store, grid, path_times);

  std::vector<std::vector<std::uint64_t>> stacks;
  for (std::size_t i = 0; i < kStacks; ++i) stacks.push_back(make_stack());
  std::uint64_t now = test::FakeSegment::kStart, cpu = 0;
  Clock::duration spent{};
  for (std::size_t round = 0; round < kRounds + 10; ++round) {
    if (round == 10) spent = {};  // warm
    for (std::size_t i = 0; i < kSamplesPerRound; ++i) {
      test::FakeSegment::Sample sample;
      sample.words = stacks[same_stack ? 0 : next_random() % kStacks];
      sample.words[0] += next_random() % kLeaves;
      sample.time_ns = now += 100'000;
      sample.cpu_ns = cpu += 100'000;
      sample.handler_ns = 1500;
      sample.system_ns = cpu / 50;
      sample.page_faults = 1;
      if (!segment.sample(0, sample)) std::exit(2);
    }
    const Clock::time_point begin = Clock::now();
    recorder.poll(now);
    spent += Clock::now() - begin;
  }
  const double ns = std::chrono::duration<double, std::nano>(spent).count();
  return ns / static_cast<double>(kRounds * kSamplesPerRound);
}

}  // namespace

int main() {
  for (const bool same : {true, false}) {
    std::vector<double> results;
    for (int i = 0; i < 5; ++i) results.push_back(nanoseconds_per_sample(same));
    std::sort(results.begin(), results.end());
    std::printf("%-32s %7.0f ns per sample (median of 5, least %.0f)\n",
                same ? "one stack, 16 leaves" : "300 stacks, 16 leaves each", results[2], results[0]);
  }
}
