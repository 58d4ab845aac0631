// SPDX-License-Identifier: BSD-3-Clause
// The checkpoints of the nodes of one job against a file server that takes its time for every operation
// (file_server.c, which is linked in). Each node is a thread with the collector's own schedule
// (CheckpointTimes), name (ShardName) and file (TwoCopies); its shard is BYTES long and grows a little.
// Nothing else of a collector runs.
//
//   checkpoint_load DIRECTORY NODES SECONDS BYTES DELAY_US AGE_S
//
// Prints a line of JSON: operations by kind and per second, the busiest tenth of a second, and how long
// checkpoints took.
#include <fmt/format.h>
#include <pthread.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collector/loop/checkpointer.hpp"
#include "collector/shard/shard_name.hpp"
#include "formats/shard/two_copies.hpp"

extern "C" {
unsigned long file_server_count(int operation);
const char* file_server_name(int operation);
void file_server_begin(const char* directory, long delay_us);
}

namespace {

using namespace clusterprof;
using Clock = std::chrono::steady_clock;
using std::chrono::duration;

std::atomic<bool> failed{false};
std::mutex results;
std::vector<double> took_s;   // of all checkpoints
std::vector<double> begun_s;  // when, since the start

unsigned long all_operations() {
  unsigned long sum = 0;
  for (int i = 0; file_server_name(i) != nullptr; ++i) sum += file_server_count(i);
  return sum;
}

void run_node(const collector::ShardPlace& place, int age_s, std::size_t bytes, Clock::time_point start,
              double seconds) {
  collector::ShardName name(place);
  shard::TwoCopies copies(name.path(), name.claim(), name.take_file());
  const collector::CheckpointTimes times{std::chrono::seconds(age_s), collector::checkpoint_phase(place.node),
                                         place.nodes};
  std::vector<std::byte> image(bytes, std::byte{1});
  collector::CheckpointSchedule schedule(times);
  schedule.begin(Clock::now());
  const auto end = start + duration<double>(seconds);
  const auto write = [&](bool last) {
    const auto begin = Clock::now();
    if (!copies.write(image, last)) failed = true;
    name.became_shard();
    const auto took = Clock::now() - begin;
    const std::lock_guard lock(results);
    took_s.push_back(duration<double>(took).count());
    begun_s.push_back(duration<double>(begin - start).count());
    return took;
  };
  while (Clock::now() < end) {
    if (schedule.is_due(Clock::now())) {
      schedule.begin(Clock::now());
      schedule.wrote(write(false));
      image.resize(image.size() + 16, std::byte{1});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // as a collector looks at its rings
  }
  (void)write(true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: checkpoint_load DIRECTORY NODES SECONDS BYTES DELAY_US AGE_S\n");
    return 2;
  }
  const std::string directory = std::filesystem::absolute(argv[1]).string();
  const auto nodes = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const double seconds = std::atof(argv[3]);
  const auto bytes = static_cast<std::size_t>(std::atol(argv[4]));
  file_server_begin(directory.c_str(), std::atol(argv[5]));
  const int age_s = std::atoi(argv[6]);
  const auto start = Clock::now();
  std::vector<std::thread> threads;
  for (std::uint32_t node = 0; node < nodes; ++node)
    threads.emplace_back(run_node, collector::ShardPlace{directory, fmt::format("n{:04}", node), nodes},
                         age_s, bytes, start, seconds);
  // From the first checkpoint of the last node to the end.
  std::this_thread::sleep_until(start + std::chrono::seconds(6));
  const unsigned long before = all_operations();
  const auto from = Clock::now();
  std::this_thread::sleep_until(start + duration<double>(seconds));
  const double measured_s = duration<double>(Clock::now() - from).count();
  const double per_second = static_cast<double>(all_operations() - before) / measured_s;
  for (std::thread& thread : threads) thread.join();
  if (failed) {
    std::fprintf(stderr, "a checkpoint could not be written\n");
    return 1;
  }
  std::vector<int> slices(static_cast<std::size_t>(seconds * 10) + 20);
  std::size_t in_steady_state = 0;
  for (const double at : begun_s) {
    if (at < seconds) ++slices[std::min(slices.size() - 1, static_cast<std::size_t>(at * 10))];
    if (at >= 6 && at < seconds) ++in_steady_state;
  }
  std::sort(took_s.begin(), took_s.end());
  std::string counts;
  for (int i = 0; file_server_name(i) != nullptr; ++i)
    counts += fmt::format("{}\"{}\": {}", i == 0 ? "" : ", ", file_server_name(i), file_server_count(i));
  fmt::print(
      "{{\"nodes\": {}, \"checkpoints\": {}, \"per_second\": {:.1f}, \"checkpoints_per_second\": {:.1f}, "
      "\"busiest_tenth\": {}, \"median_s\": {:.4f}, \"longest_s\": {:.4f}, \"counts\": {{{}}}}}\n",
      nodes, took_s.size(), per_second, static_cast<double>(in_steady_state) / measured_s,
      *std::max_element(slices.begin(), slices.end()), took_s[took_s.size() / 2], took_s.back(), counts);
}
