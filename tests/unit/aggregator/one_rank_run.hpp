// SPDX-License-Identifier: BSD-3-Clause
// The shard of one rank without MPI: call paths, and what samples at 100 Hz say of them.
#pragma once

#include <cstdint>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::aggregator::test {

struct OneRankRun {
  explicit OneRankRun(std::uint64_t elapsed_ms) {
    data.run.id = "made";
    data.run.rate_hz = 100;
    data.nodes.resize(1);
    data.nodes[0].name = "n";
    shard::Rank rank;
    rank.start_utc_ns = 1'700'000'000'000'000'000;
    rank.elapsed_ns = elapsed_ms * kMs_ns;
    rank.threads = 1;
    data.ranks = {rank};
  }

  std::uint32_t path(std::uint32_t parent, shard::FrameKind kind, const char* name, const char* file,
                     std::uint32_t line) {
    shard::PathInterner interner(data);
    shard::Frame frame;
    frame.kind = kind;
    frame.name = interner.string(name), frame.file = interner.string(file), frame.line = line;
    return interner.path(parent, interner.frame(frame));
  }

  void time(std::uint32_t at, std::uint64_t ms, shard::Category category = shard::Category::kNative) {
    data.values.push_back({0, at, category, true, ms * kMs_ns, 0, ms / 10});
  }

  static constexpr std::uint64_t kMs_ns = 1'000'000;
  shard::ShardData data;
};

}  // namespace clusterprof::aggregator::test
