// SPDX-License-Identifier: BSD-3-Clause
// The matrix rows of one node, numbered as in the united data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "aggregator/corrected_time.hpp"
#include "aggregator/path_index.hpp"
#include "formats/shard/rank_rows.hpp"
#include "formats/shard/shard_data.hpp"
#include "formats/shard/shard_reader.hpp"

namespace clusterprof::aggregator {

// Finds rows of other tables in the head; kNone for a row that the head does not have.
class HeadIndex {
 public:
  explicit HeadIndex(const shard::ShardData& head);  // must outlive it; as a Merger makes it

  [[nodiscard]] std::vector<std::uint32_t> paths(std::span<const shard::PathId> ids) const {
    return path_index_.find(ids);
  }
  [[nodiscard]] std::vector<std::uint32_t> ranks(std::span<const std::int32_t> world_ranks) const;
  [[nodiscard]] std::vector<std::uint32_t> counters(std::span<const std::string> names) const;
  [[nodiscard]] std::uint32_t node(const std::string& name) const;

  [[nodiscard]] const shard::ShardData& head() const { return head_; }
  // For a row of ranks: how many ranks of the same node come before it.
  [[nodiscard]] std::uint32_t place_in_node(std::uint32_t rank) const { return place_in_node_[rank]; }
  // Rows of ranks of the node, ascending.
  [[nodiscard]] std::span<const std::uint32_t> ranks_of(std::uint32_t node) const { return ranks_of_[node]; }

 private:
  const shard::ShardData& head_;
  PathIndex path_index_;
  std::vector<std::uint32_t> place_in_node_;
  std::vector<std::vector<std::uint32_t>> ranks_of_;  // by node
};

// Collects a node's rows. One object can be used for one node after another and keeps its memory.
class NodeRows {
 public:
  explicit NodeRows(const HeadIndex& index) : index_(index) {}

  void begin(std::uint32_t node);
  // Adds rows, except those whose rank is kNone by then. Returns false when they have a path or a counter
  // that the head does not have.
  [[nodiscard]] bool add(shard::MatrixRows rows, std::span<const std::uint32_t> new_path,
                         std::span<const std::uint32_t> new_rank, std::span<const std::uint32_t> new_counter);
  // Unites rows with the same key and corrects their times for the profile.
  void correct(TimeCorrector& corrector);
  // Unites rows with the same key and sorts them by rank.
  void arrange();
  // Does the same, and passes the rows to `use` rank by rank.
  void for_each_rank(const std::function<void(const shard::RankRows&)>& use);
  // After arrange(): the rows by path, rank, ...; leaves the object empty.
  [[nodiscard]] shard::MatrixRows take_by_path();

 private:
  template <typename Row, typename Key>
  void sort(std::vector<Row>& rows, std::size_t keys, Key key_of);
  template <typename Row>
  void arrange(std::vector<Row>& rows);
  template <typename Row>
  void by_path(std::vector<Row>& rows);

  const HeadIndex& index_;
  std::uint32_t node_ = 0;
  shard::MatrixRows rows_;
  std::vector<std::uint32_t> first_;
  // Where rows are sorted to. Keeps the memory of one table.
  std::tuple<std::vector<shard::Value>, std::vector<shard::PathCounter>, std::vector<shard::DataAccess>>
      sorted_;
};

}  // namespace clusterprof::aggregator
