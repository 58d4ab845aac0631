// SPDX-License-Identifier: BSD-3-Clause
// How long `clusterprof stacks` takes for a large job that hangs: reads the shards of all nodes, looks for the
// hang, and prints JSON.
//
//   stacks_speed DIRECTORY [RANKS_PER_NODE NODES]     default 64 x 157
//
// The shards are those of synthetic runs (formats/synth), with call paths, series and counters. All ranks but
// one wait in a barrier, which one is asleep; each has two more threads, which are blocked at places of their
// own. Prints the size of the shards, and the median and the longest of 5 times.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/analyze/stacks.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/synth/synthetic_run.hpp"

namespace {

using namespace clusterprof;

constexpr std::uint64_t kWaited_ns = 20'000'000'000;
constexpr std::int32_t kAsleepRank = 17;
constexpr std::uint32_t kOperation = 7;
constexpr int kRounds = 5;

void let_it_hang(shard::ShardData& data) {
  shard::PathInterner interner(data);
  const auto path = [&](const std::string& name, shard::FrameKind kind) {
    shard::Frame function;
    function.name = interner.string("main");
    shard::Frame leaf;
    leaf.kind = kind;
    leaf.name = interner.string(name);
    leaf.file = function.file = interner.string("/home/user/solver/main.cpp");
    leaf.module = function.module = interner.string("/home/user/solver/solver");
    leaf.line = function.line = 57;
    return interner.path(interner.path(0, interner.frame(function)), interner.frame(leaf));
  };
  const std::uint32_t in_barrier = path("MPI_Barrier", shard::FrameKind::kMpi);
  const std::uint32_t asleep = path("be_asleep", shard::FrameKind::kNative);
  data.run.complete = false;
  data.calls_under_way.clear();
  data.collective_counts.clear();
  data.threads.clear();
  for (std::uint32_t r = 0; r < data.ranks.size(); ++r) {
    const shard::Rank& rank = data.ranks[r];
    const bool waits = rank.rank != kAsleepRank;
    data.collective_counts.push_back({r, 0, 0, waits ? kOperation + 1 : kOperation});
    for (std::int32_t i = 0; i < 3; ++i) {
      shard::Thread thread;
      thread.rank = r;
      thread.pid = rank.pid;
      thread.tid = rank.pid + i;
      thread.kind = i == 0 ? shard::ThreadKind::kMain : shard::ThreadKind::kNative;
      thread.flags = shard::Thread::kRuns;
      thread.last_path = i == 0 ? (waits ? in_barrier : asleep)
                                : path("wait_for_work" + std::to_string(rank.rank % 50), shard::FrameKind::kNative);
      thread.last_category = i == 0 && waits ? shard::Category::kMpi : shard::Category::kIdle;
      thread.start_utc_ns = rank.start_utc_ns;
      thread.elapsed_ns = rank.elapsed_ns;
      thread.unmoved_ns = kWaited_ns;
      data.threads.push_back(thread);
    }
    if (!waits) continue;
    shard::CallUnderWay call;
    call.rank = r;
    call.tid = rank.pid;
    call.path = in_barrier;
    call.communicator = 0;
    call.sequence = kOperation;
    call.lasted_ns = kWaited_ns;
    data.calls_under_way.push_back(call);
  }
}

// Seconds; below 0: it failed.
double time_of_stacks(const std::string& run) {
  std::fflush(stdout);
  const int before = ::dup(STDOUT_FILENO), null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null, STDOUT_FILENO);
  const auto begin = std::chrono::steady_clock::now();
  const int status = cli::stacks({run, true});
  std::fflush(stdout);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  ::close(null);
  return status == 0 ? took.count() : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: stacks_speed DIRECTORY [RANKS_PER_NODE NODES]\n");
    return 2;
  }
  const std::string run = argv[1];
  synth::Shape shape;
  shape.ranks_per_node = static_cast<std::uint32_t>(argc == 4 ? std::atoi(argv[2]) : 64);
  shape.nodes = static_cast<std::uint32_t>(argc == 4 ? std::atoi(argv[3]) : 157);
  shape.paths = 20'000;
  shape.paths_per_rank = 500;
  std::filesystem::create_directories(run);
  const synth::SyntheticRun synthetic(shape);
  std::uintmax_t bytes = 0;
  for (std::uint32_t node = 0; node < shape.nodes; ++node) {
    shard::ShardData data = synthetic.shard(node);
    let_it_hang(data);
    const std::filesystem::path path = run + "/node-" + data.nodes[0].name + ".h5";
    if (const Result<void> written = shard::write_shard(data, path); !written) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 1;
    }
    bytes += std::filesystem::file_size(path);
  }
  std::vector<double> took_s;
  for (int round = 0; round < kRounds; ++round) took_s.push_back(time_of_stacks(run));
  std::sort(took_s.begin(), took_s.end());
  if (took_s.front() < 0) return 1;
  std::printf("%u ranks on %u nodes, shards of %.0f MB in all\nclusterprof stacks --json: median %.2f s, longest %.2f s\n",
              shape.ranks_per_node * shape.nodes, shape.nodes, static_cast<double>(bytes) / 1e6,
              took_s[took_s.size() / 2], took_s.back());
  return 0;
}
