// SPDX-License-Identifier: BSD-3-Clause
// Valid shards with arbitrary content, for property tests, and a directory to put them in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include "formats/shard/shard_data.hpp"

namespace clusterprof::testing {

struct RandomShape {
  std::uint32_t node = 0;           // its name
  std::vector<std::int32_t> ranks;  // world ranks
  std::uint32_t paths = 60;         // tries, duplicates included
  std::uint32_t values_per_rank = 40;
  std::uint32_t names = 25;  // fewer: more call paths in common with other shards
  bool waiting = true;       // MPI events, and an analysis of waiting
};

// Every table has rows and every field some value, odd ones included (bytes that are no UTF-8,
// empty strings, largest integers). Tables by rank are sorted. The same seed and shape give
// the same shard.
shard::ShardData random_shard(std::uint64_t seed, const RandomShape& shape);

// A new empty directory that goes away with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<std::uint8_t> read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes);

}  // namespace clusterprof::testing
