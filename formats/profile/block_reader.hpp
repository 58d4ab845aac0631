// SPDX-License-Identifier: BSD-3-Clause
// The blocks of a profile: the rows of the matrix tables (values, path_counters, data_accesses) of one node
// each (block_layout.hpp). Internal to formats/profile. Throws h5::H5Error if the file is damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "formats/h5/h5.hpp"
#include "formats/profile/block_layout.hpp"
#include "formats/profile/node_matrix.hpp"
#include "formats/profile/node_times.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"

namespace clusterprof::profile {

// The functions are those of ProfileReader. Several threads may call times() at the same time.
class BlockReader {
 public:
  // Reads where the blocks are, and checks that they follow each other without gaps.
  explicit BlockReader(const h5::Group& root);

  [[nodiscard]] shard::MatrixRows node(std::uint32_t node) const;
  [[nodiscard]] shard::MatrixRows rank(std::uint32_t rank) const;
  [[nodiscard]] NodeTimes times(std::uint32_t node) const;
  // `use` gets the rows of one node at a time.
  void paths(std::uint32_t first_path, std::uint32_t end_path,
             const std::function<void(const shard::MatrixRows&)>& use) const;
  void for_each_rank(const std::function<void(const shard::RankRows&)>& use) const;
  [[nodiscard]] EncodedBlock encoded_block(std::uint32_t node_row, std::uint32_t new_node_row,
                                           std::span<const std::uint32_t> new_path,
                                           std::span<const std::uint32_t> new_rank,
                                           std::span<const std::uint32_t> new_counter) const;

 private:
  // The paths of a block, and the row that each path's rows begin with; a last entry says where they end.
  struct PathList {
    std::vector<std::uint32_t> paths, first_rows;
  };

  void check_places() const;
  void check_node(std::uint32_t node) const;
  template <typename T>
  [[nodiscard]] std::vector<T> read_part(std::size_t node, std::size_t index, std::uint64_t begin,
                                         std::uint64_t end) const;
  [[nodiscard]] PathList read_paths(std::size_t node, std::size_t table) const;
  template <typename Row>
  [[nodiscard]] std::vector<Row> read_rows(std::size_t node, const PathList& list, std::size_t first,
                                           std::size_t end) const;
  [[nodiscard]] shard::MatrixRows read_rows(std::size_t node) const;
  void name_ranks(std::size_t node, shard::MatrixRows& all) const;
  [[nodiscard]] std::optional<EncodedBlock> copied_chunks(std::uint32_t node_row, std::uint32_t new_node_row,
                                                          std::span<const std::uint32_t> new_path,
                                                          std::span<const std::uint32_t> new_rank,
                                                          std::span<const std::uint32_t> new_counter) const;

  std::vector<std::uint32_t> node_of_rank_;  // by row of table ranks
  std::size_t path_count_ = 0, counter_count_ = 0, node_count_ = 0;
  std::vector<BlockPlace> places_;  // by node
  std::vector<std::uint32_t> ranks_, counters_;
  std::vector<h5::ChunkedColumn> columns_;  // in the order of kBlockColumns
};

}  // namespace clusterprof::profile
