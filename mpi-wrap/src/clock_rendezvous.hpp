// SPDX-License-Identifier: BSD-3-Clause
// Who takes part in the exchange of clocks: a link per rank in RUN/.clocks* that is made once, by the rank
// itself or by one that found none (docs/design/0007-clocks-of-nodes.md).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace clusterprof::mpi_wrap {

// In this order, from one thread: offer, then takes_part for others, leave, end. The program's threads may
// run besides. A directory that is a link or somebody else's is not used.
class ClockRendezvous {
 public:
  static constexpr int kMostAsked = 9;

  // False: this rank does not take part. `node` tells nodes apart.
  bool offer(const char* directory, std::uint64_t node) noexcept;

  int rank() const noexcept { return rank_; }

  // Whether that rank takes part. If it has not said so by now it does not, and will find that out.
  bool takes_part(int rank) noexcept;

  // All who look for this rank have done so.
  void leave() noexcept;

  // No rank that was refused can still be on its way.
  void end() noexcept;

 private:
  class LinkDirectory;

  char path_[4096] = {}, name_[64] = {};
  // The directory, from offer to leave: both sides of an edge must look into the same one, come what may.
  bool is_open_ = false;
  int descriptor_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  int rank_ = 0, refused_count_ = 0;
  int refused_[kMostAsked] = {};
};

}  // namespace clusterprof::mpi_wrap
