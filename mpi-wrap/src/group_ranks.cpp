// SPDX-License-Identifier: BSD-3-Clause
#include "mpi-wrap/src/group_ranks.hpp"

#include "mpi-wrap/src/hash.hpp"
#include "mpi-wrap/src/library.hpp"
#include "mpi-wrap/src/pages.hpp"
#include "mpi-wrap/src/worlds.hpp"

namespace clusterprof::mpi_wrap {

GroupRanks::~GroupRanks() { free_pages(ranks_, bytes()); }

bool GroupRanks::read_and_free(MPI_Group group) noexcept {
  const auto group_free = CLUSTERPROF_LIBRARY(MPI_Group_free);
  const bool good = group_free != nullptr && read(group);
  if (group_free != nullptr) group_free(&group);
  return good;
}

bool GroupRanks::read(MPI_Group group) noexcept {
  const auto group_size = CLUSTERPROF_LIBRARY(MPI_Group_size);
  bool good = group_size != nullptr && group_size(group, &size_) == MPI_SUCCESS && size_ >= 0;
  if (good && size_ > 0) {
    // Behind them the ranks in the group, 0, 1, ..., and room for the search.
    ranks_ = static_cast<std::int32_t*>(allocate_pages(bytes()));
    good = ranks_ != nullptr;
    for (std::int32_t i = 0; good && i < size_; ++i) ranks_[size_ + i] = i;
    good = good &&
           find_run_ranks(group, size_, ranks_ + size_, ranks_, ranks_ + 2 * static_cast<std::size_t>(size_));
  }
  return good;
}

std::int32_t GroupRanks::lowest() const noexcept {
  std::int32_t found = kUnknownRank;
  for (std::int32_t i = 0; i < size_; ++i) {
    if (ranks_[i] >= 0 && (found < 0 || ranks_[i] < found)) found = ranks_[i];
  }
  return found;
}

std::uint64_t GroupRanks::hash() const noexcept {
  std::uint64_t sum = static_cast<std::uint64_t>(size_);
  for (std::int32_t i = 0; i < size_; ++i) sum = combine(sum, static_cast<std::uint64_t>(ranks_[i]));
  return sum;
}

}  // namespace clusterprof::mpi_wrap
