// SPDX-License-Identifier: BSD-3-Clause
// Ranks in the run of a group's members. In the world that the launcher started these are the ranks in
// MPI_COMM_WORLD; spawned worlds follow it (worlds.hpp). Rows, columns, blocks and duplicates of regular
// communicators are an arithmetic sequence and take no memory. Others take 4 bytes per member.
#pragma once

#include <cstdint>

#include "mpi-wrap/src/pages.hpp"

namespace clusterprof::mpi_wrap {

inline constexpr std::int32_t kUnknownRank = -1;

class RankMap {
 public:
  // world_ranks[i] is the rank in the run of member i, negative if unknown. Copies what it needs. False if
  // there is no memory: then all members are unknown.
  bool assign(const std::int32_t* world_ranks, std::int32_t size) noexcept {
    clear();
    size_ = size;
    if (size == 0) return true;
    first_ = world_ranks[0];
    stride_ = size > 1 ? world_ranks[1] - world_ranks[0] : 1;
    bool regular = first_ >= 0;
    for (std::int32_t i = 0; i < size && regular; ++i) {
      regular = world_ranks[i] >= 0 && world_ranks[i] == first_ + static_cast<std::int64_t>(i) * stride_;
    }
    if (regular) return true;
    table_ = static_cast<std::int32_t*>(allocate_pages(bytes()));
    if (table_ == nullptr) {
      size_ = 0;
      return false;
    }
    for (std::int32_t i = 0; i < size; ++i) table_[i] = world_ranks[i] < 0 ? kUnknownRank : world_ranks[i];
    return true;
  }

  void assign_regular(std::int32_t first, std::int32_t stride, std::int32_t size) noexcept {
    clear();
    size_ = size;
    first_ = first;
    stride_ = stride;
  }

  // False: the ranks are not an arithmetic sequence.
  bool is_regular(std::int32_t& first, std::int32_t& stride) const noexcept {
    first = first_;
    stride = stride_;
    return table_ == nullptr && size_ > 0;
  }

  bool copy(const RankMap& other) noexcept {
    clear();
    size_ = other.size_;
    first_ = other.first_;
    stride_ = other.stride_;
    if (other.table_ == nullptr) return true;
    return assign(other.table_, other.size_);
  }

  void clear() noexcept {
    free_pages(table_, bytes());
    table_ = nullptr;
    size_ = 0;
  }

  std::int32_t world_rank(std::int32_t member) const noexcept {
    if (member < 0 || member >= size_) return kUnknownRank;
    return table_ != nullptr ? table_[member] : first_ + member * stride_;
  }

  std::int32_t size() const noexcept { return size_; }
  bool is_table() const noexcept { return table_ != nullptr; }

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(std::int32_t); }

  std::int32_t size_, first_, stride_;
  std::int32_t* table_;
};

}  // namespace clusterprof::mpi_wrap
