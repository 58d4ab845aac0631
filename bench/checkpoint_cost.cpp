// SPDX-License-Identifier: BSD-3-Clause
// What one checkpoint of the collector costs: for a node whose ranks have many call paths, the CPU time of
// the snapshot (rings are not drained meanwhile), of giving names to what is in it and of writing the shard;
// how long the write takes, how many bytes it has, and the memory of it all.
//
//   cmake --preset release -DCLUSTERPROF_BUILD_BENCHMARKS=ON && cmake --build build/release -t
//   checkpoint_cost build/release/bench/checkpoint_cost [DIRECTORY [RANKS [SAMPLES [KIND [THREADS
//   [MAX_MB]]]]]]
//
// SAMPLES: of each thread. KIND "usual": each is a call path of its own, which other ranks have, too.
// "search": of a function that calls itself in two places, 8 to 40 deep: nearly every one is a call path that
// no other rank has, until the collector has as many as it keeps (StoreLimits). THREADS: of each rank, all of
// which run. MAX_MB: what the collector does at --max-memory, after every 16 samples as once a second at 16
// Hz.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/node/node_state.hpp"
#include "collector/os/memory_limit.hpp"
#include "collector/shard/shard_builder.hpp"
#include "formats/shard/shard_writer.hpp"
#include "formats/shard/two_copies.hpp"
#include "tests/unit/collector/fake_segment.hpp"

namespace {

using namespace clusterprof;

constexpr std::size_t kCheckpoints = 9;
constexpr std::uint64_t kBase = 0x7f00'0000'0000, kModuleBytes = 0x20'0000, kModules = 40;
constexpr std::uint64_t kPeriod_ns = 10'000'000;

struct Cost {
  std::vector<double> cpu_ms, wall_ms;
};

double cpu_ms() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}

double wall_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Work>
auto measured(Cost& cost, Work work) {
  const double cpu = cpu_ms(), wall = wall_ms();
  auto result = work();
  cost.cpu_ms.push_back(cpu_ms() - cpu);
  cost.wall_ms.push_back(wall_ms() - wall);
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const char* what, const Cost& cost) {
  std::printf("%-32s CPU %6.1f ms, elapsed %6.1f ms\n", what, median(cost.cpu_ms), median(cost.wall_ms));
}

// A stack of 20 frames that is one in `paths`: a tree that is wide at its end.
std::vector<std::uint64_t> stack(std::uint64_t path) {
  std::vector<std::uint64_t> words;
  for (std::uint64_t depth = 0; depth < 20; ++depth) {
    const std::uint64_t which = depth < 4 ? path : depth < 12 ? path / 16 : 0;
    words.push_back(kBase + (which * 977 + depth * 13'007) % (kModules * kModuleBytes));
  }
  return words;
}

std::vector<std::uint64_t> search(std::mt19937_64& random) {
  std::vector<std::uint64_t> words{kBase + 0x100 + random() % 16 * 4};
  std::uint64_t ways = random();
  for (std::uint64_t depth = 8 + random() % 32; depth > 0; --depth, ways /= 2)
    words.push_back(kBase + 0x200 + ways % 2 * 64);
  for (std::uint64_t depth = 0; depth < 4; ++depth) words.push_back(kBase + 0x400 + depth * 64);
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const auto number = [&](int i, std::uint32_t otherwise) {
    return argc > i ? static_cast<std::uint32_t>(std::strtoul(argv[i], nullptr, 10)) : otherwise;
  };
  const fs::path directory = argc > 1 ? argv[1] : ".";
  const std::uint32_t ranks = number(2, 64), paths = number(3, 2000);
  const bool searches = argc > 4 && std::string_view(argv[4]) == "search";
  const std::uint32_t threads = number(5, 1);
  const std::uint64_t max_memory_bytes = std::uint64_t{number(6, 0)} << 20;
  std::mt19937_64 random(1);

  collector::NodeOptions options;
  options.node_name = "bench";
  options.world_size = ranks;
  options.rate_hz = 100;
  options.max_memory_bytes = max_memory_bytes;
  collector::NodeState state(options);
  std::vector<std::unique_ptr<test::FakeSegment>> segments;
  std::uint64_t now = test::FakeSegment::kStart;
  const auto instant = [&] { return collector::Instant{now, static_cast<std::int64_t>(now)}; };
  state.begin(instant());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    test::FakeSegment& segment =
        *segments.emplace_back(std::make_unique<test::FakeSegment>(true, std::max(4u, threads)));
    segment.header().pid = static_cast<std::int32_t>(1000 + rank);
    segment.header().rank = static_cast<std::int32_t>(rank);
    for (std::uint64_t m = 0; m < kModules; ++m) {
      const std::uint64_t start = kBase + m * kModuleBytes;
      segment.module("/opt/bench/lib" + std::to_string(m) + ".so", start, start + kModuleBytes, start);
    }
    for (std::uint32_t thread = 0; thread < threads; ++thread)
      segment.thread(thread, static_cast<std::int32_t>(1000 + rank + thread * ranks), now, thread == 0);
    auto view = collector::SegmentView::open(segment.file(), segment.bytes());
    if (!view.ok()) {
      std::fprintf(stderr, "%s\n", view.error().message.c_str());
      return 3;
    }
    const auto pid = static_cast<std::int32_t>(1000 + rank);
    const auto process = state.announce(std::nullopt, static_cast<std::int32_t>(rank),
                                        static_cast<std::int32_t>(ranks), pid, instant());
    (void)state.hello(process, pid, std::move(view).value(), instant());
  }
  std::uint64_t cpu = 0, samples = 0;
  double draining_ms = 0;
  bool is_closed = false;
  const auto drain = [&] {
    const double begin = cpu_ms();
    (void)state.poll(now);
    draining_ms += cpu_ms() - begin;
  };
  for (std::uint32_t i = 0; i < paths; ++i) {
    now += kPeriod_ns;
    cpu += kPeriod_ns - 1000 - i % 7919;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      test::FakeSegment::Sample sample;
      sample.words = searches ? search(random) : stack((i + 3ull * rank) % (paths + 3ull * ranks));
      sample.time_ns = now + (i * 7919ull + rank * 104'729ull) % 100'000;
      sample.cpu_ns = cpu;
      sample.handler_ns = 1500;
      for (std::uint32_t thread = 0; thread < threads; ++thread, ++samples) {
        if (searches && thread > 0) sample.words = search(random);
        if (!segments[rank]->sample(thread, sample)) return 2;
      }
    }
    if (i % 16 == 15) {
      drain();
      const auto own = static_cast<double>(collector::own_memory_bytes());
      if (max_memory_bytes != 0 && own * 1.6 > static_cast<double>(max_memory_bytes)) {
        state.save_memory(shard::NoteCode::kMemoryBound, max_memory_bytes);
        is_closed = true;
      }
    }
  }
  drain();
  const double before_MB = static_cast<double>(collector::own_memory_bytes()) / 1e6;

  collector::ShardBuilder builder;
  const fs::path path = directory / "checkpoint_cost.h5";
  shard::TwoCopies copies(path, directory / "checkpoint_cost.new");
  double most_MB = 0;
  Cost snapshots, builds, writes;
  shard::ShardData data;
  for (std::size_t i = 0; i < kCheckpoints; ++i) {
    const collector::NodeSnapshot snapshot =
        measured(snapshots, [&] { return state.snapshot(instant(), false, collector::Events::kFew); });
    data = measured(builds, [&] { return builder.build(snapshot); });
    const Result<void> written = measured(writes, [&]() -> Result<void> {
      const auto image = shard::shard_image(data, path);
      most_MB = std::max(most_MB, static_cast<double>(collector::own_memory_bytes()) / 1e6);
      return image ? copies.write(image.value(), false) : image.error();
    });
    if (!written) {
      std::fprintf(stderr, "%s\n", written.error().message.c_str());
      return 3;
    }
  }
  std::printf("%zu ranks, %zu call paths, %zu values: a shard of %.2f MB; medians of %zu checkpoints\n",
              data.ranks.size(), data.paths.size(), data.values.size(),
              static_cast<double>(shard::shard_image(data, path).value().size()) / 1e6, kCheckpoints);
  std::printf("memory without that of the ranks: %.0f MB between checkpoints, %.0f MB in them%s\n", before_MB,
              most_MB, is_closed ? "; the tables were closed" : "");
  std::printf("%.1f million samples: %.2f us of CPU time each\n", static_cast<double>(samples) / 1e6,
              draining_ms * 1e3 / static_cast<double>(samples));
  print("snapshot, rings wait", snapshots);
  print("names, but for the first time", builds);
  print("shard, with fsync", writes);
  fs::remove(path);
}
