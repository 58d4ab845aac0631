// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/source.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// An open profile: parts of it, each without the rest. Results are checked
// (checksums, indices within their tables); errors are one line that begins with the path. Not thread-safe.
class ProfileReader {
 public:
  [[nodiscard]] static Result<ProfileReader> open(const std::filesystem::path& path);
  ProfileReader(ProfileReader&&) noexcept;
  ProfileReader& operator=(ProfileReader&&) noexcept;
  ~ProfileReader();

  // All but the matrix tables. Read once and kept.
  [[nodiscard]] Result<const shard::ShardData*> head();
  // What rows of call paths refer to, and the communication matrix: tables run, nodes, ranks, strings,
  // frames, paths, counters, matrix alone. Read once and kept.
  [[nodiscard]] Result<const shard::ShardData*> paths_head();
  // Tables run, nodes and ranks (and strings) alone.
  [[nodiscard]] Result<shard::ShardData> summary();

  // To be taken for the user's own code besides what the file says (Run::own), in heads that are read from
  // now on.
  void add_own(std::vector<std::string> paths);

  // Rows of one node, of one rank, sorted as the block is: by path, rank, ...
  [[nodiscard]] Result<shard::MatrixRows> node(std::uint32_t node_row);
  [[nodiscard]] Result<shard::MatrixRows> rank(std::uint32_t rank_row);
  // Values of one node without their samples (0), sorted by rank, path, ... Several threads may call this at
  // the same time.
  [[nodiscard]] Result<std::vector<shard::Value>> times(std::uint32_t node_row);
  // Rows of the call paths first_path up to, not including, end_path (a subtree is such a range) on all
  // nodes: reads of every node's block the chunks that they lie in. Sorted by node, path, rank, ...
  [[nodiscard]] Result<shard::MatrixRows> paths(std::uint32_t first_path, std::uint32_t end_path);
  // The same, a node at a time: of large subtrees there may be more rows than fit into memory.
  [[nodiscard]] Result<void> paths(std::uint32_t first_path, std::uint32_t end_path,
                                   const std::function<void(const shard::MatrixRows&)>& use);

  [[nodiscard]] Result<PathStatisticsTable> statistics();
  [[nodiscard]] Result<std::vector<Source>> sources();
  // ProfileWriter::Rest::report; empty when the file has none.
  [[nodiscard]] Result<std::vector<std::byte>> report();

  // The block of a node with other numbers, given by the old ones; those that the block does not have may be
  // anything. What encode_block() makes of the renumbered rows, but where numbers keep their order the rows'
  // chunks are taken over as they are, without being looked at: damage to them is found by those that read
  // them.
  [[nodiscard]] Result<EncodedBlock> encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                                   std::span<const std::uint32_t> new_path,
                                                   std::span<const std::uint32_t> new_rank,
                                                   std::span<const std::uint32_t> new_counter);

  // All ranks, a node at a time. The reader must outlive it. What it throws begins with the path.
  [[nodiscard]] std::unique_ptr<shard::RowSource> rows();

 private:
  struct State;
  explicit ProfileReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Everything in memory, values and all by (rank, path, ...). Of a large run that is much.
Result<shard::ShardData> read_profile(const std::filesystem::path& path);
Result<shard::ShardData> read_profile_summary(const std::filesystem::path& path);
Result<PathStatisticsTable> read_path_statistics(const std::filesystem::path& path);
Result<std::vector<Source>> read_sources(const std::filesystem::path& path);

// Reads everything once, a node at a time, and checks that the statistics are those of the rows.
Result<void> check_profile(const std::filesystem::path& path);

}  // namespace clusterprof::profile
