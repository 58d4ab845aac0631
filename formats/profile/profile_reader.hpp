// SPDX-License-Identifier: BSD-3-Clause
// Opens a profile and reads parts of it.
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
#include "formats/profile/gains.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/node_times.hpp"
#include "formats/profile/path_statistics.hpp"
#include "formats/profile/source.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// An open profile. Each function reads one part and checks it: checksums, and that indices are in range.
// Errors have one line that begins with the path. Not thread-safe, except where a function says so.
class ProfileReader {
 public:
  [[nodiscard]] static Result<ProfileReader> open(const std::filesystem::path& path);
  ProfileReader(ProfileReader&&) noexcept;
  ProfileReader& operator=(ProfileReader&&) noexcept;
  ~ProfileReader();

  // All tables but the matrix tables (values, path_counters, data_accesses). Read once and kept.
  [[nodiscard]] Result<const shard::ShardData*> head();
  // The tables that rows of call paths refer to, and the communication matrix: run, nodes, ranks, strings,
  // frames, paths, counters and matrix. Read once and kept.
  [[nodiscard]] Result<const shard::ShardData*> paths_head();
  // The tables run, nodes, ranks and strings.
  [[nodiscard]] Result<shard::ShardData> summary();

  // Adds paths of the user's own code to those in the file (Run::own). Affects heads that are read after
  // this.
  void add_own(std::vector<std::string> paths);

  // The rows of one node or of one rank, sorted as the block is: by path, rank, ...
  [[nodiscard]] Result<shard::MatrixRows> node(std::uint32_t node_row);
  [[nodiscard]] Result<shard::MatrixRows> rank(std::uint32_t rank_row);
  // Several threads may call this at the same time.
  [[nodiscard]] Result<NodeTimes> times(std::uint32_t node_row);
  // The rows of the call paths from first_path up to, not including, end_path (a subtree is such a range) on
  // all nodes. Reads only the chunks that they are in. Sorted by node, path, rank, ...
  [[nodiscard]] Result<shard::MatrixRows> paths(std::uint32_t first_path, std::uint32_t end_path);
  // The same, one node at a time, because the rows of a large subtree may not fit into memory.
  [[nodiscard]] Result<void> paths(std::uint32_t first_path, std::uint32_t end_path,
                                   const std::function<void(const shard::MatrixRows&)>& use);

  [[nodiscard]] Result<PathStatisticsTable> statistics();
  [[nodiscard]] Result<std::vector<Source>> sources();
  // ProfileWriter::Rest::report; empty when the file has none.
  [[nodiscard]] Result<std::vector<std::byte>> report();
  // Empty when the file has none.
  [[nodiscard]] Result<std::optional<Gains>> gains();

  // The block of a node, renumbered for another profile: new_path[old] is the new number of a path, and so
  // on. Numbers that the block does not use may be anything. Returns what encode_block() makes of the
  // renumbered rows. If the new numbers keep the order, chunks are copied unread, and damage to them is
  // noticed only when they are read.
  [[nodiscard]] Result<EncodedBlock> encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                                   std::span<const std::uint32_t> new_path,
                                                   std::span<const std::uint32_t> new_rank,
                                                   std::span<const std::uint32_t> new_counter);

  // The rows of all ranks, read one node at a time. The reader must outlive the result. Messages of
  // exceptions begin with the path.
  [[nodiscard]] std::unique_ptr<shard::RowSource> rows();

 private:
  struct State;
  explicit ProfileReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads everything into memory; values and the other matrix tables are sorted by rank, path, ... A large run
// may not fit.
Result<shard::ShardData> read_profile(const std::filesystem::path& path);
Result<shard::ShardData> read_profile_summary(const std::filesystem::path& path);
Result<PathStatisticsTable> read_path_statistics(const std::filesystem::path& path);
Result<std::vector<Source>> read_sources(const std::filesystem::path& path);

// Reads everything once, one node at a time, and checks that the statistics match the rows.
Result<void> check_profile(const std::filesystem::path& path);

}  // namespace clusterprof::profile
