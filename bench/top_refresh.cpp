// SPDX-License-Identifier: BSD-3-Clause
// How long `clusterprof top` takes for one refresh of a large job: reads the live files of all nodes, unites
// them, looks for a hang, and draws the smallest screen.
//
//   top_refresh DIRECTORY [RANKS_PER_NODE NODES]     default 64 x 157
//
// All ranks but one wait in a barrier; each node has 500 call paths with time. Prints the median and the
// longest of 9 refreshes by elapsed and by CPU time, and the size of a live file.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/analyze/live_run.hpp"
#include "formats/run/run_control.hpp"
#include "formats/shard/live_state.hpp"
#include "report/tui/top_screen.hpp"

namespace {

using namespace clusterprof;
using std::chrono::duration;

constexpr std::uint32_t kPaths = 500, kDepth = 12;
constexpr std::uint64_t kSecond_ns = 1'000'000'000;
constexpr int kRefreshes = 9;

std::int64_t begin_utc_ns = 0;

shard::LiveState state_of(std::uint32_t node, std::uint32_t per_node, std::uint32_t nodes,
                          std::uint64_t second) {
  shard::LiveState state;
  state.sequence = second;
  state.watch = 1;
  state.memory_used_bytes = 100 * kSecond_ns;
  state.memory_limit_bytes = 128 * kSecond_ns;
  shard::ShardData& data = state.data;
  data.run.id = "clusterprof-solver-4711";
  data.run.command = {"./solver"};
  data.run.clock = "wall";
  data.run.rate_hz = 100;
  data.run.start_utc_ns = begin_utc_ns;
  data.run.world_size = per_node * nodes;
  shard::Node row;
  row.name = "n" + std::to_string(1000 + node);
  row.start_utc_ns = begin_utc_ns;
  row.elapsed_ns = (100 + second) * kSecond_ns;
  row.as_of_utc_ns = begin_utc_ns + static_cast<std::int64_t>(row.elapsed_ns);
  row.next_within_ns = 2 * kSecond_ns;
  data.nodes = {row};
  shard::PathInterner interner(data);
  const auto frame = [&](const std::string& name, std::uint32_t line) {
    shard::Frame made;
    made.name = interner.string(name);
    made.file = interner.string("/home/user/solver/" + name + ".f90");
    made.module = interner.string("/home/user/solver/solver");
    made.line = line;
    made.function_line = 1;
    return interner.frame(made);
  };
  std::uint32_t caller = 0;
  for (std::uint32_t i = 0; i < kDepth; ++i)
    caller = interner.path(caller, frame("level" + std::to_string(i), 10));
  for (std::uint32_t i = 0; i < kPaths; ++i) {
    const std::uint32_t path = interner.path(caller, frame("kernel" + std::to_string(i % 50), i));
    state.times.push_back({path, shard::Category::kNative, (second + i) * 1'000'000});
  }
  shard::Frame barrier;
  barrier.kind = shard::FrameKind::kMpi;
  barrier.name = interner.string("MPI_Barrier");
  const std::uint32_t in_barrier = interner.path(caller, interner.frame(barrier));
  data.communicators = {{1, per_node * nodes, "MPI_COMM_WORLD"}};
  for (std::uint32_t r = 0; r < per_node; ++r) {
    shard::Rank rank;
    rank.rank = static_cast<std::int32_t>(node * per_node + r);
    rank.pid = static_cast<std::int32_t>(5000 + r);
    rank.flags = shard::kUsedMpi | shard::kStillRan | shard::kLost;
    rank.start_utc_ns = begin_utc_ns;
    rank.elapsed_ns = row.elapsed_ns;
    rank.samples = 100 * (100 + second);
    rank.main_thread_ns[static_cast<std::size_t>(shard::Category::kNative)] = rank.elapsed_ns / 2;
    rank.main_thread_ns[static_cast<std::size_t>(shard::Category::kMpi)] = rank.elapsed_ns / 2;
    rank.mpi_ns = rank.elapsed_ns / 2;
    data.ranks.push_back(rank);
    data.collective_counts.push_back({r, 0, 0, 7});
    shard::Thread thread;
    thread.rank = r;
    thread.pid = thread.tid = rank.pid;
    thread.kind = shard::ThreadKind::kMain;
    thread.flags = shard::Thread::kRuns;
    thread.last_path = caller;
    thread.start_utc_ns = begin_utc_ns;
    thread.elapsed_ns = rank.elapsed_ns;
    data.threads.push_back(thread);
    state.rss_bytes.push_back(2 * kSecond_ns + r);
    if (rank.rank == 17) continue;
    shard::CallUnderWay call;
    call.rank = r;
    call.tid = rank.pid;
    call.path = in_barrier;
    call.communicator = 0;
    call.sequence = 7;
    call.lasted_ns = (20 + second) * kSecond_ns;
    data.calls_under_way.push_back(call);
  }
  return state;
}

double cpu_s() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: top_refresh DIRECTORY [RANKS_PER_NODE NODES]\n");
    return 2;
  }
  const std::string run = argv[1];
  const auto per_node = static_cast<std::uint32_t>(argc == 4 ? std::atoi(argv[2]) : 64);
  const auto nodes = static_cast<std::uint32_t>(argc == 4 ? std::atoi(argv[3]) : 157);
  std::filesystem::create_directories(run);
  begin_utc_ns = unix_now_ns() - 110 * static_cast<std::int64_t>(kSecond_ns);
  cli::LiveRun live(run, run);
  if (!live.watch()) return 1;
  report::TopScreen screen;
  std::vector<double> elapsed_s, used_s;
  std::size_t bytes = 0;
  for (std::uint64_t second = 1; second <= kRefreshes + 3; ++second) {
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const auto image = shard::encode_live(state_of(node, per_node, nodes, second));
      bytes = image.size();
      if (!write_live(run, "n" + std::to_string(1000 + node), image)) return 1;
    }
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_begin = cpu_s();
    Result<report::Top> top = live.look();
    if (!top) {
      std::fprintf(stderr, "%s\n", top.error().message.c_str());
      return 1;
    }
    screen.update(std::move(top).value());
    const std::size_t lines = screen.draw(60, 20).size();
    if (lines != 20) return 1;
    if (second <= 3) continue;  // without anything to compare with
    elapsed_s.push_back(duration<double>(std::chrono::steady_clock::now() - begin).count());
    used_s.push_back(cpu_s() - cpu_begin);
  }
  const auto show = [](const char* what, std::vector<double> s) {
    std::sort(s.begin(), s.end());
    std::printf("%s: median %.0f ms, longest %.0f ms\n", what, 1000 * s[s.size() / 2], 1000 * s.back());
  };
  std::printf("%u ranks on %u nodes, %zu bytes per live file\n", per_node * nodes, nodes, bytes);
  show("elapsed", elapsed_s);
  show("CPU", used_s);
  return 0;
}
