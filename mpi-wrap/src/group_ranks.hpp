// SPDX-License-Identifier: BSD-3-Clause
// Ranks in the run of the members of an MPI group.
#pragma once

#include <cstdint>

#include "mpi-wrap/src/mpi_header.hpp"
#include "mpi-wrap/src/rank_map.hpp"

namespace clusterprof::mpi_wrap {

class GroupRanks {
 public:
  GroupRanks() = default;
  GroupRanks(const GroupRanks&) = delete;
  GroupRanks& operator=(const GroupRanks&) = delete;
  ~GroupRanks();

  // Call one of them once per object. False if anything failed; read_and_free frees the group even then.
  bool read(MPI_Group group) noexcept;
  bool read_and_free(MPI_Group group) noexcept;

  std::int32_t size() const noexcept { return size_; }
  bool assign_to(RankMap& map) const noexcept { return map.assign(ranks_, size_); }

  // The lowest one that is known, or kUnknownRank.
  std::int32_t lowest() const noexcept;
  std::uint64_t hash() const noexcept;

 private:
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * 3 * sizeof(std::int32_t); }

  std::int32_t* ranks_ = nullptr;
  std::int32_t size_ = 0;
};

}  // namespace clusterprof::mpi_wrap
